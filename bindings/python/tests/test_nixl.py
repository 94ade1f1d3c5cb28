"""towpath.nixl as NIXL's users drive it: two agents in one process, files, errors, pickling."""
import array
import itertools
import operator
import os
import pickle
import time
import weakref
from importlib import metadata

import numpy
import pytest

import nixl
from towpath import _towpath
from nixl import _bindings as bind
from nixl._api import nixl_agent, nixl_agent_config

numbers = itertools.count()
BLOCK, COUNT = 4096, 16


def make_agent(backends=("SHM",), **options):
    return nixl_agent(f"nixl-{next(numbers)}", nixl_agent_config(backends=backends, **options))


def finish(agent, handle):
    state = agent.transfer(handle)
    deadline = time.monotonic() + 60
    while state == "PROC" and time.monotonic() < deadline:
        state = agent.check_xfer_state(handle)
    return state


def rows(array, size=BLOCK):
    base = array.ctypes.data
    return [(base + at, size, 0) for at in range(0, array.nbytes, size)]


class Two:
    def __init__(self, **options):
        self.mine, self.theirs = make_agent(**options), make_agent(**options)
        self.here = numpy.zeros(BLOCK * COUNT, numpy.uint8)
        self.there = numpy.repeat(numpy.arange(1, COUNT + 1, dtype=numpy.uint8), BLOCK)
        self.registered = self.mine.register_memory(self.here)
        self.theirs.register_memory([(self.there.ctypes.data, self.there.nbytes, 0, "")], "DRAM")
        self.peer = self.mine.add_remote_agent(self.theirs.get_agent_metadata())
        self.theirs.add_remote_agent(self.mine.get_agent_metadata())


@pytest.fixture(params=[True, False], ids=["threaded", "polled"])
def two(request):
    return Two(enable_prog_thread=request.param, capture_telemetry=True)


def test_prepared_lists_as_vllm_uses_them(two):
    assert two.peer == two.theirs.name.encode()
    local = two.mine.prep_xfer_dlist("NIXL_INIT_AGENT", rows(two.here), "DRAM")
    remote = two.mine.prep_xfer_dlist(two.peer, two.mine.get_xfer_descs(rows(two.there), "DRAM"))
    ids = numpy.array([2, 3, 9])
    handle = two.mine.make_prepped_xfer("READ", local, ids, remote, ids, notif_msg=b"req-1:1")
    assert finish(two.mine, handle) == "DONE"
    expected = numpy.zeros(COUNT, numpy.uint8)
    expected[ids] = ids + 1
    assert (two.here.reshape(COUNT, BLOCK) == expected[:, None]).all()
    reported = two.mine.get_xfer_telemetry(handle)
    assert reported.totalBytes == 3 * BLOCK and reported.descCount == 3
    assert reported.xferDuration >= reported.postDuration > 0 and reported.startTime > 0
    two.mine.release_xfer_handle(handle)
    two.mine.release_xfer_handle(handle)
    deadline = time.monotonic() + 60
    got = {}
    while not got and time.monotonic() < deadline:
        two.mine.get_new_notifs()  # without a thread, this sends what waits
        got = two.theirs.get_new_notifs()
    assert got == {two.mine.name: [b"req-1:1"]}
    two.mine.release_dlist_handle(local)
    remote.release()


def test_lists_for_one_transfer_as_sglang_uses_them(two):
    table = numpy.array(rows(two.there), numpy.int64)
    source = two.mine.get_xfer_descs(rows(two.here), "DRAM")
    target = two.mine.get_xfer_descs(table, "cpu")
    two.here[:] = 77
    handle = two.mine.initialize_xfer("WRITE", source, target, two.peer.decode(), b"room_kv_last")
    assert finish(two.mine, handle) == "DONE"
    assert (two.there == 77).all()
    deadline = time.monotonic() + 60
    done = False
    while not done and time.monotonic() < deadline:
        two.mine.get_new_notifs()
        done = two.theirs.check_remote_xfer_done(two.mine.name, b"room_kv")
    assert done and not two.theirs.check_remote_xfer_done(two.mine.name, b"room_kv")
    assert two.mine.query_xfer_backend(handle) == "SHM"
    duration, margin, method = two.mine.estimate_xfer_cost(handle)
    assert duration >= 0 and (margin, method) == (0, "ANALYTICAL_BACKEND")  # memory of the host is not timed
    two.here[:] = 78
    state = two.mine.transfer(handle, b"another")  # a finished one is posted again
    while state == "PROC" and time.monotonic() < deadline:
        state = two.mine.check_xfer_state(handle)
    assert state == "DONE" and (two.there == 78).all()


