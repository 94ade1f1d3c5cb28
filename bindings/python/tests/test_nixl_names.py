"""What `nixl` and its modules offer by name, logging, handles as text, questions, memory views."""
import copy
import datetime
import itertools
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
import time

import numpy
import pytest

import nixl
from nixl import _bindings as bind
from nixl._api import nixl_agent, nixl_agent_config
from test_nixl import BLOCK, COUNT, Two, finish, rows

numbers = itertools.count()

NAMES = """BLK_SEG DEFAULT_COMM_PORT DRAM_SEG FILE_SEG HAVE_UCX_GPU_DEVICE_API LOGGING_CONFIG
NIXL_COST_ANALYTICAL_BACKEND NIXL_ERR_BACKEND NIXL_ERR_INVALID_PARAM NIXL_ERR_MISMATCH
NIXL_ERR_NOT_ALLOWED NIXL_ERR_NOT_FOUND NIXL_ERR_NOT_POSTED NIXL_ERR_NOT_SUPPORTED
NIXL_ERR_REPOST_ACTIVE NIXL_ERR_UNKNOWN NIXL_INIT_AGENT NIXL_IN_PROG NIXL_READ NIXL_SUCCESS
NIXL_THREAD_SYNC_DEFAULT NIXL_THREAD_SYNC_NONE NIXL_THREAD_SYNC_RW NIXL_THREAD_SYNC_STRICT
NIXL_WRITE OBJ_SEG VRAM_SEG _api _bindings _utils ba_buf free_passthru get_logger logger logging
malloc_passthru nixlAgent nixlAgentConfig nixlBackendError nixlBind nixlCancelledError
nixlInvalidParamError nixlMismatchError nixlNoTelemetryError nixlNotAllowedError nixlNotFoundError
nixlNotPostedError nixlNotSupportedError nixlRegDList nixlRemoteDList nixlRemoteDisconnectError
nixlRepostActiveError nixlUnknownError nixlXferDList nixlXferTelemetry nixl_agent nixl_agent_config
nixl_backend_handle nixl_cost_t nixl_mem_t nixl_prepped_dlist_handle nixl_status_t
nixl_thread_sync_t nixl_xfer_handle nixl_xfer_op_t set_log_level_by_env setup_logging
verify_transfer""".split()


def make_agent(backends=("SHM",)):
    return nixl_agent(f"names-{next(numbers)}", nixl_agent_config(backends=backends))


def test_the_package_offers_what_nixls_offers():
    """The names of the package `nixl` 1.5.1, but for modules of Python that it imports."""
    assert [name for name in NAMES if not hasattr(nixl, name)] == []
    assert nixl.nixl_thread_sync_t is nixl._api.nixl_thread_sync_t
    assert nixl.nixlBind is nixl._bindings


def test_numbers_are_names_as_text():
    for number, text in ((bind.NIXL_ERR_NOT_FOUND, "nixl_status_t.NIXL_ERR_NOT_FOUND"),
                         (bind.nixlXferDList(bind.FILE_SEG).getType(), "nixl_mem_t.FILE_SEG"),
                         (bind.NIXL_THREAD_SYNC_DEFAULT, "nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE"),
                         (bind.NIXL_WRITE, "nixl_xfer_op_t.NIXL_WRITE")):
        assert str(number) == f"{number}" == "%s" % number == text
        assert repr(number) == f"<{text}: {int(number)}>"


def test_numbers_are_true_and_equal_to_none_of_another_enumeration():
    assert bind.NIXL_SUCCESS and bind.DRAM_SEG and bind.NIXL_READ and bind.NIXL_IN_PROG and bind.VRAM_SEG
    assert (None or bind.DRAM_SEG or bind.VRAM_SEG) is bind.DRAM_SEG
    assert bind.NIXL_SUCCESS == 0 and 0 == bind.NIXL_SUCCESS and not bind.NIXL_SUCCESS != 0
    assert bind.DRAM_SEG != bind.NIXL_READ and not bind.NIXL_READ == bind.DRAM_SEG
    assert bind.DRAM_SEG == bind.nixl_mem_t(0) != bind.VRAM_SEG and bind.DRAM_SEG != "DRAM_SEG"
    counts = {bind.NIXL_SUCCESS: "no", bind.DRAM_SEG: "host", bind.NIXL_READ: "read"}
    assert len(counts) == 3 and {bind.FILE_SEG: "file"}[4] == "file" and hash(bind.FILE_SEG) == hash(4)
    for number in (bind.NIXL_SUCCESS, bind.FILE_SEG, bind.NIXL_ERR_BACKEND):
        assert pickle.loads(pickle.dumps(number)) == copy.deepcopy(number) == number


