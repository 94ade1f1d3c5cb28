"""Towpath moves bytes between levels of memory and machines, and never lies about it.

    import numpy, towpath

    with towpath.Agent("prefill", ["shm"]) as prefill, towpath.Agent("decode", ["shm"]) as decode:
        theirs = prefill.register(numpy.full(1 << 20, 42, numpy.uint8))
        mine = decode.register(numpy.zeros(1 << 20, numpy.uint8))
        decode.load_metadata(prefill.metadata())
        pull = decode.create_transfer("read", mine.blocks(4096, 64),
                                      "prefill", theirs.blocks(4096, 64, stride=8192))
        pull.post(timeout=5.0).wait()

The guide is docs/guides/python.md; `towpath.nixl` is the same under the names of NIXL.
"""
from towpath._towpath import check_interpreter

check_interpreter()  # each that imports this, though the extension begins once in a process

from towpath._towpath import (Agent, Candidate, DescriptorList, Explanation, File, Prepared,
                              Registration, SharedMemory, Transfer, TransferReport, __version__,
                              backend_types)
from towpath.errors import (AlreadyExists, Cancelled, Corrupt, Denied, Error, Exhausted, Internal,
                            InvalidArgument, IoError, NoTelemetry, NotFound, NotReady, OutOfRange,
                            PeerLost, TimedOut, Unavailable, Unsupported)

__all__ = [
    "Agent", "Candidate", "DescriptorList", "Explanation", "File", "Prepared", "Registration",
    "SharedMemory", "Transfer", "TransferReport", "backend_types", "AlreadyExists", "Cancelled",
    "Corrupt", "Denied", "Error", "Exhausted", "Internal", "InvalidArgument", "IoError",
    "NoTelemetry", "NotFound", "NotReady", "OutOfRange", "PeerLost", "TimedOut", "Unavailable",
    "Unsupported"
]
