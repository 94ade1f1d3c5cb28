"""A storage back-end for SGLang's HiCache: its pages in files, proven, with Towpath's block store.

    python3 -m sglang.launch_server --enable-hierarchical-cache --hicache-storage-backend dynamic \\
        --hicache-storage-backend-extra-config '{"backend_name": "towpath", "module_path": "towpath.sglang",
            "class_name": "TowpathHiCache", "interface_v1": 1, "directory": "/nvme/kv", "disk": "200GiB"}'

A page that was stored is there after a crash, and comes back as it was or not at all. Pages of unlike weights, ranks,
types and host layouts never meet: all of that is part of their names. When `disk` is full the oldest pages go, but for
those that were loaded lately.
Source of the interface: SGLang 0.5.23, sglang/srt/mem_cache/hicache_storage.py and managers/cache_controller.py.
"""
import hashlib
import json
import logging
import os
import select
import threading

import sglang
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolHitPolicy, PoolName, PoolTransferResult

from towpath._keyed import ModelSettings, Store, read_settings, throw_away
from towpath._weights import digest_of_weights
from towpath.errors import Error, NotReady

_logger = logging.getLogger("sglang.srt.towpath")  # below SGLang's own, so that it is seen

# A decode server passes on all that it was configured with; elsewhere SGLang has taken its own out, but for the first five.
_OF_SGLANG = ("backend_name", "module_path", "class_name", "interface_v1", "file_storage_path", "prefetch_threshold",
              "prefetch_timeout_base", "prefetch_timeout_per_ki_token", "hicache_storage_pass_prefix_keys")


# Of SGLang's arguments, what makes other bytes of equal tokens, beside the weights in a folder and the scales in a file.
_OF_A_MODEL = ("revision", "quantization", "dtype", "json_model_override_args", "speculative_draft_model_revision",
               "speculative_draft_model_quantization")
# In a folder of weights, what they are computed with: how keys are turned, say.
_CONFIGS = ("config.json", "params.json", "hf_quant_config.json")
# A pool says torch.uint8 of every type of 8 bits and less.
_OF_TYPES = ("kv_cache_dtype", "mamba_ssm_dtype", "speculative_draft_kv_cache_dtype")


