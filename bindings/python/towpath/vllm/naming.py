"""The name of a model's cache: whatever makes equal tokens unequal KV bytes is part of it.

Keys are digests of tokens and of this name, so neither PYTHONHASHSEED nor the engine's process matters.
"""
import hashlib
import json
import os

import vllm

from towpath._weights import digest_of_weights


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


def name_of_cache(vllm_config, tokens_per_block: int, model: str = "", arrangement: str = "") -> str:
    """`model`: the user's own name, instead of what the model's folder and configuration say. `arrangement`: of a block's
    bytes, where they are kept as they lie."""
    config, cache = vllm_config.model_config, vllm_config.cache_config
    said = {"vllm": vllm.__version__, "dtype": str(getattr(config, "dtype", "")),
            "quantization": str(getattr(config, "quantization", None)),
            "cache_dtype": str(getattr(cache, "cache_dtype", "")), "block": tokens_per_block,
            "arrangement": arrangement, "ranks": vllm_config.parallel_config.world_size, **_kernels(vllm_config)}
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