def test_a_backend_that_reaches_no_peer_is_asked_for_no_messages():
    agent = make_agent(backends=["POSIX", "SHM"])
    for ask in (agent.get_new_notifs, agent.update_notifs):
        with pytest.raises(bind.nixlBackendError, match="posix carries no notifications"):
            ask(["POSIX"])
    with pytest.raises(bind.nixlBackendError, match="posix carries no notifications"):
        agent.check_remote_xfer_done(agent.name, b"", ["POSIX"])
    with pytest.raises(bind.nixlBackendError, match="posix carries no notifications"):
        agent.send_notif(agent.name, b"to myself", "POSIX")
    agent.send_notif(agent.name, b"to myself", "SHM")
    got, deadline = {}, time.monotonic() + 60
    while not got and time.monotonic() < deadline:
        got = agent.get_new_notifs(["POSIX", "SHM"])
    assert got == {agent.name: [b"to myself"]}


def test_a_transfer_that_no_backend_can_move_is_not_found():
    two = Two(backends=["SHM", "POSIX"])
    here, there = (two.mine.get_xfer_descs(rows(memory), "DRAM") for memory in (two.here, two.there))
    local, remote = two.mine.prep_xfer_dlist("", here), two.mine.prep_xfer_dlist(two.peer, there)
    for make in (lambda: two.mine.initialize_xfer("WRITE", here, there, two.peer, backends=["POSIX"]),
                 lambda: two.mine.make_prepped_xfer("WRITE", local, [0], remote, [0], backends=["POSIX"])):
        with pytest.raises(bind.nixlNotFoundError, match="no backend can write .*posix: it does not"):
            make()


@pytest.mark.parametrize("kind", [bytes, bytearray, bytes.decode])
def test_names_and_what_descriptors_say_may_be_text_or_bytes(kind):
    two = Two()
    sides = [two.mine.get_xfer_descs(rows(side), "DRAM") for side in (two.here, two.there)]
    peer = kind(two.theirs.name.encode())
    assert finish(two.mine, two.mine.initialize_xfer("READ", *sides, peer)) == "DONE"
    two.mine.make_connection(peer)
    assert two.mine.check_remote_metadata(peer)
    assert bind.nixlRegDList(bind.FILE_SEG, [(1, 2, 3, kind(b"path"))])[0] == (1, 2, 3, b"path")
    assert bind.nixlRemoteDList(bind.DRAM_SEG, [(1, 2, 3, peer)])[0] == (1, 2, 3, two.theirs.name)


def test_parameters_of_the_bindings_are_called_as_nixls():
    two = Two(capture_telemetry=True)
    sides = [two.mine.get_xfer_descs(rows(side), "DRAM") for side in (two.here, two.there)]
    handle = two.mine.initialize_xfer("WRITE", *sides, two.peer)
    assert len(two.mine.agent.estimateXferCost(req_handle=handle._handle)) == 3
    assert finish(two.mine, handle) == "DONE"
    assert two.mine.agent.getXferTelemetry(reqh=handle._handle).totalBytes == BLOCK * COUNT
    assert bind.nixlAgentConfig().etcdWatchTimeout == datetime.timedelta(seconds=5)


