"""Both halves of an engine's KV connector, and named blobs.

    scheduler = Scheduler(tokens_per_block=16, name_space="llama-3-8b bf16")
    worker = Worker(caches, name_space="llama-3-8b bf16", directory="/nvme/kv")
    scheduler.update(worker.take_report())

The guide is docs/guides/connector.md; examples/kv_connector.py drives them as an engine does. Every call
gives up the interpreter's lock while it works, so another thread may call `worker.progress()`.
"""
import dataclasses
import json
from typing import Sequence

from towpath._towpath import Blobs, ConnectorScheduler, ConnectorWorker

__all__ = ["Blobs", "Peers", "Scheduler", "Worker"]

Scheduler = ConnectorScheduler

# What a layer's cache may look like: its axes, in order, by name.
_SHAPES = {
    "outer block token head dim": ("outer", False),  # vLLM's FlashAttention
    "outer block head token dim": ("outer", True),
    "block outer token head dim": ("block", False),  # FlashInfer
    "block outer head token dim": ("block", True),
    "block head token dim": ("block", True),  # vLLM since 0.26: keys and values side by side in dim
    "block token head dim": ("block", False),
    "block token dim": ("block", False),  # MLA: one latent vector
}


def _element_bytes(cache):
    return cache.itemsize if hasattr(cache, "itemsize") else cache.element_size()


