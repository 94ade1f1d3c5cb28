"""The shape of vLLM's caches, proven: what `kv_cache_config` says and what the tensors are must agree.

Since vLLM 0.26 a layer's cache is a view [block, head, token, content], where the content of a token is
its key and its value (of MLA: the latent vector) one behind the other; how it lies in memory is said by
the view's strides alone, and there are six ways. Two heads and two outer indices look the same in a
shape, so nothing here is inferred from one: block, head and token counts come from `kv_cache_config`.
"""
import dataclasses
from typing import Any, Dict, List, Tuple

from towpath.connector import _address, _element_bytes, _strides_of

AXES = "block head token dim"


class GeometryError(ValueError):
    """The caches are not what the connector can keep. Nothing was kept, and nothing was copied."""


@dataclasses.dataclass
class Geometry:
    """`caches` has one tensor for each layer that has a cache of its own, in the order of the layers."""
    caches: Dict[str, Any]
    layer_of: Dict[str, str]  # a layer's name to the name in `caches`: some share a cache
    shape: Tuple[int, int, int, int]  # blocks, heads, tokens (states), elements of a token
    element_bytes: int

    @property
    def block_bytes(self) -> int:
        _, heads, tokens, dim = self.shape
        return len(self.caches) * heads * tokens * dim * self.element_bytes


def only_group(kv_cache_config):
    """The group of all layers. Raises GeometryError where there are several, or none."""
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        kinds = ", ".join(type(group.kv_cache_spec).__name__ for group in groups) or "none"
        raise GeometryError(f"towpath: caches of one group are wanted, and this model has {len(groups)} ({kinds}); "
                            "say --disable-hybrid-kv-cache-manager")
    return groups[0]


def tokens_per_block(kv_cache_config) -> int:
    return only_group(kv_cache_config).kv_cache_spec.block_size


def _spec_of(kv_cache_config, layer):
    spec = only_group(kv_cache_config).kv_cache_spec
    return getattr(spec, "kv_cache_specs", {}).get(layer, spec)


def _expected(kv_cache_config, layer, element_bytes):
    """The view that `kv_cache_config` describes."""
    spec = _spec_of(kv_cache_config, layer)
    content = spec.state_content_size_bytes
    if content % element_bytes:
        raise GeometryError(f"towpath: a token of {layer} has {content} bytes, which is no whole number of "
                            f"elements of {element_bytes} bytes")
    return (kv_cache_config.num_blocks, spec.num_heads, spec.num_states, content // element_bytes)


def _describe(cache):
    return f"{list(cache.shape)} with strides {list(_strides_of(cache))} of {cache.dtype}"


def _are_apart(axes) -> bool:
    """Whether no two indices of axes (stride, extent) meet: each stride passes over all that smaller ones reach."""
    reach = 1
    for stride, extent in sorted(axes):
        if extent > 1 and stride < reach:
            return False
        reach += (extent - 1) * stride
    return True


def _check_disjoint(caches: List[Tuple[str, Any]]):
    """No two elements share bytes, of one layer or of two: layers lie behind each other, or interleave at
    one distance, which is then a stride as the others are."""
    (first_name, first), *_ = caches
    axes, item = list(zip(_strides_of(first), first.shape)), _element_bytes(first)
    if not _are_apart(axes):
        raise GeometryError(f"towpath: elements of {first_name} share bytes: it is {_describe(first)}")
    places = sorted((_address(cache), name) for name, cache in caches)
    gaps = [(after - before, name, other) for (before, name), (after, other) in zip(places, places[1:])]
    length = (sum(stride * (extent - 1) for stride, extent in axes) + 1) * item
    if all(gap >= length for gap, _, _ in gaps):
        return
    least, name, other = min(gaps)
    if least == max(gaps)[0] and least % item == 0 and _are_apart([*axes, (least // item, len(caches))]):
        return
    raise GeometryError(f"towpath: the caches of {name} and {other} share bytes: they begin {least} bytes apart, "
                        f"and are {_describe(first)}")


def prove(kv_caches, kv_cache_config) -> Geometry:
    """Raises GeometryError, with the shape that was expected and the one that is there."""
    if not kv_caches:
        raise GeometryError("towpath: the engine registered no caches")
    own, layer_of, seen = {}, {}, {}
    for name, cache in kv_caches.items():
        key = (_address(cache), tuple(cache.shape), _strides_of(cache))
        layer_of[name] = seen.setdefault(key, name)  # layers that share a cache have one between them
        if layer_of[name] == name:
            own[name] = cache
    first_name, first = next(iter(own.items()))
    element_bytes = _element_bytes(first)
    for name, cache in own.items():
        expected = _expected(kv_cache_config, name, _element_bytes(cache))
        if tuple(cache.shape) != expected:
            raise GeometryError(f"towpath: the cache of {name} should be [block, head, token, content] = "
                                f"{list(expected)} by kv_cache_config, and is {_describe(cache)}")
        alike = (tuple(cache.shape), _strides_of(cache), cache.dtype) == (tuple(first.shape), _strides_of(first), first.dtype)
        if not alike:
            raise GeometryError(f"towpath: layers of one shape are wanted: {first_name} is {_describe(first)}, "
                                f"{name} is {_describe(cache)}")
    _check_disjoint(list(own.items()))
    return Geometry(own, layer_of, tuple(first.shape), element_bytes)