def test_a_configuration_counts_as_it_is_when_an_agent_is_made():
    conf = nixl_agent_config(backends=["SHM"])
    assert conf.sync_mode is None and conf.for_binding().syncMode is bind.NIXL_THREAD_SYNC_NONE
    conf.enable_listen = True
    assert conf.for_binding().syncMode is bind.NIXL_THREAD_SYNC_STRICT
    conf.sync_mode = nixl.nixl_thread_sync_t.NIXL_THREAD_SYNC_RW
    assert conf.for_binding().syncMode is bind.NIXL_THREAD_SYNC_RW
    conf.sync_mode, conf.enable_listen = None, False
    nixl_agent(f"names-{next(numbers)}", conf)


def test_helpers_take_numbers_alone_and_no_bytes_below_none():
    address = nixl.malloc_passthru(0)
    nixl.ba_buf(address, 1)
    nixl.ba_buf(address + 1, -1)
    nixl.verify_transfer(address, address + 1, -1)
    for ask in (lambda: nixl.ba_buf("word", 64), lambda: nixl.verify_transfer(address, None, 1), lambda: nixl.free_passthru("word"),
                lambda: nixl.free_passthru(None), lambda: nixl.malloc_passthru(1.5), lambda: nixl.ba_buf(address, 1.5)):
        with pytest.raises(TypeError):
            ask()
    nixl.free_passthru(address)


def test_logging_is_set_up_as_nixl_does(monkeypatch, log_lines):
    assert set(nixl.LOGGING_CONFIG) >= {"version", "formatters", "handlers", "loggers"}
    nixl.setup_logging()
    logger = logging.getLogger("nixl")
    assert nixl.get_logger("_engine") is logging.getLogger("nixl.engine")
    handlers, level = list(logger.handlers), logger.level
    for word, expected in (("error", logging.ERROR), ("TRACE", logging.DEBUG)):
        monkeypatch.setenv("NIXL_LOG_LEVEL", word)
        nixl.set_log_level_by_env(logger)
        assert logger.level == expected
    monkeypatch.setenv("NIXL_LOG_LEVEL", "LOUD")
    nixl.set_log_level_by_env(logger)
    assert logger.level == logging.DEBUG and "LOUD" in log_lines[-1]
    nixl.setup_logging()
    assert logger.handlers == handlers, "once"
    logger.setLevel(level)


def test_handles_say_what_they_are():
    two = Two()
    side = two.mine.prep_xfer_dlist("", rows(two.here), "DRAM")
    assert re.fullmatch(r"nixl_prepped_dlist_handle\(0x[0-9a-f]+, released=False\)", repr(side))
    there = two.mine.get_xfer_descs(rows(two.there), "DRAM")
    xfer = two.mine.initialize_xfer("READ", two.mine.get_xfer_descs(rows(two.here), "DRAM"), there,
                                    two.peer)
    number = int(xfer)
    for handle in (side, xfer):
        assert (handle._handle, handle._released, handle._agent) == (int(handle), False, two.mine.agent)
    assert repr(nixl.nixl_xfer_handle(agent=two.mine.agent, value=7)) == "nixl_xfer_handle(0x7, released=False)"
    assert repr(xfer) == f"nixl_xfer_handle({number:#x}, released=False)"
    xfer.release()
    assert str(xfer) == f"nixl_xfer_handle({number:#x}, released=True)"
    assert (xfer._handle, xfer._released, xfer._agent) == (number, True, None)


def test_malformed_descriptors_are_none_and_a_logged_line(log_lines):
    class Tensor:
        def is_contiguous(self):
            return False

    agent, table = make_agent(), numpy.zeros((2, 3), numpy.uint64)
    for make, wrong in ((agent.get_xfer_descs, [(1, 2, 3)]), (agent.get_reg_descs, [(1, 2, 3, "")]),
                        (agent.get_remote_descs, [(1, 2, 3, "a")]), (agent.get_xfer_descs, table),
                        (agent.get_reg_descs, table), (agent.get_xfer_descs, Tensor()),
                        (agent.get_reg_descs, [Tensor()]), (agent.get_xfer_descs, [(1, 2)]),
                        (agent.get_xfer_descs, [[1, 2, 3]]), (agent.get_remote_descs, [5])):
        before = len(log_lines)
        assert make(wrong) is None
        assert len(log_lines) == before + 1, wrong
    with pytest.raises(TypeError):
        agent.register_memory([(1, 2, 3)], "DRAM")
    assert "tensor must be contiguous" in "".join(log_lines)