def test_registered_memory_stays_where_it_is(two):
    memory = bytearray(BLOCK)
    known = two.mine.register_memory(memory)
    with pytest.raises(BufferError):
        memory.extend(bytes(BLOCK))
    two.mine.deregister_memory(known)
    memory.extend(bytes(BLOCK))


def test_messages_alone(two):
    two.mine.send_notif(two.peer, b"hello")
    two.mine.send_notif(two.peer, b"again", backend="SHM")
    deadline = time.monotonic() + 60
    while len(two.theirs.notifs.get(two.mine.name, [])) < 2 and time.monotonic() < deadline:
        two.mine.get_new_notifs()
        two.theirs.update_notifs()
    assert two.theirs.notifs == {two.mine.name: [b"hello", b"again"]}
    assert not two.theirs.check_remote_xfer_done(two.mine.name, b"gai")
    assert two.theirs.check_remote_xfer_done(two.mine.name, b"gai", tag_is_prefix=False)
    assert two.theirs.notifs == {two.mine.name: [b"hello"]}


def test_peer_that_is_lost_is_unknown_until_it_is_met_again(two):
    """As vLLM asks after a failed transfer, to meet the peer again."""
    lists = two.mine.get_xfer_descs(rows(two.here), "DRAM"), two.mine.get_xfer_descs(rows(two.there), "DRAM")
    handle = two.mine.initialize_xfer("READ", *lists, two.peer)
    assert finish(two.mine, handle) == "DONE" and two.mine.check_remote_metadata(two.peer)
    two.theirs.agent.close()
    with pytest.raises(bind.nixlRemoteDisconnectError):
        assert finish(two.mine, handle) == "ERR"
        two.mine.transfer(handle)
    assert not two.mine.check_remote_metadata(two.peer)
    two.mine.release_xfer_handle(handle)
    again = nixl_agent(two.theirs.name, nixl_agent_config(backends=["SHM"]))
    again.register_memory(two.there)
    assert two.mine.add_remote_agent(again.get_agent_metadata()) == two.peer
    assert two.mine.check_remote_metadata(two.peer)
    assert finish(two.mine, two.mine.initialize_xfer("READ", *lists, two.peer)) == "DONE"


def test_metadata_of_a_part_and_its_check(two):
    only = two.theirs.get_reg_descs([(two.there.ctypes.data, two.there.nbytes, 0, b"")], "DRAM")
    two.mine.remove_remote_agent(two.peer)
    assert not two.mine.check_remote_metadata(two.peer)
    part = two.theirs.get_partial_agent_metadata(only, inc_conn_info=True)
    assert two.mine.add_remote_agent(part) == two.peer
    assert two.mine.check_remote_metadata(two.peer)
    assert two.mine.check_remote_metadata(two.peer,
                                          two.mine.get_xfer_descs(rows(two.there), "DRAM"))
    assert not two.mine.check_remote_metadata(two.peer,
                                              two.mine.get_xfer_descs([(1, 1, 0)], "DRAM"))
    two.mine.make_connection(two.peer)
    with pytest.raises(bind.nixlNotFoundError):
        two.mine.make_connection("nobody")
    with pytest.raises(bind.nixlMismatchError):
        two.mine.add_remote_agent(b"no metadata")


def test_registrations_are_a_multiset_and_come_back_exactly(two):
    again = two.mine.register_memory(two.here)
    two.mine.deregister_memory(again)
    two.mine.deregister_memory(two.registered)
    with pytest.raises(bind.nixlNotFoundError):
        two.mine.deregister_memory(again)


def test_a_list_is_taken_back_whole_or_not_at_all():
    agent = make_agent(backends=["SHM", "POSIX"])
    memory = numpy.zeros(4 * BLOCK, numpy.uint8)
    blocks = [(*row, "") for row in rows(memory)]
    agent.register_memory(blocks[:3], "DRAM", ["POSIX"])
    known = agent.get_reg_descs(blocks[:3], "DRAM")
    for descs, backends in ((agent.get_reg_descs(blocks, "DRAM"), ()), (known, ["SHM"])):
        with pytest.raises(bind.nixlNotFoundError, match="is not registered"):
            agent.deregister_memory(descs, backends)
    agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(memory)[:3], "DRAM")
    agent.deregister_memory(known, ["POSIX"])
    with pytest.raises(bind.nixlNotFoundError):
        agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(memory)[:1], "DRAM")