def _digest_of_file(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _types(args):
    """What the numbers in a page are, of whatever model."""
    said = {name: str(getattr(args, name, None)) for name in _OF_TYPES}
    scales = getattr(args, "quantization_param_path", None)
    if scales is not None and os.path.isfile(scales):
        scales = _digest_of_file(scales)
    return {**said, "scales": scales}


def _weights(place):
    """Of those that are here what they are, and what they are computed with, wherever they lie; of others their name."""
    if place is None or not os.path.exists(place):
        return place
    said = [digest_of_weights(os.path.realpath(place))]
    for name in _CONFIGS:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            said.append([name, _digest_of_file(path)])
    return said


def _model(own):
    """The served name says nothing of it: another model, or one that was trained on, may be served by the same."""
    try:
        from sglang.srt.runtime_context import get_server_args
        args = get_server_args()
        path = args.model_path
    except (ImportError, AttributeError, RuntimeError, ValueError) as why:
        if own:
            return {"name": own}
        raise ValueError(f"towpath: what model SGLang {_version()} was started with cannot be asked ({why}): say \"model\" in "
                         "hicache-storage-backend-extra-config, another for other weights") from why
    if own:
        return {"name": own, **_types(args)}
    said = {**_types(args), **{name: str(getattr(args, name, None)) for name in _OF_A_MODEL}}
    return {**said, "model": _weights(path), "drafts": _weights(getattr(args, "speculative_draft_model_path", None))}


def _replica(config):
    """Which of the data-parallel engines this is. The configuration says it of those that share their layers' other parts
    (--enable-dp-attention) alone, and 0 of all others."""
    if config.dp_rank:
        return config.dp_rank
    try:
        from sglang.srt.runtime_context import get_parallel
        return get_parallel().dp_rank or 0  # None: there is one
    except (ImportError, AttributeError, RuntimeError, ValueError):
        return 0


def _version():
    return getattr(sglang, "__version__", "")


class _Waiting:
    """Blocks whose batches several threads wait for: one of them looks for all, and keeps nobody whose batch has ended."""

    def __init__(self, blocks):
        self.blocks = blocks
        self._changed, self._is_looked_after, self._ended = threading.Condition(), False, {}
        self._poller = select.poll()
        self._poller.register(blocks.fileno(), select.POLLIN)

    def take(self, number):
        """For each block None, or why not. NotReady: they were closed meanwhile."""
        with self._changed:
            while number not in self._ended:
                if self._is_looked_after:
                    self._changed.wait()
                else:
                    self._look()
            return self._ended.pop(number)

    def _look(self):
        """With the lock, which is let go of meanwhile."""
        self._is_looked_after = True
        self._changed.release()
        ended = []
        try:
            self._poller.poll(1000)
            ended = self.blocks.take_ended()
        finally:
            self._changed.acquire()
            self._ended.update(ended)
            self._is_looked_after = False
            self._changed.notify_all()


def _flat(page):
    """The bytes of a contiguous tensor (or array), where they lie. Of an empty one a byte that nobody needs: a pool that only
    counts pages (DeepSeek V4's) has such, and a block has one at least."""
    if 0 in page.shape:
        return memoryview(bytearray(1))
    if not hasattr(page, "data_ptr"):
        return memoryview(page.reshape(-1)).cast("B")
    import torch  # whose tensor it is
    return memoryview(page.reshape(-1).view(torch.uint8).numpy())


def _is_contiguous(page):
    return page.is_contiguous() if hasattr(page, "is_contiguous") else page.flags.c_contiguous


def _address(page):
    return page.data_ptr() if hasattr(page, "data_ptr") else page.ctypes.data


def _gives_its_own_memory(pool, index):
    """Whether a page that the pool gives is the pool's memory in one piece, and what is written there is in the pool. A
    copy (recurrent states are joined of several tensors) is contiguous, too, but lies elsewhere when it is asked for again."""
    page = pool.get_data_page(index, flat=False)
    return _is_contiguous(page) and _address(page) == _address(pool.get_data_page(index, flat=False))


class TowpathHiCache(HiCacheStorage):
    """What SGLang's cache controller calls, from its threads."""

    def __init__(self, storage_config, kwargs=None):
        ours = {key: value for key, value in (storage_config.extra_config or {}).items() if key not in _OF_SGLANG}
        self._settings = read_settings(ours, "hicache-storage-backend-extra-config", ModelSettings)
        config = storage_config
        if config.is_mla_model and config.tp_size > 1:
            raise ValueError(f"towpath: tensor parallel size is {config.tp_size}, and of a model with MLA one rank writes "
                             "for all, which a directory with one owner cannot give; use data parallel attention, or 1")
        sizes = ("tp", "pp", "attn_cp")
        place = {name: (getattr(config, f"{name}_rank"), getattr(config, f"{name}_size")) for name in sizes}
        model = [_version(), _model(self._settings.model)]
        self._name = json.dumps([config.model_name, place, hashlib.sha256(json.dumps(model).encode()).hexdigest()])
        ranks = [f"{name}{place[name][0]}" for name in sizes if place[name][1] > 1] + [f"dp{_replica(config)}"]
        self._folder = os.path.join(self._settings.directory, "-".join(ranks))
        self._pools, self._lock = {}, threading.Lock()
        self._open()

    def _open(self):
        self._kept = Store(self._folder, self._settings, _logger, "pages")
        self._waiting = _Waiting(self._kept.blocks)

    # Pools ------------------------------------------------------------------------------------

    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host
        self._pools[PoolName.KV] = mem_pool_host

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        self._pools[host_pool_name] = host_pool

    def _names(self, keys, pool_name=PoolName.KV):
        pool = self._pools.get(pool_name)
        form = [str(getattr(pool, fact, "")) for fact in ("layout", "dtype", "page_size")]
        prefix = f"{self._name} {pool_name!s} {form} "
        return [prefix + key for key in keys]

    # Blocks -----------------------------------------------------------------------------------

    def _run(self, submit, names, *buffers):
        """Whether each went well."""
        waiting = self._waiting
        try:
            return self._kept.judge(waiting.take(getattr(waiting.blocks, submit)(names, *buffers)))[0]
        except NotReady:  # closed, or thrown away, meanwhile
            return [False] * len(names)

    def _indices(self, pool, keys, host_indices):
        """The first index of each page; None: they are not as many as the keys want."""
        page_size = getattr(pool, "page_size", 1) or 1
        if host_indices is None or len(host_indices) != len(keys) * page_size:
            return None
        return [int(host_indices[i * page_size]) for i in range(len(keys))]

    def _load(self, pool_name, keys, host_indices):
        """Into the pool, where a page of it lies in one piece; else by a page beside it."""
        pool = self._pools[pool_name]
        indices = self._indices(pool, keys, host_indices)
        if not indices:
            return [False] * len(keys)
        is_direct = _gives_its_own_memory(pool, indices[0])
        pages = [pool.get_data_page(index, flat=False) if is_direct else pool.get_dummy_flat_data_page() for index in indices]
        loaded = self._run("submit_get", self._names(keys, pool_name), [_flat(page) for page in pages])
        for index, page, well in zip(indices, pages, loaded):
            if well and not is_direct:
                pool.set_from_flat_data_page(index, page)
        return loaded

    def _store(self, pool_name, keys, host_indices):
        pool = self._pools[pool_name]
        indices = self._indices(pool, keys, host_indices)
        if indices is None:
            return [False] * len(keys)
        pages = [pool.get_data_page(index, flat=False) for index in indices]
        whole = [page if _is_contiguous(page) else pool.get_data_page(index, flat=True)
                 for index, page in zip(indices, pages)]
        return self._run("submit_put", self._names(keys, pool_name), [_flat(page) for page in whole])

    # The interface: one pool ------------------------------------------------------------------

    def batch_exists(self, keys, extra_info=None):
        """How many of the first are there, without a gap."""
        there = self._run("submit_find", self._names(keys))
        return there.index(False) if False in there else len(there)

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        return self._load(PoolName.KV, keys, host_indices)

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        return self._store(PoolName.KV, keys, host_indices)

    def exists(self, key):
        return self.batch_exists([key]) == 1

    def batch_get(self, keys, target_locations=None, target_sizes=None):
        loaded = self._run("submit_get", self._names(keys), [_flat(target) for target in target_locations])
        return [target if well else None for target, well in zip(target_locations, loaded)]

    def get(self, key, target_location=None, target_sizes=None):
        return self.batch_get([key], [target_location])[0]

    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        return all(self._run("submit_put", self._names(keys),
                             [_flat(value if _is_contiguous(value) else value.contiguous()) for value in values]))

    def set(self, key, value=None, target_location=None, target_sizes=None):
        return self.batch_set([key], [value])

    # Several pools ----------------------------------------------------------------------------

    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        """The longest prefix that all pools can restore, each by its own rule."""
        pages = self.batch_exists(keys, extra_info)
        hits, restorable = {PoolName.KV: pages} if pages else {}, set(range(1, pages + 1))
        for transfer in pool_transfers or ():
            there = self._run("submit_find", self._names(keys[:pages], transfer.name))
            if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
                own = set(range(1, (there.index(False) if False in there else pages) + 1))
            elif transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
                window = max(1, len(transfer.keys or ()))
                own = {end for end in range(1, pages + 1) if all(there[max(0, end - window):end])}
            else:
                raise ValueError(f"towpath: pool {transfer.name!s} asks for the hit policy "
                                 f"{transfer.hit_policy.value}, which is not supported: all_pages and trailing_pages are")
            if own:
                hits[transfer.name] = max(own)
            restorable &= own
        return PoolTransferResult(max(restorable, default=0), hits, sorted(restorable))

    def batch_get_v2(self, transfers, extra_info=None):
        return {each.name: self._load(each.name, each.keys or [], each.host_indices) for each in transfers}

    def batch_set_v2(self, transfers, extra_info=None):
        return {each.name: self._store(each.name, each.keys or [], each.host_indices) for each in transfers}

    # The rest ---------------------------------------------------------------------------------

    def clear(self):
        """All pages of this rank are thrown away. What is under way ends first, as if it were not there. False: the
        folder could not be removed, and what is left of it is kept."""
        with self._lock:
            self._waiting.blocks.close()
            try:
                throw_away(self._settings.directory, self._folder)
            except (OSError, Error) as why:
                _logger.warning("towpath: not all pages were thrown away: %s", why)
                return False
            finally:
                self._open()
        return True

    def figures(self):
        """What was done since the start, by name."""
        return self._waiting.blocks.figures()

    def close(self):
        self._waiting.blocks.close()
