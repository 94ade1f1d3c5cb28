"""One process of bench/nixl.py: an agent of either library, and what it does when asked.

Only the module that is imported differs: `towpath.nixl` has the interface of NIXL's Python package.
"""
import ctypes
import importlib
import mmap
import os
import random
import sys
import time
import traceback
import zlib
from multiprocessing.connection import Connection

MODULES = {"towpath": "towpath.nixl", "nixl": "nixl_cu12"}
PAGE = 4096
POOL = 256 << 20  # on each side: 16,384 blocks of 16 KiB, or 65,536 of 4 KiB


class Pool:
    """Ordinary memory, as malloc gives it, that says of each page which one it is."""

    def __init__(self):
        self._map = mmap.mmap(-1, POOL, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.stamp(0)

    def stamp(self, seed):
        for page in range(0, POOL, PAGE):
            self._map[page:page + 16] = page.to_bytes(8, "little") + seed.to_bytes(8, "little")

    def checksum(self, blocks, length):
        value = 0
        for offset in blocks:
            value = zlib.crc32(memoryview(self._map)[offset:offset + length], value)
        return value


class Side:
    """What either process does when asked. `begin_*` sets up a case, `sample` measures it once."""

    def __init__(self, library, name, backend):
        self._api = importlib.import_module(MODULES[library])
        self._backend = backend
        self._pool = Pool()
        self._agent = self._new_agent(name)
        self._agent.register_memory([(self._pool.address, POOL, 0, "")], "DRAM")
        self._peer = None
        self._measure(None)

    def _new_agent(self, name):
        return self._api.nixl_agent(name, self._api.nixl_agent_config(backends=[self._backend]))

    def _measure(self, body, units=1, undo=lambda: None, clock=time.perf_counter):
        self._body, self._units, self._undo, self._times, self._clock = body, units, undo, 0, clock

    def _measure_cpu(self, body, units=1, undo=lambda: None):
        """What waits for nobody: the time of the thread on a processor, so that neighbours count less."""
        self._measure(body, units, undo, time.thread_time)

    def metadata(self):
        return self._agent.get_agent_metadata(), self._pool.address

    def connect(self, metadata, address):
        self._peer = _text(self._agent.add_remote_agent(metadata))
        self._peer_address = address

    def sample(self, at_least):
        """Nanoseconds per unit; as many times at once as fill about `at_least` seconds."""
        while True:
            times = self._times or 1
            start = self._clock()
            for _ in range(times):
                self._body()
            took = self._clock() - start
            if self._times or took >= at_least:
                self._times = times
                return took / times / self._units * 1e9
            self._times = 0
            self._grow(times, took, at_least)

    def _grow(self, times, took, at_least):
        wanted = max(2 * times, int(times * at_least / max(took, 1e-9)))
        for _ in range(min(wanted, 10 * times)):  # warm, and a better guess of how many
            self._body()
        self._times = wanted

    def end(self):
        self._undo()
        self._measure(None)

    def stamp(self, seed):
        self._pool.stamp(seed)

    def checksum(self, blocks, length):
        return self._pool.checksum(blocks, length)

    # ---- bytes

    def _descriptors(self, address, blocks, length):
        return self._agent.get_xfer_descs([(address + offset, length, 0) for offset in blocks], "DRAM")

    def begin_transfer(self, operation, local, remote, length):
        """Posted again and waited for; made before. Moved once here, for the check."""
        agent = self._agent
        handle = agent.initialize_xfer(operation, self._descriptors(self._pool.address, local, length),
                                       self._descriptors(self._peer_address, remote, length), self._peer)

        def move():
            state = agent.transfer(handle)
            while state != "DONE":
                state = agent.check_xfer_state(handle)

        move()
        self._measure(move, units=1 if length <= PAGE else len(local) * length,
                      undo=lambda: agent.release_xfer_handle(handle))

    # ---- making transfers

    def begin_describe(self, local, remote, length):
        tuples = [(self._pool.address + offset, length, 0) for offset in local]
        self._measure_cpu(lambda: self._agent.get_xfer_descs(tuples, "DRAM"), len(tuples))

    def begin_prepare(self, local, remote, length):
        agent, peer = self._agent, self._peer
        descriptors = self._descriptors(self._peer_address, remote, length)
        self._measure_cpu(lambda: agent.release_dlist_handle(agent.prep_xfer_dlist(peer, descriptors)),
                      len(remote))

    def begin_make(self, local, remote, length):
        import numpy  # the wheel brings it
        agent = self._agent
        ours = agent.prep_xfer_dlist("NIXL_INIT_AGENT", self._descriptors(self._pool.address, local, length))
        theirs = agent.prep_xfer_dlist(self._peer, self._descriptors(self._peer_address, remote, length))
        indices = numpy.arange(len(local), dtype=numpy.int32)

        def undo():
            agent.release_dlist_handle(ours)
            agent.release_dlist_handle(theirs)

        self._measure_cpu(lambda: agent.release_xfer_handle(
            agent.make_prepped_xfer("READ", ours, indices, theirs, indices)), len(local), undo)

    def begin_initialize(self, local, remote, length):
        agent, peer = self._agent, self._peer
        ours = self._descriptors(self._pool.address, local, length)
        theirs = self._descriptors(self._peer_address, remote, length)
        self._measure_cpu(lambda: agent.release_xfer_handle(
            agent.initialize_xfer("READ", ours, theirs, peer)), len(local))

    # ---- metadata: agents of their own, with many regions

    def _blocks(self, address, regions):
        stride = POOL // regions
        return [(address + index * stride, min(PAGE, stride // 2), 0) for index in range(regions)]

    def _owner_of(self, regions):
        agent = self._new_agent(f"owner of {regions}")
        blocks = [(*block, "") for block in self._blocks(self._pool.address, regions)]
        return agent, agent.register_memory(blocks, "DRAM")

    def begin_register(self, regions, shuffled):
        """A list, registered and taken back."""
        agent = self._new_agent(f"owner of a list of {regions}")
        blocks = [(*block, "") for block in self._blocks(self._pool.address, regions)]
        if shuffled:
            random.Random(1).shuffle(blocks)
        descriptors = agent.get_reg_descs(blocks, "DRAM")
        self._measure_cpu(lambda: agent.deregister_memory(agent.register_memory(descriptors)), regions)

    def begin_metadata(self, regions):
        """The metadata, whose making is then measured."""
        agent, registered = self._owner_of(regions)
        self._measure_cpu(agent.get_agent_metadata, undo=lambda: agent.deregister_memory(registered))
        return agent.get_agent_metadata()

    def sample_bytes(self):
        return len(self._body())

    def sample_first_metadata(self, regions):
        agent, registered = self._owner_of(regions)
        start = time.thread_time()
        agent.get_agent_metadata()
        took = time.thread_time() - start
        agent.deregister_memory(registered)
        return took * 1e9

    def begin_change(self, regions):
        agent, registered = self._owner_of(regions)
        more = [(self._pool.address + POOL - 64, 64, 0, "")]

        def change():
            added = agent.register_memory(more, "DRAM")
            agent.get_agent_metadata()
            agent.deregister_memory(added)

        self._measure_cpu(change, undo=lambda: agent.deregister_memory(registered))

    def begin_load(self, metadata):
        agent = self._new_agent("reader")
        self._measure_cpu(lambda: agent.remove_remote_agent(_text(agent.add_remote_agent(metadata))))

    def begin_use(self, metadata, regions):
        """Loaded, and every region used in one list."""
        agent = self._new_agent("reader")
        blocks = agent.get_xfer_descs(self._blocks(self._peer_address, regions), "DRAM")

        def use():
            peer = _text(agent.add_remote_agent(metadata))
            agent.release_dlist_handle(agent.prep_xfer_dlist(peer, blocks))
            agent.remove_remote_agent(peer)

        self._measure_cpu(use)

    # ---- notifications

    def begin_ping(self):
        def there_and_back():
            self._agent.send_notif(self._peer, b"ping")
            self._next_notification()

        self._measure(there_and_back)

    def sample_ping(self, at_least):
        value = self.sample(at_least)
        self._agent.send_notif(self._peer, b"enough")
        return value

    def sample_rest(self, seconds):
        """Nanoseconds of a processor, of all threads, for a second of nothing; 1 at least, for the ratio's sake."""
        start = time.process_time_ns()
        time.sleep(seconds)
        return max((time.process_time_ns() - start) / seconds, 1)

    def echo(self):
        while self._next_notification() == b"ping":
            self._agent.send_notif(self._peer, b"pong")

    def _next_notification(self):
        while True:
            for messages in self._agent.get_new_notifs().values():
                return messages[0]
            os.sched_yield()  # both sides ask: where cores are few, let the other one


def _text(name):
    return name.decode() if isinstance(name, bytes) else name


def serve(library, name, backend, fd):
    """The life of such a process: answers until the pipe ends. Leaves without the destructors of
    the libraries, which are not what is measured here."""
    pipe = Connection(int(fd))
    try:
        side = Side(library, name, backend)
        pipe.send((True, None))
        while True:
            method, args = pipe.recv()
            pipe.send((True, getattr(side, method)(*args)))
    except (EOFError, OSError):
        pass
    except Exception:
        pipe.send((False, traceback.format_exc(limit=-1).strip().splitlines()[-1]))
    os._exit(0)


if __name__ == "__main__":
    serve(*sys.argv[1:])