def test_errors_are_nixls_and_say_more(two):
    local = two.mine.get_xfer_descs(rows(two.here), "DRAM")
    with pytest.raises(bind.nixlNotFoundError, match="NIXL_ERR_NOT_FOUND.*hint") as raised:
        two.mine.initialize_xfer("READ", local, local, "nobody")
    assert raised.value.code == "not_found" and raised.value.hint
    assert nixl._bindings.nixlNotFoundError.__bases__ == (Exception,)
    with pytest.raises(KeyError):
        two.mine.initialize_xfer("COPY", local, local, two.peer)
    with pytest.raises(KeyError):
        two.mine.get_xfer_descs([(0, 1, 0)], "SLATE")
    for ask in (two.mine.register_memory, two.mine.deregister_memory):
        with pytest.raises(KeyError, match="SLATE.*not created; there are SHM"):
            ask(two.registered, backends=["SLATE"])
    with pytest.raises(KeyError, match="SLATE"):
        two.mine.send_notif(two.peer, b"", "SLATE")
    assert two.mine.get_xfer_descs([(0, 1)], "DRAM") is None
    sides = [two.mine.prep_xfer_dlist("", local), two.mine.prep_xfer_dlist(
        two.peer, rows(two.there), "DRAM")]
    for mine, other in (([], []), ([0], [0, 1]), ([COUNT], [0])):
        with pytest.raises(bind.nixlInvalidParamError):
            two.mine.make_prepped_xfer("READ", sides[0], mine, sides[1], other)
    handle = two.mine.make_prepped_xfer("READ", sides[0], [0], sides[1], [0])
    with pytest.raises(bind.nixlNotPostedError):
        two.mine.check_xfer_state(handle)
    handle.release()
    with pytest.raises(bind.nixlInvalidParamError):
        two.mine.transfer(handle)


def test_handles_are_integers_that_are_released_once(two):
    raw = two.mine.agent
    local, remote = (two.mine.get_xfer_descs(rows(memory), "DRAM") for memory in (two.here, two.there))
    handle = two.mine.initialize_xfer("READ", local, remote, two.peer)
    number = handle.handle
    assert isinstance(handle, nixl._api.nixl_xfer_handle)
    assert int(handle) == operator.index(handle) == number
    assert finish(two.mine, number) == finish(two.mine, handle) == "DONE", "either is good"
    handle.release()
    handle.release()
    assert handle.handle is None
    for gone in (handle, number, 0, number + (1 << 32)):
        with pytest.raises(bind.nixlInvalidParamError, match="NIXL_ERR_INVALID_PARAM"):
            raw.postXferReq(gone)
    with pytest.raises(bind.nixlInvalidParamError):
        raw.queryXferBackend(number)
    another = two.mine.initialize_xfer("READ", local, remote, two.peer)
    assert another.handle != number, "no two transfers have one number"
    number, alive = another.handle, weakref.ref(another)
    assert raw.transfer_of(number).bytes == two.here.nbytes
    del another
    assert alive() is None
    with pytest.raises(bind.nixlInvalidParamError):
        raw.transfer_of(number)
    prepared = two.mine.prep_xfer_dlist("", local)
    number = int(prepared)
    two.mine.release_dlist_handle(prepared)
    raw.releasedDlistH(number)
    with pytest.raises(bind.nixlInvalidParamError):
        two.mine.make_prepped_xfer("READ", prepared, [0], prepared, [0])


