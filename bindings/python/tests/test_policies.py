"""Eviction policies, and the shape that vLLM's own offloading wants of them."""
import types

import pytest

import fake_vllm

fake_vllm.install()
from towpath._towpath import EvictionPolicy
from towpath.errors import InvalidArgument
from towpath.vllm import policies


def filled(name="lru", slots=4):
    policy = EvictionPolicy(name, slots)
    for slot in range(slots):
        policy.insert(slot, 100 + slot)
        policy.allow(slot, True)
    return policy


@pytest.mark.parametrize("name", ["lru", "s3-fifo", "hit-density", "adaptive"])
def test_what_is_kept_or_in_use_is_not_evicted(name):
    policy = filled(name)
    policy.allow(0, False)
    assert policy.evict(3, [1]) is None, "two may go"
    assert sorted(policy.evict(2, [1])) == [2, 3]
    policy.insert(2, 200)
    assert policy.evict(2, [1]) is None, "what came is not allowed to go at first"
    assert policy.evict(1) == [1], "it was kept for that call alone"


def test_the_order_is_the_policy_s():
    policy = filled()
    policy.touch(0)
    assert policy.evict(3) == [1, 2, 3]
    policy.clear()
    policy.insert(3, 1)


@pytest.mark.parametrize("call", [
    lambda policy: policy.insert(0, 1), lambda policy: policy.insert(4, 1), lambda policy: policy.touch(9),
    lambda policy: policy.evict(1, [9]), lambda policy: EvictionPolicy("lucky", 4)])
def test_what_is_wrong_is_refused(call):
    with pytest.raises(InvalidArgument):
        call(filled())
    policy = filled()
    policy.remove(2)
    for again in (lambda: policy.remove(2), lambda: policy.allow(2, True), lambda: policy.touch(2)):
        with pytest.raises(InvalidArgument, match="slot 2 of 4, where nothing is"):
            again()


def chunk(number, references=0):
    return types.SimpleNamespace(chunk_id=number, ref_cnt=references)


@pytest.mark.parametrize("kind", [policies.AdaptiveCachePolicy, policies.HitDensityCachePolicy, policies.S3FifoCachePolicy])
def test_vllm_s_calls_are_the_policy_s(kind):
    policy, keys = kind(4), [f"chunk {i}".encode() for i in range(5)]
    for i in range(4):
        policy.insert(keys[i], chunk(i, -1 if i == 3 else 0))
    policy.mark_non_evictable(keys[0])
    assert policy.evict(3, {keys[1], keys[4]}) is None and len(policy.chunks) == 4
    (gone, its), = policy.evict(1, {keys[1], keys[4]})
    assert gone == keys[2] and its.chunk_id == 2 and policy.get(keys[2]) is None
    policy.insert(keys[4], chunk(2))
    policy.touch([keys[4], keys[2]], None)
    policy.on_store_miss([keys[2]], None)
    policy.on_request_finished(((keys[0], keys[4]),), {keys[4]}, {keys[0]}, None)
    policy.mark_evictable(keys[3])
    policy.mark_evictable(keys[0])
    policy.remove(keys[0])
    assert {key for key, _ in policy.evict(3, set())} == {keys[1], keys[3], keys[4]}
    policy.insert(keys[0], chunk(0))
    policy.clear()
    assert policy.get(keys[0]) is None and policy.evict(0, set()) == [] and policy.evict(1, set()) is None
