"""What releasing a transfer does, by whom it is released, and what is true of its memory afterwards."""
import contextlib
import gc
import mmap
import os
import struct
import subprocess
import sys
import time
import weakref

import numpy
import pytest

import nixl
from nixl import _bindings as bind
from test_nixl import BLOCK, Two, finish, make_agent, rows, two  # noqa: F401


def test_a_released_transfer_moves_no_byte_any_more():
    two = Two(backends=["TCP"], enable_prog_thread=False)
    size = 64 << 20
    here, there = numpy.ones(size, numpy.uint8), numpy.zeros(size, numpy.uint8)
    two.mine.register_memory(here)
    two.theirs.register_memory(there)
    two.mine.remove_remote_agent(two.peer)
    peer = two.mine.add_remote_agent(two.theirs.get_agent_metadata())
    sides = [two.mine.get_xfer_descs(rows(memory, size), "DRAM") for memory in (here, there)]
    handle = two.mine.initialize_xfer("WRITE", *sides, peer)
    deadline = time.monotonic() + 60
    state = two.mine.transfer(handle)
    while not there.any():
        assert time.monotonic() < deadline
        two.theirs.get_new_notifs()
        state = two.mine.check_xfer_state(handle)
    assert state == "PROC", "it is in the midst"
    while handle.handle is not None:  # at first nobody there answers, for a second
        assert time.monotonic() < deadline
        try:
            handle.release()
        except bind.nixlRepostActiveError:
            two.theirs.get_new_notifs()
    landed = there.copy()
    for _ in range(1000):
        two.theirs.get_new_notifs()
    assert (there == landed).all()


def test_a_handle_that_nobody_can_reach_is_released(two):
    class Holder:
        pass

    local, remote = (two.mine.get_xfer_descs(rows(memory), "DRAM") for memory in (two.here, two.there))
    two.mine.agent.holder = Holder()
    two.mine.agent.holder.handle = two.mine.initialize_xfer("READ", local, remote, two.peer)
    alive = weakref.ref(two.mine.agent.holder)
    two.mine = None
    gc.collect()
    assert alive() is None


def piece_tables():
    """Descriptors of those that this process owns, by inode: docs/formats/shm.md."""
    found = {}
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # of listdir() itself
            if "towpath-shm-pieces" in os.readlink(f"/proc/self/fd/{fd}"):
                found[os.fstat(fd).st_ino] = fd
    return found