def test_the_bindings_take_arguments_by_name(two):
    raw = two.mine.agent
    local = raw.prepXferDlist(agent_name="", descs=two.mine.get_xfer_descs(rows(two.here), "DRAM"))
    remote = raw.prepXferDlist(two.peer, backend=[],
                               descs=two.mine.get_xfer_descs(rows(two.there), "DRAM"))
    handle = raw.makeXferReq(bind.NIXL_READ, local, [1], remote_side=remote, remote_indices=[2],
                             skip_desc_merg=True)
    assert isinstance(handle, int) and finish(two.mine, handle) == "DONE"
    assert (two.here[BLOCK:2 * BLOCK] == 3).all() and not two.here[:BLOCK].any()
    assert raw.releaseXferReq(handle=handle) is bind.NIXL_SUCCESS
    for wrong in (lambda: raw.postXferReq(), lambda: raw.postXferReq(1, b"", 3),
                  lambda: raw.postXferReq(1, reqh=1), lambda: raw.postXferReq(1, message=b""),
                  lambda: raw.getNotifs([1]), lambda: raw.postXferReq("one"), lambda: raw.postXferReq(1, 5),
                  lambda: raw.genNotif(two.peer, None), lambda: raw.genNotif(None, b"")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="nixl_xfer_op_t"):
        raw.makeXferReq(2, local, [1], remote, [1])
    had = {two.theirs.name: [b"before"]}
    two.theirs.send_notif(two.mine.name, b"after")
    deadline = time.monotonic() + 60
    while len(got := raw.getNotifs(had)[two.theirs.name]) < 2 and time.monotonic() < deadline:
        pass
    assert got == [b"before", b"after"] and had == {two.theirs.name: [b"before"]}


def test_no_figures_unless_asked_for(monkeypatch):
    two = Two()
    descs = two.mine.get_xfer_descs(rows(two.here), "DRAM")
    remote = two.mine.get_xfer_descs(rows(two.there), "DRAM")
    handle = two.mine.initialize_xfer("READ", descs, remote, two.peer)
    assert finish(two.mine, handle) == "DONE"
    with pytest.raises(bind.nixlNoTelemetryError):
        two.mine.get_xfer_telemetry(handle)
    two = Two(capture_telemetry=True)
    with pytest.raises(bind.nixlNotPostedError):
        two.mine.get_xfer_telemetry(two.mine.initialize_xfer(
            "READ", *(two.mine.get_xfer_descs(rows(memory), "DRAM") for memory in (two.here, two.there)), two.peer))
    monkeypatch.setenv("NIXL_TELEMETRY_ENABLE", "perhaps")
    with pytest.raises(bind.nixlInvalidParamError):
        make_agent()


def test_files_as_storage_tiers_use_them(tmp_path):
    agent = make_agent(backends=[])
    agent.create_backend("POSIX", {})
    assert "FILE_SEG" in agent.get_backend_mem_types("POSIX")
    path = tmp_path / "block"
    memory = numpy.arange(BLOCK, dtype=numpy.uint8)
    host = agent.register_memory(memory)
    with open(path, "w+b") as file:
        disk = agent.register_memory([(0, 0, file.fileno(), "")], "FILE")
        there = agent.get_xfer_descs([(0, BLOCK, file.fileno())], "FILE")
        push = agent.initialize_xfer("WRITE", host.trim(), there, agent.name)
        assert finish(agent, push) == "DONE"
        memory[:] = 0
        pull = agent.initialize_xfer("READ", host.trim(), there, agent.name)
        assert finish(agent, pull) == "DONE"
        agent.deregister_memory(disk)
    assert (memory == numpy.arange(BLOCK, dtype=numpy.uint8)).all()
    found = agent.query_memory([(0, 0, 0, str(path)), (0, 0, 0, str(tmp_path / "no"))], "POSIX",
                               mem_type="FILE")
    assert found[0]["size"] == str(BLOCK) and found[1] is None


def test_a_short_file_is_an_error_not_data(tmp_path):
    agent = make_agent(backends=["POSIX"])
    (tmp_path / "short").write_bytes(b"x" * 100)
    memory = agent.register_memory(numpy.zeros(BLOCK, numpy.uint8))
    with open(tmp_path / "short", "r+b") as file:
        agent.register_memory([(0, 0, file.fileno(), "")], "FILE")
        there = agent.get_xfer_descs([(0, BLOCK, file.fileno())], "FILE")
        pull = agent.initialize_xfer("READ", memory.trim(), there, agent.name)
        with pytest.raises(Exception, match="NIXL_ERR"):
            finish(agent, pull)


