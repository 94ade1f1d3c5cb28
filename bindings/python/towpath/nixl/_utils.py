"""Small helpers for tests and examples: bare memory, filled and verified. What is no number is a TypeError: ctypes takes
a str for memory as well.
"""
import ctypes
from operator import index

__all__ = ["ba_buf", "free_passthru", "malloc_passthru", "verify_transfer"]

_ALIGNMENT = 4096
_FILL = 0xBA
_libc = ctypes.CDLL(None, use_errno=True)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def malloc_passthru(size):
    """The address of at least `size` bytes, aligned to 4096. Ends with free_passthru()."""
    rounded = max(_ALIGNMENT, -(-index(size) // _ALIGNMENT) * _ALIGNMENT)
    address = _libc.aligned_alloc(_ALIGNMENT, rounded)
    if not address:
        raise MemoryError(f"{size} bytes")
    return address


def free_passthru(address):
    _libc.free(index(address))


def ba_buf(address, size):
    """Fills with the byte 0xba."""
    ctypes.memset(index(address), _FILL, max(0, index(size)))


def verify_transfer(address, other, size):
    """Raises AssertionError when the two differ, in every build."""
    length = max(0, index(size))
    if ctypes.string_at(index(address), length) != ctypes.string_at(index(other), length):
        raise AssertionError(f"{size} bytes at {address:#x} and {other:#x} differ")