def test_memory_says_its_own_type_whatever_is_said_beside():
    agent, memory = make_agent(), numpy.zeros(BLOCK, numpy.uint8)
    for make in (agent.get_xfer_descs, agent.get_reg_descs):
        for said in (None, "DRAM", "VRAM", "gpu"):
            for given in (memory, [memory], (memory, memory)):
                assert make(given, said).getType() is bind.DRAM_SEG
    agent.deregister_memory(agent.register_memory(memory, "cuda"))


def test_memory_of_no_bytes_is_registered_and_taken_back():
    agent, memory = make_agent(), numpy.zeros(BLOCK, numpy.uint8)
    for empty in (bytearray(), numpy.zeros(0), memory[:0]):
        known = agent.register_memory([memory, empty])
        assert [place[1] for place in known] == [BLOCK, 0]
        agent.prep_xfer_dlist("", rows(memory), "DRAM")
        agent.deregister_memory(known)


def test_a_list_of_nothing_is_an_index_error():
    agent = make_agent()
    for make in (agent.get_xfer_descs, agent.get_reg_descs, agent.get_remote_descs):
        for empty, said in itertools.product(([], ()), (None, "DRAM", "SLATE")):
            with pytest.raises(IndexError):
                make(empty, said)
    for call in (lambda: agent.prep_xfer_dlist("", [], "DRAM"), lambda: agent.register_memory([], "DRAM")):
        with pytest.raises(IndexError):
            call()


def test_a_question_goes_to_one_backend(tmp_path):
    agent = make_agent(["POSIX", "SHM"])
    (tmp_path / "block").write_bytes(b"x" * 7)
    asked = agent.get_reg_descs([(0, 0, 0, str(tmp_path / "block")), (0, 0, 0, "/no/such")], "FILE")
    found = agent.agent.queryMem(asked, agent.backends["POSIX"])
    assert found == agent.query_memory(asked, "POSIX") and found[1] is None
    stat = (tmp_path / "block").stat()
    assert found[0] == {"size": "7", "mode": str(stat.st_mode), "mtime": str(int(stat.st_mtime))}
    assert agent.agent.queryMem(bind.nixlRegDList(bind.FILE_SEG), agent.backends["POSIX"]) == []
    with pytest.raises(TypeError):
        agent.agent.queryMem(asked, [agent.backends["POSIX"]])
    with pytest.raises(ValueError, match="POSIX"):
        agent.query_memory(asked, "SLATE")
    with pytest.raises(bind.nixlNotSupportedError):
        agent.query_memory(asked, "SHM")


def test_plug_ins_are_listed_with_nixls_names_and_memory():
    agent = make_agent()
    assert {"UCX", "GDS", "GDS_MT", "OBJ", "POSIX"} <= set(agent.get_plugin_list())
    assert agent.get_plugin_mem_types("UCX") == ["DRAM_SEG", "VRAM_SEG"]
    for gds in ("GDS", "GDS_MT"):
        assert agent.get_plugin_mem_types(gds) == ["DRAM_SEG", "FILE_SEG", "VRAM_SEG"]
        assert "thread_count" in agent.get_plugin_params(gds)


def test_a_view_of_own_memory_is_a_side_of_transfers():
    two = Two()
    view = two.mine.prep_mem_view(two.mine.get_xfer_descs(rows(two.here), "DRAM"), backends=["SHM"])
    remote = two.mine.prep_xfer_dlist(two.peer, rows(two.there), "DRAM")
    assert isinstance(view, int)
    handle = two.mine.make_prepped_xfer("READ", view, [COUNT - 1, 0], remote, range(1, 3))
    assert finish(two.mine, handle) == "DONE"
    assert two.here[-1] == 2 and two.here[0] == 3 and not two.here[BLOCK:-BLOCK].any()
    two.mine.release_mem_view(view)
    with pytest.raises(bind.nixlInvalidParamError):
        two.mine.make_prepped_xfer("READ", view, [0], remote, [0])