@contextlib.contextmanager
def peer_that_stands_still(table):
    """In the middle of a piece, as far as the table's owner can see: the holder of the entry lives."""
    with open("/proc/self/stat") as stat:
        start_time = int(stat.read().rpartition(")")[2].split()[19])
    with mmap.mmap(table, 0) as pieces:
        last = len(pieces) - 64
        pieces[:8] = struct.pack("=Q", last // 64)
        pieces[last:last + 16] = struct.pack("=QQ", os.getpid() << 40 | start_time, 1)
        yield
        pieces[last + 8:last + 16] = struct.pack("=Q", 2)


def test_a_list_whose_bytes_may_still_move_is_named_again():
    before = piece_tables()
    agent = make_agent()
    (table,) = (fd for inode, fd in piece_tables().items() if inode not in before)
    memory = numpy.zeros(2 * BLOCK, numpy.uint8)
    blocks = [(*row, "") for row in rows(memory)]
    one, both = (agent.register_memory(some, "DRAM") for some in (blocks[1:], blocks))
    with peer_that_stands_still(table):  # of `both` the second block is released, since `one` has it too
        with pytest.raises(bind.nixlRepostActiveError, match="in the middle of moving bytes"):
            agent.deregister_memory(both)
    agent.deregister_memory(both)
    agent.deregister_memory(one)
    with pytest.raises(bind.nixlNotFoundError):
        agent.deregister_memory(one)


def test_a_file_with_the_number_of_one_that_is_registered_is_refused(tmp_path):
    agent = nixl.nixl_agent("files", nixl.nixl_agent_config(backends=["POSIX"]))
    number = os.open(tmp_path / "first", os.O_RDWR | os.O_CREAT)
    first = agent.register_memory([(0, BLOCK, number, "")], "FILE")
    agent.deregister_memory(agent.register_memory([(0, BLOCK, number, "")], "FILE"))
    os.close(number)
    assert os.open(tmp_path / "second", os.O_RDWR | os.O_CREAT) == number
    with pytest.raises(bind.nixlInvalidParamError):
        agent.register_memory([(0, BLOCK, number, "")], "FILE")
    agent.deregister_memory(first)
    agent.deregister_memory(agent.register_memory([(0, BLOCK, number, "")], "FILE"))
    os.close(number)


LEFT_TO_PYTHONS_END = """
from towpath.nixl import nixl_xfer_handle
class Holder: pass
holder = Holder()
holder.itself, holder.handle = holder, nixl_xfer_handle(object(), 7)  # that has no such method, as one of a class that went first
"""


def test_a_handle_that_outlives_its_agents_class_ends_quietly():
    done = subprocess.run([sys.executable, "-c", LEFT_TO_PYTHONS_END], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_releases_wrongly_at_the_end_is_reported_and_stops_nobody():
    class Agent:
        def releaseXferReq(self, handle):
            raise ValueError(f"no {handle}")

        dropXferReq = releaseXferReq

    with pytest.raises(ValueError, match="no 7"):
        nixl._api.nixl_xfer_handle(Agent(), 7).release()
    reported = []
    sys.unraisablehook, usual = reported.append, sys.unraisablehook
    try:
        nixl._api.nixl_xfer_handle(Agent(), 8)
    finally:
        sys.unraisablehook = usual
    assert str(reported[0].exc_value) == "no 8"


def test_memory_is_taken_back_from_one_backend_and_others_keep_it():
    two = Two(backends=["SHM", "POSIX"])
    two.mine.deregister_memory(two.registered, ["POSIX"])
    here, there = (two.mine.get_xfer_descs(rows(memory), "DRAM") for memory in (two.here, two.there))
    read = two.mine.initialize_xfer("READ", here, there, two.peer)
    assert finish(two.mine, read) == "DONE" and (two.here == two.there).all()
    two.there[:] = 0  # and the peer's keys, from before, are good
    back = two.theirs.initialize_xfer("READ", there, here, two.mine.name)
    assert finish(two.theirs, back) == "DONE" and (two.here == two.there).all() and two.there.any()
    for backends in (["POSIX"], ["SHM", "POSIX"]):
        with pytest.raises(bind.nixlNotFoundError, match="is not registered with each"):
            two.mine.deregister_memory(two.registered, backends)
    two.mine.deregister_memory(two.registered)
    with pytest.raises(bind.nixlNotFoundError):
        two.mine.deregister_memory(two.registered)
    with pytest.raises(bind.nixlNotFoundError):
        two.mine.prep_xfer_dlist("", here)


def test_a_handle_of_no_backend_is_refused_where_memory_is_taken_back():
    agent, memory = make_agent(backends=["SHM"]), numpy.zeros(BLOCK, numpy.uint8)
    known = agent.register_memory(memory)
    for handle in (77, 1 << 40):
        for descs in (known, bind.nixlRegDList(bind.DRAM_SEG)):
            with pytest.raises(bind.nixlInvalidParamError, match=f"no backend has the handle {handle}"):
                agent.agent.deregisterMem(descs, [handle])
    agent.deregister_memory(known)


def test_memory_that_backends_took_one_by_one_is_taken_back_from_all_at_once():
    agent, memory = make_agent(backends=["SHM", "POSIX"]), numpy.zeros(BLOCK, numpy.uint8)
    for backend in ("SHM", "POSIX"):
        known = agent.register_memory(memory, backends=[backend, backend])
    agent.deregister_memory(known)
    for left in ((), ["SHM"], ["POSIX"]):
        with pytest.raises(bind.nixlNotFoundError):
            agent.deregister_memory(known, left)
    for _ in range(2):
        agent.register_memory(memory)
    agent.deregister_memory(known)
    agent.deregister_memory(known, ["SHM", "POSIX"])
    with pytest.raises(bind.nixlNotFoundError):
        agent.deregister_memory(known)
    nothing = bind.nixlRegDList(bind.VRAM_SEG)
    agent.register_memory(nothing)
    with pytest.raises(bind.nixlNotFoundError, match="no backend of this agent takes"):
        make_agent(backends=["POSIX"]).register_memory([(BLOCK, BLOCK, 0, "")], "BLOCK")
    with pytest.raises(bind.nixlBackendError, match="^NIXL_ERR_BACKEND: .*no backend of this agent takes"):
        make_agent(backends=["POSIX"]).register_memory([(BLOCK, BLOCK, 0, "")], "BLOCK", ["POSIX"])


@pytest.mark.parametrize("backends", [["POSIX", "SHM"], ["SHM", "POSIX"]])
def test_what_one_of_the_backends_named_cannot_take_none_of_them_has(tmp_path, backends):
    agent = make_agent(backends=["POSIX", "SHM"])
    with open(tmp_path / "file", "w+b") as file:
        known = agent.get_reg_descs([(0, BLOCK, file.fileno(), "")], "FILE")
        with pytest.raises(bind.nixlBackendError):
            agent.register_memory(known, backends=backends)
        with pytest.raises(bind.nixlNotFoundError):
            agent.deregister_memory(known)
        agent.deregister_memory(agent.register_memory(known))


def test_the_types_that_serve_backends_are_named_once_each():
    agent = make_agent(backends=["UCX", "SHM"]).agent
    assert agent.types_of([1]) == agent.types_of([1, 2, 1]) == ["shm", "tcp"]
    assert agent.types_of(()) == []
