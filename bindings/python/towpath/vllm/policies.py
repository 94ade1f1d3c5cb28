"""Towpath's eviction policies for vLLM's own offloading of KV cache to the CPU (its OffloadingConnector).

    "kv_connector_extra_config": {"cpu_bytes_to_use": ..., "eviction_policy": "AdaptiveCachePolicy",
                                  "cache_policy_module_path": "towpath.vllm.policies"}

Thread: vLLM's scheduler's.
"""
from typing import Dict

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, order_request_keys

from towpath._towpath import EvictionPolicy

_HASH_BITS = (1 << 64) - 1


class _TowpathCachePolicy(CachePolicy):
    """A use is a request's that finds a chunk: what a request only inserts was used when it came."""

    NAME = ""

    def __init__(self, cache_capacity):
        super().__init__(cache_capacity)
        self._policy = EvictionPolicy(self.NAME, cache_capacity)
        self.chunks: Dict[bytes, object] = {}
        self._keys: Dict[int, bytes] = {}  # by chunk_id

    def get(self, key):
        return self.chunks.get(key)

    def insert(self, key, chunk):
        self._policy.insert(chunk.chunk_id, hash(key) & _HASH_BITS)
        self.chunks[key], self._keys[chunk.chunk_id] = chunk, key
        if chunk.ref_cnt == 0:
            self._policy.allow(chunk.chunk_id, True)

    def remove(self, key):
        chunk = self.chunks.pop(key)
        del self._keys[chunk.chunk_id]
        self._policy.remove(chunk.chunk_id)

    def touch(self, keys, req_context):
        """From the last on, so that of equals the first blocks of a prompt stay."""
        for key in reversed(list(keys)):
            chunk = self.chunks.get(key)
            if chunk is not None:
                self._policy.touch(chunk.chunk_id)

    def on_store_miss(self, keys, req_context):
        """insert() says it."""

    def on_request_finished(self, key_groups, insertion_only_keys, reused_keys, req_context):
        self.touch([key for key in order_request_keys(key_groups, req_context) if key in reused_keys], req_context)

    def evict(self, n, protected):
        kept = [self.chunks[key].chunk_id for key in protected if key in self.chunks]
        gone = self._policy.evict(n, kept)
        if gone is None:
            return None
        keys = [self._keys.pop(slot) for slot in gone]
        return [(key, self.chunks.pop(key)) for key in keys]

    def clear(self):
        self._policy.clear()
        self.chunks.clear()
        self._keys.clear()

    def mark_evictable(self, key):
        self._policy.allow(self.chunks[key].chunk_id, True)

    def mark_non_evictable(self, key):
        self._policy.allow(self.chunks[key].chunk_id, False)


class AdaptiveCachePolicy(_TowpathCachePolicy):
    """As the policy that would have done best lately."""
    NAME = "adaptive"


class HitDensityCachePolicy(_TowpathCachePolicy):
    """Whose room brings the fewest hits goes, as learned from ages and counts of uses."""
    NAME = "hit-density"


class S3FifoCachePolicy(_TowpathCachePolicy):
    """What was not used again while in a small queue goes."""
    NAME = "s3-fifo"
