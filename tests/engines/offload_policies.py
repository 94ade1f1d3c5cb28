"""vLLM's own offloading manager with its policies and with ours, over a trace: what each finds."""
import hashlib
import json
import subprocess

import harness

CHUNKS = 5000
POLICIES = (("lru", None), ("arc", None), ("S3FifoCachePolicy", "towpath.vllm.policies"),
            ("HitDensityCachePolicy", "towpath.vllm.policies"), ("AdaptiveCachePolicy", "towpath.vllm.policies"))


def read_trace(work):
    """Mooncake's conversations, or a trace of that shape."""
    trace = harness.ROOT.parent / "shared" / "traces" / "mooncake-conversation.jsonl"
    if not trace.exists():
        trace = work / "trace.jsonl"
        subprocess.run([str(harness.ROOT / "build/release/tools/towpath"), "trace", "generate", "-o", str(trace)], check=True)
    return [json.loads(line)["hash_ids"] for line in trace.read_text().splitlines()], trace.name


def replay(requests, name, module):
    """The share of chunks that were found with all before them, as vLLM's scheduler asks for them."""
    from vllm.v1.kv_offload.base import LookupResult, ReqContext, make_offload_key
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
    manager = CPUOffloadingManager(CHUNKS, name, module)
    found = wanted = 0
    for number, ids in enumerate(requests):
        context = ReqContext(str(number))
        manager.on_new_request(context)
        keys = [make_offload_key(hashlib.sha256(str(one).encode()).digest(), 0) for one in ids]
        for place, key in enumerate(keys):
            context.set_offload_key_position(key, place)
        hits = next((i for i, key in enumerate(keys) if manager.lookup(key, context) != LookupResult.HIT), len(keys))
        manager.prepare_load(keys[:hits], context)
        manager.complete_load(keys[:hits], context)
        stored = manager.prepare_store(keys, context)
        if stored is not None:
            manager.complete_store(stored.keys_to_store, context)
        manager.on_request_finished(context)
        found, wanted = found + hits, wanted + len(keys)
    return found / wanted


def offload_policies(work):
    """`cache_policy_module_path`: our policies in vLLM's own cache."""
    requests, trace = read_trace(work)
    shares = {name: replay(requests, name, module) for name, module in POLICIES}
    assert shares["AdaptiveCachePolicy"] > 1.1 * max(shares["lru"], shares["arc"]), shares
    return f"{trace}, {CHUNKS:,} chunks: found " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
