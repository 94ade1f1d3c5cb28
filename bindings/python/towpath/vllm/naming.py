"""The name of a model's cache: whatever makes equal tokens unequal KV bytes is part of it.

Keys are digests of tokens and of this name, so neither PYTHONHASHSEED nor the engine's process matters.
"""
import hashlib
import json
import os

import vllm

from towpath._weights import digest_of_weights


def _model(config):
    """Where the model is, and what is there. Of weights that are streamed from a store (`model_weights`) only the rest of the
    model's files is in its folder."""
    place = str(getattr(config, "model", ""))
    streamed = getattr(config, "model_weights", "")
    if streamed:
        return {"model": str(streamed), "revision": getattr(config, "revision", None)}
    if os.path.exists(place):
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
    if os.environ.get("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", "").lower() in ("true", "1"):
        kernels["shuffled"] = True
    return kernels


def facts_of_engine(vllm_config) -> dict:
    """What arranges the bytes of a block, of any model."""
    return {"vllm": vllm.__version__, **_kernels(vllm_config)}


# Of vLLM's options for images: what changes their embeddings, and is not in the digest of an image.
_OF_IMAGES = ("mm_processor_kwargs", "media_io_kwargs", "video_pruning_rate", "video_pruning_method", "mm_encoder_attn_dtype")


def _configured(config):
    """Beside the model's own configuration, and only what was said: quantization as it is loaded, and images."""
    images = getattr(config, "multimodal_config", None)
    scales = getattr(images, "mm_encoder_fp8_scale_path", None)
    said = {"quantization_config": getattr(config, "quantization_config", None),
            "image_scales": digest_of_weights(scales) if scales and os.path.isfile(scales) else scales,
            **{name: getattr(images, name, None) for name in _OF_IMAGES}}
    return {name: str(value) for name, value in said.items() if value}


def facts_of_model(vllm_config, model: str = "") -> dict:
    """What makes other bytes of equal tokens, of the model and of how it is loaded. `model`: the user's own name, instead of
    what the model's folder and configuration say."""
    config = vllm_config.model_config
    hf_config = getattr(config, "hf_config", None)
    text = hf_config.to_json_string() if hasattr(hf_config, "to_json_string") else None
    said = {"quantization": str(getattr(config, "quantization", None)), **_configured(config)}
    if any(f'"{rope}"' in (text or "") for rope in ("longrope", "su")):
        # Its keys are turned by what a request may be at most, not by what it is: Phi3LongRoPEScaledRotaryEmbedding.
        said["longest"] = getattr(config, "max_model_len", None)
    if model:
        return {**said, "name": model}
    drafts = getattr(getattr(vllm_config, "speculative_config", None), "model", None)
    return {**said, **_model(config), "config": text, "drafts": str(drafts) if drafts else None}


def knows_images(vllm_config) -> bool:
    """Whether an image's identifier is of its content. Where nothing in vLLM needs that it is a number of this process
    (renderers/base.py, _process_mm_uuids), which another life, or another replica, gives to another image."""
    images = getattr(vllm_config.model_config, "multimodal_config", None)
    return bool(getattr(images, "mm_processor_cache_gb", 1) or getattr(vllm_config.cache_config, "enable_prefix_caching", True))


def name_of_cache(vllm_config, tokens_per_block: int, model: str = "", arrangement: str = "") -> str:
    """`model`: as for facts_of_model(). `arrangement`: of a block's bytes, where they are kept as they lie."""
    config, cache = vllm_config.model_config, vllm_config.cache_config
    said = {"dtype": str(getattr(config, "dtype", "")),
            "cache_dtype": str(getattr(cache, "cache_dtype", "")), "block": tokens_per_block,
            "arrangement": arrangement, "ranks": vllm_config.parallel_config.world_size, **facts_of_engine(vllm_config),
            **facts_of_model(vllm_config, model)}
    text = json.dumps(said, sort_keys=True)
    return f"vllm {hashlib.sha256(text.encode()).hexdigest()}"
