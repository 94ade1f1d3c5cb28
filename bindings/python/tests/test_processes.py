"""Two processes, as engines run: metadata by a pipe, bytes and notifications by the library."""
import gc
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy
import pytest

import towpath
from towpath.nixl import nixl_agent, nixl_agent_config

SIZE = 1 << 20
spawn = multiprocessing.get_context("spawn")
TIMEOUT = 60


def serve_nixl(pipe):
    """A prefill worker: has a block, waits until it was fetched."""
    agent = nixl_agent("prefill", nixl_agent_config(backends=["SHM"]))
    memory = numpy.arange(SIZE, dtype=numpy.uint8)
    known = agent.register_memory(memory)
    pipe.send((agent.get_agent_metadata(), known.trim()))
    agent.add_remote_agent(pipe.recv())
    while not agent.check_remote_xfer_done("decode", b"got"):
        pass
    agent.send_notif("decode", b"freed")
    pipe.recv()


def test_two_processes_with_nixls_names():
    pipe, other = spawn.Pipe()
    worker = spawn.Process(target=serve_nixl, args=(other,), daemon=True)
    worker.start()
    agent = nixl_agent("decode", nixl_agent_config(backends=["SHM"]))
    memory = numpy.zeros(SIZE, numpy.uint8)
    mine = agent.register_memory(memory).trim()
    assert pipe.poll(TIMEOUT)
    metadata, theirs = pipe.recv()
    peer = agent.add_remote_agent(metadata)
    pipe.send(agent.get_agent_metadata())
    handle = agent.initialize_xfer("READ", mine, theirs, peer, b"got it")
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    assert state == "DONE" and (memory == numpy.arange(SIZE, dtype=numpy.uint8)).all()
    while not agent.check_remote_xfer_done("prefill", b"freed"):
        pass
    pipe.send("done")
    worker.join(TIMEOUT)
    assert worker.exitcode == 0


def serve_shared(pipe):
    """Has memory that the other process maps; lives until it is killed."""
    with towpath.Agent("theirs", ["shm"]) as agent:
        memory = towpath.SharedMemory(SIZE)
        numpy.frombuffer(memory, numpy.uint8)[:] = 42
        known = agent.register(memory)
        pipe.send((agent.metadata(), known.blocks(4096)))
        pipe.recv()


def test_a_killed_peer_is_lost_and_the_survivor_goes_on():
    pipe, other = spawn.Pipe()
    worker = spawn.Process(target=serve_shared, args=(other,), daemon=True)
    worker.start()
    with towpath.Agent("mine", ["shm"]) as agent:
        here = agent.register(towpath.SharedMemory(SIZE))
        assert pipe.poll(TIMEOUT)
        metadata, there = pipe.recv()
        agent.load_metadata(metadata)
        pull = agent.create_transfer("read", here.blocks(4096), "theirs", there)
        pull.post(timeout=TIMEOUT).wait()
        assert (numpy.frombuffer(here.memory, numpy.uint8) == 42).all()
        assert "memfd" in str(pull.explain())
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(TIMEOUT)
        with pytest.raises(towpath.PeerLost):
            while True:  # until the loss has come through
                pull.post(timeout=TIMEOUT).wait()
        assert pull.state in ("ended", "prepared")
        agent.create_transfer("read", here.blocks(4096, 1), agent.name,
                              here.blocks(4096, 1, offset=4096)).post().wait()


LIVES_TO_THE_END = """
import threading, numpy, towpath
from towpath.nixl import nixl_agent, nixl_agent_config
agent = towpath.Agent("a", ["shm", "posix"])
agent.exchange_metadata(listen="127.0.0.1:0")
memory = agent.register(numpy.zeros(100, numpy.uint8))
transfer = agent.create_transfer("read", memory.blocks(50, 1), "a", memory.blocks(50, 1, offset=50))
transfer.post()
other = nixl_agent("n", nixl_agent_config(backends=["SHM"]))
other.register_memory(numpy.zeros(10))
started = threading.Event()
def wait():
    started.set()
    agent.notifications(timeout=1000)
threading.Thread(target=wait, daemon=True).start()
started.wait()
"""


def test_python_ends_with_everything_still_open_and_a_thread_waiting():
    done = subprocess.run([sys.executable, "-c", LIVES_TO_THE_END], timeout=TIMEOUT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


IN_ANOTHER_INTERPRETER = """
import _xxsubinterpreters, towpath
interpreter = _xxsubinterpreters.create(isolated=False)
_xxsubinterpreters.run_string(interpreter, '''
try:
    import towpath
    towpath.DescriptorList("no such kind")
except ImportError as why:
    assert "main interpreter" in str(why), why
    print("refused", flush=True)
''')
_xxsubinterpreters.destroy(interpreter)
with towpath.Agent("a", ["shm"]):
    print("works")
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python has interpreters that refuse such modules by themselves")
def test_a_sub_interpreter_is_refused_instead_of_hanging():
    done = subprocess.run([sys.executable, "-c", IN_ANOTHER_INTERPRETER], timeout=TIMEOUT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\nworks\n"), done.stderr


def test_a_forked_child_leaves_the_file_of_its_parent_alone(tmp_path):
    file = towpath.File(tmp_path / "block", 4096, life="removed_on_close")
    child = os.fork()
    if child == 0:
        del file
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "block").exists()
    del file
    gc.collect()
    assert not (tmp_path / "block").exists()


def test_a_forked_child_leaves_the_agent_of_its_parent_alone():
    agent = towpath.Agent("forks", ["shm"])
    known = agent.register(numpy.zeros(100, numpy.uint8))
    child = os.fork()
    if child == 0:
        try:
            agent.metadata()
        except towpath.NotReady:
            known.release()
            del known, agent
            gc.collect()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    agent.create_transfer("read", known.blocks(50, 1), "forks",
                          known.blocks(50, 1, offset=50)).post().wait()
    assert known.registered
    agent.close()


def test_a_forked_child_is_answered_although_its_parent_was_looking_for_messages():
    agent, children = nixl_agent("forks", nixl_agent_config(backends=["SHM"])), []

    def backends():
        children.append(os.fork())  # in the midst of the parent's call
        if children[0] == 0:
            signal.alarm(TIMEOUT)
            try:
                agent.check_remote_xfer_done("forks", b"")
            except Exception as why:
                os._exit(0 if "forked" in str(why) else 2)
            os._exit(1)
        yield "SHM"

    agent.update_notifs(backends())
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
