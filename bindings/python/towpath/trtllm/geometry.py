"""The shape of TensorRT-LLM's cache, proven: what the model's config.json says and what the tensor is must agree.

The engine registers one tensor [block, layer, keys and values, content of a block]. How heads and tokens lie in the content
is the attention kernels' own matter, and nothing here needs to know: a block is its bytes, of all layers. What must be known is
that they are all of them: a model may have caches beside this tensor (of layers with other head counts, of scales, of
indexers), and a block that was loaded without those would be wrong, and look right.
"""
import dataclasses
import json
import os
from typing import Any, Tuple

from towpath.connector import _strides


class GeometryError(ValueError):
    """The cache is not what the connector can keep. Nothing was kept, and nothing was copied."""


@dataclasses.dataclass
class Pool:
    """The engine's tensor as rows of bytes, one for each block."""
    rows: Any
    device: Any  # None: the host's memory

    @property
    def block_bytes(self) -> int:
        return self.rows.shape[1]


def _need(condition, says):
    if not condition:
        raise GeometryError(f"towpath: {says}")


def check_engine(llm_args) -> int:
    """Tokens in a block. Raises GeometryError for an engine whose blocks cannot be kept, with what can be done."""
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"):
        count = getattr(llm_args, name, 1)
        _need(count in (None, 1), f"{name} is {count}, and only 1 is supported: rank 0 alone is asked what can be loaded, and a "
                                  "promise that another rank cannot keep could not be taken back")
    beams = getattr(llm_args, "max_beam_width", 1)
    _need(beams in (None, 1), f"max_beam_width is {beams}, and only 1 is supported")
    for name in ("speculative_config", "sparse_attention_config"):
        _need(getattr(llm_args, name, None) is None, f"{name} is set, and caches with drafts or indexers are not kept: leave it out")
    cache = llm_args.kv_cache_config
    window, host, of_type = (getattr(cache, name, None) for name in ("max_attention_window", "host_cache_size", "dtype"))
    _need(window is None, f"kv_cache_config.max_attention_window is {window}, and sliding windows are not kept: leave it out")
    _need(not host, f"kv_cache_config.host_cache_size is {host}, and blocks that wander to the engine's own host memory cannot be "
                    "found: set it to 0, Towpath's \"memory\" is there instead")
    _need(of_type != "nvfp4", "kv_cache_config.dtype is 'nvfp4', whose scales lie in a tensor of their own: choose another")
    _need(getattr(cache, "use_kv_cache_manager_v2", False) is not True, V2)
    return cache.tokens_per_block


V2 = ("the cache is KVCacheManagerV2's, which describes it in parts and may break a promise: set "
      "kv_cache_config.use_kv_cache_manager_v2=False")


def model_folder(llm_args, settings) -> str:
    """Where the model's config.json is."""
    for place in (settings.model_folder, str(getattr(llm_args, "model", ""))):
        if place and os.path.isfile(os.path.join(place, "config.json")):
            return place
    raise GeometryError(f"towpath: there is no config.json in {settings.model_folder or getattr(llm_args, 'model', '')!r}, by which "
                        "the cache's shape is proven: say \"model_folder\" in TRTLLM_TOWPATH")


def expected_shape(folder: str, tokens_per_block: int) -> Tuple[int, int, int]:
    """(layers, keys and values, elements of a block of either), by config.json. Raises GeometryError for a model whose cache is
    more than that."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    for key in ("vision_config", "audio_config"):
        _need(config.get(key) is None, f"config.json has a {key}, and what prompts with images or sounds compute is not kept")
    config = config.get("text_config") or config
    for key in ("index_head_dim", "layers_block_type", "hybrid_override_pattern", "linear_num_value_heads", "mamba_d_state"):
        _need(config.get(key) is None, f"config.json has {key}: models with states or indexers beside their attention are not kept")
    window = config.get("sliding_window")
    _need(window is None or config.get("use_sliding_window") is False,
          f"config.json has a sliding_window of {window}, and sliding windows are not kept")
    for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"):
        _need(config.get(key), f"config.json has no {key}, and the cache's shape cannot be proven without")
    layers = config["num_hidden_layers"]
    if config.get("kv_lora_rank"):  # MLA: one latent vector
        return layers, 1, tokens_per_block * (config["kv_lora_rank"] + config["qk_rope_head_dim"])
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return layers, 2, heads * tokens_per_block * dim


def prove(tensor, folder: str, tokens_per_block: int) -> Pool:
    """Raises GeometryError, with the shape that was expected and the one that is there."""
    layers, outer, content = expected_shape(folder, tokens_per_block)
    shape = tuple(tensor.shape)
    is_so = len(shape) == 4 and shape[0] > 0 and shape[1:] == (layers, outer, content)
    _need(is_so and _strides(tensor) is None,
          f"the cache should be [block, layer, keys and values, content] = [any, {layers}, {outer}, {content}], one element behind "
          f"the other, by config.json with {tokens_per_block} tokens per block, and is {list(shape)} of {tensor.dtype}"
          f"{' with gaps' if is_so else ''}")
    rows = tensor.reshape(shape[0], -1)
    if hasattr(tensor, "untyped_storage"):
        import torch  # whose tensor it is
        rows = rows.view(torch.uint8)
    else:
        rows = rows.view("uint8")
    device = getattr(tensor, "device", None)
    return Pool(rows, None if getattr(device, "type", "cpu") == "cpu" else device)