def test_lists_change_compare_and_pickle():
    lists = [bind.nixlXferDList(bind.DRAM_SEG, [(1, 2, 3), (4, 5, 6)]),
             bind.nixlRegDList(bind.FILE_SEG, [(1, 2, 3, "p"), (4, 5, 6, b"\xff")]),
             bind.nixlRemoteDList(bind.DRAM_SEG, [(1, 2, 3, "a"), (4, 5, 6, "b")])]
    for descs in lists:
        again = pickle.loads(pickle.dumps(descs))
        assert again == descs and again.getType() is descs.getType() and again.descCount() == 2
        first = descs[0]
        with pytest.raises(bind.nixlNotFoundError):
            descs.index((9, *first[1:]))
        descs.append(first)
        descs[1] = first
        assert descs != again and descs.index(first) == 0 and [*descs] == [first] * 3
        descs.remDesc(0)
        assert len(descs) == 2
        with pytest.raises(IndexError):
            descs[2]
        with pytest.raises(TypeError):
            descs[0] = (1,)
        descs.clear()
        assert descs.isEmpty() and descs
    assert lists[1].getType() is bind.FILE_SEG
    assert bind.nixlRegDList(bind.FILE_SEG, [(1, 2, 3, "p")])[0] == (1, 2, 3, b"p")
    assert bind.nixlRegDList(bind.FILE_SEG, [(1, 2, 3, "p"), (4, 5, 6, "q")]).index((4, 5, 6, "another")) == 1
    assert bind.nixlRegDList(type=bind.FILE_SEG, descs=[(1, 2, 3, "p")])[0] == (1, 2, 3, b"p")
    assert bind.nixlXferDList(type=bind.DRAM_SEG, init_size=2).descCount() == 2
    empty = bind.nixlXferDList(bind.DRAM_SEG, 3)
    empty[2] = (7, 8, 9)
    assert [*empty] == [(0, 0, 0), (0, 0, 0), (7, 8, 9)]
    with pytest.raises(ValueError):
        bind.nixlXferDList(9)


def test_serialized_lists_come_back_and_nothing_else_does():
    agent = make_agent()
    descs = agent.get_xfer_descs(rows(numpy.zeros(BLOCK * 3, numpy.uint8)), "DRAM")
    assert agent.deserialize_descs(agent.get_serialized_descs(descs)) == descs
    with pytest.raises(pickle.UnpicklingError):
        agent.deserialize_descs(pickle.dumps(print))


def test_which_backends_there_are():
    agent = make_agent()
    assert {"SHM", "POSIX", "LOOPBACK"} <= set(agent.get_plugin_list())
    assert "DRAM_SEG" in agent.get_plugin_mem_types("SHM")
    assert agent.get_plugin_params("no such") == {} and agent.get_plugin_mem_types("no") == []
    agent.create_backend("POSIX", agent.get_plugin_params("POSIX"))
    assert set(agent.backends) == {"SHM", "POSIX"}
    with pytest.raises(bind.nixlNotFoundError, match="no such"):
        agent.create_backend("no such")
    with pytest.raises(bind.nixlInvalidParamError):
        agent.create_backend("POSIX")
    with pytest.raises(bind.nixlNotFoundError, match="not in this build"):
        make_agent(backends=["SLATE"])
    assert set(make_agent(backends=["SLATE", "SHM"]).backends) == {"SHM"}
    conf = nixl_agent_config(backends=["POSIX"])
    assert set(nixl_agent("configured", conf, instantiate_all=True).backends) == {"POSIX"}
    with pytest.raises(TypeError):
        nixl_agent_config(sync_mode=1)
    with pytest.raises(ValueError):
        nixl_agent("")


with_plugins = pytest.mark.skipif("EXAMPLE_PLUGINS" not in os.environ,
                                  reason="ctest says where the plug-in is")


@with_plugins
def test_plugins_come_from_the_directory_that_the_environment_names(monkeypatch):
    assert "EXAMPLE" not in make_agent().get_plugin_list()
    monkeypatch.setenv("NIXL_PLUGIN_DIR", os.environ["EXAMPLE_PLUGINS"])
    agent = make_agent(backends=["EXAMPLE"])
    assert "EXAMPLE" in agent.get_plugin_list() and agent.agent._agent.backends == ["example"]


@with_plugins
def test_a_plugin_serves_every_agent_of_the_process(monkeypatch):
    monkeypatch.setenv("NIXL_PLUGIN_DIR", os.environ["EXAMPLE_PLUGINS"])
    under_way = []
    for number in range(1, 4):
        agent = make_agent(backends=["EXAMPLE"], enable_prog_thread=False)
        memory = numpy.repeat(numpy.array([number, 0], numpy.uint8), 4 * BLOCK)
        agent.register_memory(memory)
        full, empty = (agent.get_xfer_descs(rows(half), "DRAM") for half in numpy.split(memory, 2))
        handle = agent.initialize_xfer("WRITE", full, empty, agent.name)
        assert agent.transfer(handle) == "PROC"
        under_way.append((number, agent, memory, handle))
    for number, agent, memory, handle in under_way:
        while agent.check_xfer_state(handle) == "PROC":
            assert (memory[:4 * BLOCK] == number).all()
        assert (memory == number).all()


