"""What tells the weights in a folder, or a file, from others: a piece of each tensor is digested, not dates. The digest is the same on
every host, and another where the weights were trained on.
"""
import functools
import hashlib
import json
import pathlib

_PIECE, _PIECES = 4096, 256
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".tensors")


def digest_of_weights(place: str) -> str:
    """Of every weight file its length, its beginning, and pieces: where each tensor begins, as far as the file
    says; else at even distances. They are read again when a length or a date is another. Of a folder without any, whose
    weights are streamed from elsewhere, it is the folder's own name."""
    at = pathlib.Path(place)
    paths = [at] if at.is_file() else sorted(path for path in at.iterdir() if path.name.endswith(_WEIGHTS))
    if not paths:
        return hashlib.sha256(f"no weights in {place}".encode(errors="surrogateescape")).hexdigest()
    stats = [path.stat() for path in paths]
    return _digest_of(tuple((path, one.st_size, one.st_mtime_ns, one.st_ino) for path, one in zip(paths, stats)))


@functools.lru_cache(maxsize=1024)
def _digest_of(files) -> str:
    digest = hashlib.sha256()
    for path, size, *_ in files:
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
        places = [begin + one["data_offsets"][0] for name, one in header.items() if name != "__metadata__"]
    except (ValueError, AttributeError, KeyError, TypeError, IndexError, RecursionError):
        return []  # the engine will say more
    return sorted(places) if all(type(place) is int and begin <= place <= size for place in places) else []
