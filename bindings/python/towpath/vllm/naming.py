"""The name of a model's cache: whatever makes equal tokens unequal KV bytes is part of it.

Keys are digests of tokens and of this name, so neither PYTHONHASHSEED nor the engine's process matters.
Of weights in a folder a piece of each tensor is digested, not dates: the name is the same on every host,
and another where the weights were trained on.
"""
import functools
import hashlib
import json
import os
import pathlib

import vllm

_PIECE, _PIECES = 4096, 256
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


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


def _model(config):
    """Where the model is, and what is there."""
    place = str(getattr(config, "model", ""))
    if os.path.isdir(place):
        return {"weights": digest_of_weights(os.path.realpath(place))}
    hf_config = getattr(config, "hf_config", None)
    return {"model": place, "revision": getattr(config, "revision", None),
            "commit": getattr(hf_config, "_commit_hash", None)}


def _kernels(vllm_config):
    """What arranges a block's bytes: attention kernels do, and those of CPUs by what the processor has."""
    from vllm.platforms import current_platform
    backend = getattr(getattr(vllm_config, "attention_config", None), "backend", None)
    kernels = {"device": current_platform.device_type, "backend": str(getattr(backend, "name", backend))}
    if current_platform.device_type == "cpu":
        import torch
        kernels["machine"] = [os.uname().machine, torch.cpu._is_amx_tile_supported(), torch.cpu._is_avx512_supported()]
    else:
        kernels["machine"] = [current_platform.get_device_name(), str(current_platform.get_device_capability())]
    return kernels


def name_of_cache(vllm_config, tokens_per_block: int, model: str = "") -> str:
    """`model`: the user's own name, instead of what the model's folder and configuration say."""
    config, cache = vllm_config.model_config, vllm_config.cache_config
    said = {"vllm": vllm.__version__, "dtype": str(getattr(config, "dtype", "")),
            "quantization": str(getattr(config, "quantization", None)),
            "cache_dtype": str(getattr(cache, "cache_dtype", "")), "block": tokens_per_block,
            "ranks": vllm_config.parallel_config.world_size, **_kernels(vllm_config)}
    if model:
        said["name"] = model
    else:
        said.update(_model(config))
        hf_config = getattr(config, "hf_config", None)
        said["config"] = hf_config.to_json_string() if hasattr(hf_config, "to_json_string") else None
        drafts = getattr(getattr(vllm_config, "speculative_config", None), "model", None)
        said["drafts"] = str(drafts) if drafts else None
    text = json.dumps(said, sort_keys=True)
    return f"vllm {hashlib.sha256(text.encode()).hexdigest()}"
