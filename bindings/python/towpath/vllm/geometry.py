"""The shape of vLLM's caches, proven: what `kv_cache_config` says and what the tensors are must agree.

Since vLLM 0.26 a layer's cache is a view [block, head, token, content], where the content of a token is
its key and its value (of MLA: the latent vector) one behind the other; how it lies in memory is said by
the view's strides alone, and there are six ways. Two heads and two outer indices look the same in a
shape, so nothing here is inferred from one: block, head and token counts come from `kv_cache_config`.

A model whose layers are unlike has several groups of them. Their caches overlay each other in one allocation, and
a block is some group's at a time: there a block is its bytes, a page for each place that a layer may have.
"""
import dataclasses
import os
from typing import Any, Dict, List, Tuple

from towpath.connector import _address, _element_bytes, _strides_of

AXES = "block head token dim"


_APART = "say --disable-hybrid-kv-cache-manager"
_WHOLE = {"FullAttentionSpec", "MLAAttentionSpec"}  # a block is a function of the tokens up to its end


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


def _specs_of(group):
    return list(getattr(group.kv_cache_spec, "kv_cache_specs", {}).values()) or [group.kv_cache_spec]


def _kind_of(spec):
    """("whole" | "window" | "state", tokens of the window), as towpath.connector.Scheduler has it. What is not known is
    refused: a cache that depends on more than the tokens up to its end would be right for its own prompt alone."""
    names = [each.__name__ for each in type(spec).__mro__]
    if getattr(spec, "non_causal", False) or not getattr(spec, "prefix_cacheable", True):
        raise GeometryError(f"towpath: caches of the kind {names[0]} depend on more than the tokens before, and vLLM itself does "
                            "not use them again: serve this model without a connector")
    if "MambaSpec" in names:
        ahead = spec.num_speculative_blocks + spec.num_prefill_checkpoint_blocks
        if spec.mamba_cache_mode != "align" or ahead:
            raise GeometryError(f"towpath: states of layers in the mode {spec.mamba_cache_mode!r} with {ahead} blocks ahead: "
                                "wanted are prefix caching (--enable-prefix-caching, the mode 'align') and no drafts")
        return "state", 0
    if "SlidingWindowSpec" in names:
        return "window", spec.sliding_window - 1 + getattr(spec, "extra_retained_tokens", 0)
    if names[0] not in _WHOLE:
        raise GeometryError(f"towpath: caches of the kind {names[0]} are not kept; {_APART}")
    return "whole", 0


def _kind_of_group(group):
    """Of layers that are one group all are of one kind."""
    kinds = {_kind_of(spec) for spec in _specs_of(group)}
    if len(kinds) != 1:
        raise GeometryError(f"towpath: a group has caches of the kinds {sorted(kinds)}, and one is wanted; {_APART}")
    return kinds.pop()


def groups_of(kv_cache_config) -> List[Tuple[str, int]]:
    """Raises GeometryError for a model that cannot be kept, with what can be done."""
    groups = kv_cache_config.kv_cache_groups
    sizes = {group.kv_cache_spec.block_size for group in groups}
    if len(sizes) != 1:
        raise GeometryError(f"towpath: the {len(groups)} groups of this model have blocks of {sorted(sizes)} tokens, and one "
                            f"size is wanted; {_APART}")
    return [_kind_of_group(group) for group in groups]


def is_plain(groups) -> bool:
    """One group, of which all is needed: any cache can be kept, its layers one by one."""
    return groups == [("whole", 0)]


def arrangement(kv_cache_config) -> str:
    """Of unlike layers, whose blocks are kept as the bytes of pages: what says what those bytes are."""
    specs = [_specs_of(group)[0] for group in kv_cache_config.kv_cache_groups]
    return f"{getattr(kv_cache_config, 'kv_cache_layout', None)} {specs} {os.environ.get('VLLM_SSM_CONV_STATE_LAYOUT')}"


def tokens_per_block(kv_cache_config) -> int:
    return kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size


def _spec_of(kv_cache_config, layer):
    spec = kv_cache_config.kv_cache_groups[0].kv_cache_spec
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