def test_the_environment_says_how_long_a_transfer_may_take(monkeypatch):
    assert _towpath.settings()["transfer_timeout"] == 300
    monkeypatch.setenv("TOWPATH_TRANSFER_TIMEOUT_MS", "1500")
    assert _towpath.settings()["transfer_timeout"] == 1.5
    made = []

    class Agent(_towpath.Agent):
        def __init__(self, *names, **options):
            made.append(options["default_timeout"])
            super().__init__(*names, **options)

    monkeypatch.setattr(_towpath, "Agent", Agent)
    make_agent()
    make_agent(transfer_timeout=2.5)
    assert made == [1.5, 2.5]


def test_an_agent_talks_to_itself():
    agent = make_agent()
    memory = numpy.arange(2 * BLOCK, dtype=numpy.uint8)
    agent.register_memory(memory)
    half = [agent.get_xfer_descs([row], "DRAM") for row in rows(memory)]
    memory[BLOCK:] = 1
    assert finish(agent, agent.initialize_xfer("READ", half[1], half[0], agent.name)) == "DONE"
    assert (memory[BLOCK:] == memory[:BLOCK]).all()


def test_memory_that_was_dropped_stays_while_it_is_registered():
    two = Two()
    memory = numpy.full(BLOCK, 3, numpy.uint8)
    known = two.theirs.register_memory(memory)
    two.mine.add_remote_agent(two.theirs.get_agent_metadata())
    there = known.trim()
    del memory, known
    here = two.mine.get_xfer_descs(rows(two.here)[:1], "DRAM")
    assert finish(two.mine, two.mine.initialize_xfer("READ", here, there, two.peer)) == "DONE"
    assert (two.here[:BLOCK] == 3).all()


@pytest.mark.parametrize("view", [memoryview(bytearray(2 * BLOCK))[:BLOCK],
                                  memoryview(array.array("q", range(BLOCK // 8)))])
def test_a_view_of_memory_is_memory(view):
    two = Two()
    known = two.mine.register_memory(view)
    there = two.theirs.get_xfer_descs(rows(two.there)[:1], "DRAM")
    pull = two.mine.initialize_xfer("READ", two.mine.get_xfer_descs(view), there, two.peer)
    assert finish(two.mine, pull) == "DONE"
    assert bytes(view) == two.there[:BLOCK].tobytes()
    two.mine.deregister_memory(known)


@pytest.mark.parametrize("view, why", [(memoryview(b"fixed"), "read-only"),
                                       (memoryview(bytearray(8)).toreadonly(), "read-only"),
                                       (memoryview(bytearray(8))[::2], "without gaps")])
def test_a_view_that_no_peer_may_write_is_refused_by_name(view, why):
    with pytest.raises(bind.nixlInvalidParamError, match=why):
        make_agent().register_memory(view)


def test_the_version_is_one_that_consumers_accept():
    """vLLM 0.33 asks the distributions that bring a module `nixl`, if there are any."""
    assert tuple(map(int, nixl.__version__.split("."))) >= (1, 5, 0)
    for name in getattr(metadata, "packages_distributions", dict)().get("nixl", ()):  # since Python 3.10
        assert metadata.version(name) == nixl.__version__


def test_the_names_that_consumers_import():
    from nixl._api import nixlBind  # noqa: F401
    from nixl._bindings import (DRAM_SEG, NIXL_IN_PROG, nixlBackendError,  # noqa: F401
                                nixlCancelledError, nixlRemoteDisconnectError, nixlXferTelemetry)
    from nixl.logging import get_logger
    from nixl._utils import ba_buf, free_passthru, malloc_passthru, verify_transfer
    assert get_logger(__name__).name.startswith("nixl") and nixl.nixl_agent is nixl_agent
    first, second = malloc_passthru(5000), malloc_passthru(5000)
    ba_buf(first, 5000)
    ba_buf(second, 5000)
    verify_transfer(first, second, 5000)
    ba_buf(second, 10)
    free_passthru(first)
    free_passthru(second)
    assert bind.nixlAgentConfig().listenPort == nixl.DEFAULT_COMM_PORT == 8888
    assert int(bind.NIXL_ERR_NO_TELEMETRY) == -12 and len(bind._status.EXCEPTIONS) == 16