def test_a_view_of_several_peers_names_each_by_its_index():
    mine, here = make_agent(), numpy.arange(2 * BLOCK, dtype=numpy.uint8)
    mine.register_memory(here)
    local = mine.prep_xfer_dlist("", rows(here), "DRAM")
    peers = [make_agent() for _ in range(2)]
    memory = [numpy.zeros(2 * BLOCK, numpy.uint8) for _ in peers]
    elements = [(0, 0, 0, "NULL_AGENT")]
    for peer, of_peer in zip(peers, memory):
        peer.register_memory(of_peer)
        mine.add_remote_agent(peer.get_agent_metadata())
        elements += [(*row, peer.name) for row in rows(of_peer)]
    view = mine.prep_mem_view(mine.get_remote_descs(elements, "DRAM"))
    for mine_at, view_at, of_peer in (([0, 1], [2, 1], memory[0]), ([1], [4], memory[1])):
        handle = mine.make_prepped_xfer("WRITE", local, mine_at, view, numpy.array(view_at))
        assert finish(mine, handle) == "DONE"
    assert (memory[0][:BLOCK] == here[BLOCK:]).all() and (memory[0][BLOCK:] == here[:BLOCK]).all()
    assert (memory[1][BLOCK:] == here[BLOCK:]).all() and not memory[1][:BLOCK].any()
    for wrong in ([0], [5], [1, 3]):
        with pytest.raises((bind.nixlInvalidParamError, bind.nixlNotFoundError)):
            mine.make_prepped_xfer("WRITE", local, [0] * len(wrong), view, wrong)


def test_views_of_nothing_that_can_be_reached_are_refused(log_lines):
    two = Two()
    own = two.mine.get_xfer_descs(rows(two.here), "DRAM")
    for list_of, error in (
            (two.mine.get_remote_descs([(1, 2, 0, "nobody")], "DRAM"), bind.nixlNotFoundError),
            (two.mine.get_remote_descs([(0, 0, 0, "NULL_AGENT")], "DRAM"), bind.nixlNotFoundError),
            (two.mine.get_xfer_descs([(1, 2, 0)], "DRAM"), bind.nixlNotFoundError),
            (bind.nixlXferDList(bind.DRAM_SEG), bind.nixlNotFoundError),
            (two.mine.get_xfer_descs([(1, 2, 0)], "VRAM"), bind.nixlNotSupportedError),
            (None, TypeError)):
        with pytest.raises(error):
            two.mine.prep_mem_view(list_of)
    with pytest.raises(KeyError):
        two.mine.prep_mem_view(own, backends=["SLATE"])
    two.mine.release_mem_view(0)
    assert "memory view" in log_lines[-1]


@pytest.mark.parametrize("address", [0, 4096])
def test_no_bytes_of_memory_are_registered_and_taken_back(address):
    agent, memory = make_agent(), numpy.zeros(BLOCK, numpy.uint8)
    known = agent.register_memory([(address, 0, 0, ""), (memory.ctypes.data, BLOCK, 0, "")], "DRAM")
    agent.prep_xfer_dlist("", rows(memory), "DRAM")
    agent.deregister_memory(known)
    with pytest.raises(bind.nixlNotFoundError):
        agent.prep_xfer_dlist("", rows(memory), "DRAM")
    agent.deregister_memory(agent.register_memory([(address, 0, 0, "")], "DRAM"))


@pytest.mark.parametrize("bytes_of", [65535, 65536, 1 << 20, 16 << 20])
def test_notifications_have_any_size_up_to_16_mib(bytes_of):
    two = Two()
    message = numpy.random.default_rng(bytes_of).bytes(bytes_of)
    two.mine.send_notif(two.peer, message)
    assert received(two, 1) == [message]


def test_a_message_of_more_than_16_mib_is_refused():
    two = Two()
    with pytest.raises(bind.nixlInvalidParamError, match="16777216"):
        two.mine.send_notif(two.peer, b"x" * ((16 << 20) + 1))