def _strides_of(cache):
    """In elements; of a torch tensor or a numpy array. None: it does not say."""
    if callable(getattr(cache, "stride", None)):
        return tuple(cache.stride())
    strides = getattr(cache, "strides", None)
    if any(stride % cache.itemsize for stride, extent in zip(strides or (), cache.shape) if extent > 1):
        raise ValueError(f"strides of {strides} bytes are no multiples of an element of {cache.itemsize}")
    return tuple(stride // cache.itemsize for stride in strides) if strides else None


def _strides(cache):
    """None also where the elements lie one behind the other."""
    strides, row_major = _strides_of(cache), 1
    if strides is None:
        return None
    for stride, extent in zip(reversed(strides), reversed(tuple(cache.shape))):
        if extent > 1 and stride != row_major:
            return strides
        row_major *= extent
    return None


def _address(cache):
    return cache.data_ptr() if hasattr(cache, "data_ptr") else cache.ctypes.data


def _in_one_piece(cache, length):
    """So many elements of memory from the first of a strided cache on."""
    if hasattr(cache, "as_strided"):
        return cache.as_strided((length,), (1,))
    import numpy  # whose array it is
    return numpy.lib.stride_tricks.as_strided(cache, (length,), (cache.itemsize,))


def _regions(layers, strides):
    """(memory that layers lie in, elements from one layer to the next in it; 0: each has its own)"""
    length = 1 + sum(stride * (extent - 1) for stride, extent in zip(strides, layers[0].shape))
    item, places = _element_bytes(layers[0]), [_address(layer) for layer in layers]
    gaps = {after - before for before, after in zip(places, places[1:])}
    if all(abs(gap) >= length * item for gap in gaps):
        return [_in_one_piece(layer, length) for layer in layers], 0
    gap = gaps.pop()
    if gaps or gap <= 0 or gap % item:
        raise ValueError("caches that interleave are wanted at one distance, in the order of the layers")
    return [_in_one_piece(layers[0], (len(layers) - 1) * (gap // item) + length)], gap // item


def _kvbm_text(kvbm):
    """None: KVBM's settings are not read; "": from where KVBM reads them; else JSON over those."""
    if kvbm is None or kvbm is False:
        return None
    if kvbm is True:
        return ""
    return kvbm if isinstance(kvbm, str) else json.dumps(kvbm)


@dataclasses.dataclass
class Peers:
    """Other workers whose blocks are leased, and that lease from here, served by a thread of the library's.

    They meet at `rendezvous` ("etcd://host:2379/namespace", "scope:job"); but for etcd each names the
    `others`. With `backends=["shm", "tcp"]` they may be on other machines. `timeout`: seconds with a
    peer, for each step of a lease. `serving_thread` is of no effect: there is always one.
    """
    rendezvous: str
    name: str = ""
    others: Sequence[str] = ()
    backends: Sequence[str] = ("shm",)
    timeout: float = 2.0
    serving_thread: bool = False


class Worker:
    """A rank of the model. `caches` are its layers' arrays or tensors, in order; or a mapping from the
    layers' names to them, by which they may then be called.

    `axes` names the dimensions of each; where its elements lie, its strides say. `name_space` says what
    neither does: the model, its version and the type of its elements. Blocks are kept in memory; with a `directory` in files, too
    (`direct`: past the page cache, O_DIRECT), and with `objects` ("s3://bucket/prefix:100GiB", and
    "?endpoint_override=http://host:port" where the environment does not say it) in a store. With `peers`, those of others can be loaded too; with `server`,
    the socket of a `towpath serve` of this host ("unix:/path"), what is kept is that server's, for all engines.

    `policy` chooses who goes when memory is full ("lru", "s3-fifo", "adaptive", ...), `digest` what proves
    blocks ("xxh3_64", "crc32c"); with `min_accesses=2` a block is demoted at its second access. `kvbm=True`:
    how large tiers are, and where, is as KVBM's variables and files say; a dict or its JSON, vLLM's
    `kv_connector_extra_config`, goes over those. `driven`: a thread of the library's makes progress, and the engine's
    only orders, and takes what came (`has_news`, `take_news()`).
    """

    def __init__(self, caches, *, name_space, axes="outer block token head dim", rank=0,
                 first_layer=0, first_head=0, host_blocks=1024, directory="",
                 disk_bytes=16 << 30, direct=False, objects="", policy="", digest="", min_accesses=0, kvbm=None,
                 peers=None, server="", driven=False):
        if axes not in _SHAPES:
            raise ValueError(f"axes are one of: {', '.join(map(repr, _SHAPES))}")
        self._layers = {name: i for i, name in enumerate(caches)} if hasattr(caches, "keys") else {}
        layers = list(caches.values()) if self._layers else list(caches)
        if not layers or any(tuple(c.shape) != tuple(layers[0].shape) for c in layers):
            raise ValueError("caches of one shape are wanted, at least one")
        types = {(_element_bytes(layer), getattr(layer, "dtype", None)) for layer in layers}
        if len(types) > 1:
            raise ValueError(f"caches of one type are wanted, not {sorted(map(str, types))}")
        names = axes.split()
        if len(layers[0].shape) != len(names):
            raise ValueError(f"a cache of shape {tuple(layers[0].shape)} has no axes '{axes}'")
        shape = {"outer": 1, "head": 1, "layer": len(layers),
                 "element_bytes": _element_bytes(layers[0])}
        shape.update(zip(names, layers[0].shape))
        first, heads_first = _SHAPES[axes]
        place = {"rank": rank, "first_layer": first_layer, "first_head": first_head}
        keeping = {"host_blocks": host_blocks, "directory": directory, "disk_bytes": disk_bytes, "direct": direct,
                   "objects": objects, "server": server, "policy": policy, "digest": digest, "min_accesses": min_accesses, "driven": driven,
                   "kvbm": _kvbm_text(kvbm)}
        strides = _strides(layers[0])
        if any(_strides(layer) != strides for layer in layers):
            raise ValueError("caches of the same strides are wanted")
        if strides:
            layers, between = _regions(layers, strides)
            strides = {"block": 0, "outer": 0, "token": 0, "head": 0, "dim": 1, "layer": between,
                       **dict(zip(names, strides))}
        self._worker = ConnectorWorker(layers, first, shape, heads_first, place, name_space, keeping,
                                       peers, strides)

    def wait_for_layer_load(self, layer):
        self._worker.wait_for_layer_load(self._layers.get(layer, layer))

    def save_layer(self, layer):
        self._worker.save_layer(self._layers.get(layer, layer))

    def __getattr__(self, name):
        return getattr(self._worker, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._worker.close()