def _first_of(cache):
    """A layer with a state has several tensors in its page."""
    return cache[0] if isinstance(cache, (list, tuple)) else cache


def _allocation(kv_caches):
    """The bytes that all caches lie in. Raises GeometryError where they are not one allocation."""
    firsts = [_first_of(cache) for cache in kv_caches.values()]
    if not hasattr(firsts[0], "untyped_storage"):  # arrays that are views of one
        whole = firsts[0].base if firsts[0].base is not None else firsts[0]
        return whole.reshape(-1).view("uint8")
    import torch  # whose tensors they are
    storages = {first.untyped_storage().data_ptr() for first in firsts}
    if len(storages) != 1:
        raise GeometryError(f"towpath: the caches of unlike layers lie in {len(storages)} allocations, and one is wanted; "
                            f"{_APART}")
    return torch.empty(0, dtype=torch.uint8, device=firsts[0].device).set_(firsts[0].untyped_storage())


def _pages(whole, place, stride, blocks, page):
    """[block, 1, 1, byte] of the allocation, from `place` on."""
    if hasattr(whole, "as_strided"):
        return whole.as_strided((blocks, 1, 1, page), (stride, page, page, 1), place)
    import numpy  # whose array it is
    return numpy.lib.stride_tricks.as_strided(whole[place:], (blocks, 1, 1, page), (stride, page, page, 1))


def _check_overlaid(kv_cache_config, places):
    """A block's number is one group's at a time only where the groups share their places: of others a load into one
    group's block would go over another's."""
    of_groups = [{places.get(layer) for layer in group.layer_names} for group in kv_cache_config.kv_cache_groups]
    if max(of_groups, key=len) != set().union(*of_groups):
        raise GeometryError(f"towpath: the caches of {len(of_groups)} groups lie beside each other (at {of_groups}), and each "
                            f"other's places are wanted; {_APART}")


def prove_pages(kv_caches, kv_cache_config) -> Geometry:
    """Of a model with unlike layers: a block is a page of bytes for each place that layers have in it. Raises
    GeometryError for what is not where `kv_cache_config` says it is."""
    sizes = {group.kv_cache_spec.page_size_bytes for group in kv_cache_config.kv_cache_groups}
    strides = {tensor.block_stride for tensor in kv_cache_config.kv_cache_tensors}
    if len(sizes) != 1 or len(strides) != 1:
        raise GeometryError(f"towpath: pages of {sorted(sizes)} bytes at distances of {sorted(strides)}: one of each is wanted; "
                            f"{_APART}")
    (page,), (stride,), whole = sizes, strides, _allocation(kv_caches)
    blocks, begin, places = kv_cache_config.num_blocks, _address(whole), {}
    for tensor in kv_cache_config.kv_cache_tensors:
        for number, layer in enumerate(tensor.layers):
            places[layer] = tensor.offset + number * tensor.layer_stride
    for layer, cache in kv_caches.items():
        first, place = _first_of(cache), places.get(layer)
        there = _address(first) - begin
        if there != place or _strides_of(first)[0] * _element_bytes(first) != stride or first.shape[0] != blocks:
            raise GeometryError(f"towpath: the cache of {layer} should be {blocks} pages at distances of {stride} bytes from byte "
                                f"{place} on by kv_cache_config, and is {_describe(first)} from byte {there} on")
    _check_overlaid(kv_cache_config, places)
    own = sorted({places[layer] for layer in kv_caches})
    caches = {f"page {place}": _pages(whole, place, stride, blocks, page) for place in own}
    _check_disjoint(list(caches.items()))
    return Geometry(caches, {layer: f"page {places[layer]}" for layer in kv_caches}, (blocks, 1, 1, page), 1)


def prove(kv_caches, kv_cache_config) -> Geometry:
    """Raises GeometryError, with the shape that was expected and the one that is there."""
    if not kv_caches:
        raise GeometryError("towpath: the engine registered no caches")
    if not is_plain(groups_of(kv_cache_config)):
        return prove_pages(kv_caches, kv_cache_config)
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
