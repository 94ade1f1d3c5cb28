"""One process of bench/rails.py: an agent over `tcp` and memory, in a network namespace. It answers on standard output what it is asked
on standard input, a line of JSON each; its log is on standard error."""
import ctypes
import json
import mmap
import sys
import time
import zlib

import towpath

PAGE = 4096


class Pool:
    """Ordinary memory that says of each page which one it is."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = size

    def stamp(self, seed):
        for page in range(0, self.size, PAGE):
            self.map[page:page + 16] = page.to_bytes(8, "little") + seed.to_bytes(8, "little")

    def checksum(self):
        return zlib.crc32(self.map)


def say(**what):
    print(json.dumps(what), flush=True)


def main(name, size, rails):
    pool = Pool(size)
    agent = towpath.Agent(name, {"tcp": {"rails": rails}})
    held = agent.register_address(pool.address, size, owner=pool.map)
    say(metadata=agent.metadata().hex(), address=pool.address)
    here = towpath.DescriptorList("system")
    here.add(pool.address, size)
    there = towpath.DescriptorList("system")
    transfer = {}
    for line in sys.stdin:
        asked = json.loads(line)
        what = asked["what"]
        if what == "meet":
            peer = agent.load_metadata(bytes.fromhex(asked["metadata"]))
            there.add(asked["address"], size)
            if asked["uses"]:
                transfer = {op: agent.create_transfer(op, here, peer, there) for op in ("read", "write")}
            say(met=peer)
        elif what == "stamp":
            pool.stamp(asked["seed"])
            say(checksum=pool.checksum())
        elif what == "checksum":
            say(checksum=pool.checksum())
        elif what == "move":
            begin = time.monotonic()
            one = transfer[asked["op"]].post(timeout=120)
            say(begun=begin)
            try:
                one.wait()
                say(end=time.monotonic(), begin=begin, failure=None)
            except towpath.Error as why:
                say(end=time.monotonic(), begin=begin, failure=str(why))
    held.release()
    agent.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
