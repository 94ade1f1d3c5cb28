"""The name of a model's cache: whatever makes equal tokens unequal KV bytes is part of it."""
import hashlib
import json
import os

import tensorrt_llm

from towpath._weights import digest_of_weights


def _machine(device):
    if device is None:
        return os.uname().machine
    import torch  # whose device it is
    return [torch.cuda.get_device_name(device), str(torch.cuda.get_device_capability(device))]


def name_of_cache(llm_args, tokens_per_block: int, folder: str, dtype, device, model: str = "") -> str:
    """`model`: the user's own name, instead of what the folder has. `dtype`: the cache's."""
    said = {"trtllm": tensorrt_llm.__version__, "cache_dtype": str(dtype), "block": tokens_per_block, "machine": _machine(device)}
    for name in ("dtype", "attn_backend", "quant_config"):
        said[name] = str(getattr(llm_args, name, None))
    if model:
        said["name"] = model
    else:
        said["weights"] = digest_of_weights(os.path.realpath(folder))
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            said["config"] = file.read()
    return f"trtllm {hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()}"


_NO_TOKENS = ("lora_task_id", "multimodal_hashes", "multimodal_positions", "multimodal_lengths", "multimodal_embedding",
              "prompt_embedding_table")


def room_of(request):
    """What makes equal tokens unequal, for this request: its salt. None: its tokens do not say what it computes, or an
    adapter does whose number may be another's in the engine's next life."""
    for name in _NO_TOKENS:
        value = getattr(request, name, None)
        is_empty = value is None or callable(value) or (isinstance(value, (list, tuple)) and not value)
        if not is_empty:
            return None
    salts = [getattr(request, name, None) for name in ("cache_salt", "cache_salt_id")]
    return "" if salts == [None, None] else json.dumps(salts)