def test_a_burst_is_taken_while_the_peer_does_not_look():
    two = Two()
    sent = [b"%d" % number for number in range(10_000)]
    for message in sent:
        two.mine.send_notif(two.peer, message)
    assert received(two, len(sent)) == sent


def test_messages_are_each_found_once_by_threads_that_look_for_them(switch_interval):
    two, count, found = Two(), 2000, []

    def look():
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            if two.theirs.check_remote_xfer_done(two.mine.name, b"block"):
                found.append(1)

    switch_interval(1e-5)
    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(count):
        two.mine.send_notif(two.peer, b"block %d" % number)
    for thread in threads:
        thread.join()
    assert len(found) == count and not any(two.theirs.notifs.values())


def received(two, count):
    deadline, got = time.monotonic() + 120, []
    while len(got) < count and time.monotonic() < deadline:
        two.mine.get_new_notifs()
        got += two.theirs.get_new_notifs().get(two.mine.name, [])
    return got


@pytest.mark.parametrize("passed", [
    {"file_path": "/kv", "use_direct_io": "true", "max_capacity_gb": "4", "shard_dirs": "false", "file_size": "4096"},
    {"active": "True", "prefetch_threshold": "256", "hicache_storage_pass_prefix_keys": "False"},
], ids=["LMCache", "SGLang"])
def test_what_engines_pass_along_with_their_files_is_taken(passed):
    agent = make_agent(backends=[])
    with pytest.raises(bind.nixlInvalidParamError):
        agent.create_backend("POSIX", {**passed, "file_pth": "/kv"})
    agent.create_backend("POSIX", passed)
    assert "POSIX" in agent.backends and not set(agent.get_backend_params("POSIX")) & set(passed)


def test_what_a_list_was_prepared_for_counts_where_a_transfer_names_no_backend():
    agent, memory = make_agent(["SHM", "LOOPBACK"]), numpy.zeros(2 * BLOCK, numpy.uint8)
    agent.register_memory(memory)

    def chosen(local, remote, asked=()):
        sides = [agent.prep_xfer_dlist(peer, [(memory.ctypes.data + offset, BLOCK, 0)], "DRAM", backends)
                 for peer, offset, backends in (("", 0, local), (agent.name, BLOCK, remote))]
        return agent.query_xfer_backend(agent.make_prepped_xfer("WRITE", sides[0], [0], sides[1], [0], backends=asked))

    for name, other in (("SHM", "LOOPBACK"), ("LOOPBACK", "SHM")):
        assert chosen([name], [other]) == chosen([], [name]) == chosen([other], [other], [name]) == name


LOSES_A_PEER = """
from towpath.nixl import nixl_agent, nixl_agent_config
one, other = (nixl_agent(name, nixl_agent_config(backends=["SHM"])) for name in ("one", "other"))
one.add_remote_agent(other.get_agent_metadata())
other.add_remote_agent(one.get_agent_metadata())
other = None
while one.check_remote_metadata("other"):
    one.get_new_notifs()
"""


@pytest.mark.parametrize("level, is_said", [("WARN", True), ("FATAL", False)])
def test_the_library_logs_from_the_level_that_the_environment_names(level, is_said):
    done = subprocess.run([sys.executable, "-c", LOSES_A_PEER], env={**os.environ, "NIXL_LOG_LEVEL": level},
                          text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert ("peer lost" in done.stderr) == is_said, done.stderr


@pytest.mark.parametrize("level, is_said", [("WARN", True), ("FATAL", False)])
def test_the_library_logs_from_the_level_that_a_file_names(level, is_said, tmp_path):
    (tmp_path / "nixl.cfg").write_text(f'NIXL_LOG_LEVEL = "{level}"\n')
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_LOG_LEVEL")}
    done = subprocess.run([sys.executable, "-c", LOSES_A_PEER], text=True, capture_output=True, timeout=60,
                          env={**environment, "NIXL_CONFIG_FILE": str(tmp_path / "nixl.cfg")})
    assert done.returncode == 0, done.stderr
    assert ("peer lost" in done.stderr) == is_said, done.stderr
