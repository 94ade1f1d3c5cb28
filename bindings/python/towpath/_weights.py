"""What tells the weights in a folder from others: a piece of each tensor is digested, not dates. The digest is the same on
every host, and another where the weights were trained on.
"""
import functools
import hashlib
import json
import os
import pathlib

_PIECE, _PIECES = 4096, 256
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def digest_of_adapter(folder: str) -> str:
    """As digest_of_weights(), of weights that may be others while the process lives. Empty: no folder."""
    try:
        stats = [(path.name, path.stat()) for path in sorted(pathlib.Path(folder).iterdir())]
    except (OSError, ValueError):
        return ""
    return _digest_as_of(os.path.realpath(folder), tuple((name, one.st_size, one.st_mtime_ns, one.st_ino) for name, one in stats))


@functools.lru_cache(maxsize=1024)
def _digest_as_of(folder: str, stats) -> str:
    return digest_of_weights.__wrapped__(folder)


@functools.lru_cache(maxsize=None)
def digest_of_weights(folder: str) -> str:
    """Of every weight file its length, its beginning, and pieces: where each tensor begins, as far as the file
    says; else at even distances."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).iterdir()):
        if not path.name.endswith(_WEIGHTS):
            continue
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with open(path, "rb") as file:
            digest.update(file.read(1 << 20))
            for place in _tensors(file, size) or [size * piece // _PIECES for piece in range(_PIECES)]:
                file.seek(place)
                digest.update(file.read(_PIECE))
    return digest.hexdigest()


def _tensors(file, size):
    """Where the tensors of a .safetensors file begin, in order; nothing of any other file. Source: the format's
    description (github.com/huggingface/safetensors): 8 bytes of length, a header of JSON, the tensors."""
    file.seek(0)
    begin = 8 + int.from_bytes(file.read(8), "little")
    if not file.name.endswith(".safetensors") or begin > size:
        return []
    try:
        header = json.loads(file.read(begin - 8))
        return sorted(begin + one["data_offsets"][0] for name, one in header.items() if name != "__metadata__")
    except (ValueError, AttributeError, KeyError, TypeError, IndexError):
        return []  # the engine will say more
