"""vLLM's own TieringOffloadingManager over our tier, and its tier of objects over our `nixl`: its half in the scheduler,
which runs on a CPU. Its worker wants a GPU; here the test writes and reads the chunks as that would."""
import hashlib
import os
import sys
import time
import uuid

import harness

CHUNK = 1 << 20


def make_config(chunks, extra):
    from vllm.v1.kv_offload import config as of
    return of.OffloadingConfig(
        groups=(of.OffloadingGroupConfig(16, ("layer",), 0),), worker_kv_bytes_per_block=CHUNK, enable_kv_cache_events=True,
        extra_config={"cpu_bytes_to_use": chunks * CHUNK, **extra},
        engine_id=f"test-{uuid.uuid4()}", model=of.OffloadingModelConfig("model", "bfloat16"),
        cache=of.OffloadingCacheConfig(16, 1),
        parallel=of.OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True))


def content(number):
    return hashlib.shake_128(str(number).encode()).digest(CHUNK)


class Life:
    """One engine's scheduler, from its start to its end."""

    def __init__(self, chunks=64, **extra):
        from vllm.v1.kv_offload.factory import OffloadingSpecFactory
        config = make_config(chunks, extra)
        self.manager = OffloadingSpecFactory.create_spec(config).get_manager()
        self.memory = self.manager.primary_tier.get_kv_memoryview().cast("B")
        self.requests = 0

    def step(self):
        from vllm.v1.kv_offload.base import ScheduleEndContext
        self.manager.on_schedule_end(ScheduleEndContext((), ()))

    def request(self, numbers, params=None, hints=None):
        from vllm.v1.kv_offload.base import ReqContext, make_offload_key
        self.requests += 1
        context = ReqContext(str(self.requests), kv_transfer_params=params, kv_hints=hints)
        self.manager.on_new_request(context)
        keys = [make_offload_key(hashlib.sha256(str(number).encode()).digest(), 0) for number in numbers]
        for place, key in enumerate(keys):
            context.set_offload_key_position(key, place)
        return context, keys

    def settle(self):
        """Until all jobs have ended."""
        while self.manager._jobs or self.manager._pending_load_submissions:
            self.step()

    def store(self, numbers, params=None):
        """As a request with these parameters computes them."""
        context, keys = self.request(numbers, params)
        stored = self.manager.prepare_store(keys, context)
        place_of = dict(zip(stored.keys_to_store, stored.store_spec.block_ids))
        for number, key in zip(numbers, keys):
            if key in place_of:
                self.memory[place_of[key] * CHUNK:(place_of[key] + 1) * CHUNK] = content(number)
        self.manager.complete_store(stored.keys_to_store, context)
        self.manager.on_request_finished(context)
        if params is None:
            self.settle()

    def _found(self, keys, context):
        """None: it is not known yet."""
        from vllm.v1.kv_offload.base import LookupResult
        for found, key in enumerate(keys):
            answer = self.manager.lookup(key, context)
            if answer == LookupResult.MISS:
                return found
            if answer != LookupResult.HIT:
                for other in keys[found + 1:]:  # as the scheduler does, so that all are asked for at once
                    self.manager.lookup(other, context)
                return None
        return len(keys)

    def load(self, numbers, params=None, hints=None, others=()):
        """How many of the first were found; each of them is what was stored. `others` go on meanwhile."""
        context, keys = self.request(numbers, params, hints)
        while (found := self._found(keys, context)) is None:
            for life in (self, *others):
                life.step()
        places = self.manager.prepare_load(keys[:found], context).block_ids if found else []
        for number, place in zip(numbers, places):
            assert self.memory[place * CHUNK:(place + 1) * CHUNK] == content(number), f"chunk {number} is not what it was"
        self.manager.complete_load(keys[:found], context)
        self.manager.on_request_finished(context)
        if params is None and hints is None:
            self.settle()
        return found

    def close(self):
        self.memory.release()
        self.manager.shutdown()


def offload_tier(work):
    """`spec_module_path`: chunks come back after a restart, as they were; of a damaged one nothing does."""
    directory, numbers = work / "kv", list(range(40))
    settings = {"spec_name": "TowpathOffloadingSpec", "spec_module_path": "towpath.vllm.tier", "directory": str(directory),
                "disk": "1GiB", "model": "model"}  # no engine runs that could say its own
    life = Life(**settings)
    life.store(numbers)
    events = [key for event in life.manager.take_events() for key in event.keys]
    assert len(events) >= 40, events
    life.close()
    life = Life(chunks=48, **settings)
    assert life.load(numbers) == 40
    assert life.load([100, 101]) == 0
    life.store(range(200, 240))  # the first 40 must leave memory
    assert life.load(numbers) == 40
    life.close()
    harness.flip(harness.segments(directory.parent)[0], 20 * CHUNK)
    life = Life(**settings)
    found = life.load(numbers)
    assert 15 < found < 25, found
    life.store(numbers)
    assert life.load(numbers) == 40
    life.close()
    life = Life(**settings)
    assert life.load(numbers) == 40, "what was computed anew was not kept"
    life.close()
    return f"40 chunks of 1 MiB after a restart, and after others took their memory; a flipped bit cost one, {found} before it came"


def offload_objects(work):
    """vLLM's own tier of objects, which asks NIXL for its backend OBJ, over our module of that name and a real store."""
    sys.path.insert(0, str(harness.ROOT / "tests/process"))
    import swift_store
    if not swift_store.is_installed():
        return "not run: no Swift (apt-get install python3-swift)"
    os.environ["NIXL_TELEMETRY_ENABLE"] = "y"  # the tier asks for each transfer's figures, which NIXL, too, refuses without
    numbers = list(range(40))
    with swift_store.running_swift() as port:
        bucket, known = swift_store.Bucket(port, "vllm"), swift_store.environment(port)
        store = {"bucket": bucket.name, "endpoint_override": known["AWS_ENDPOINT_URL"], "access_key": known["AWS_ACCESS_KEY_ID"],
                 "secret_key": known["AWS_SECRET_ACCESS_KEY"]}
        settings = {"spec_name": "TieringOffloadingSpec", "secondary_tiers": [{"type": "obj", "store_config": store}]}
        life = Life(**settings)
        life.store(numbers)
        life.close()
        assert len(bucket.names()) == 40, len(bucket.names())
        life = Life(chunks=48, **settings)
        assert life.load(numbers) == 40
        assert life.load([100, 101]) == 0
        life.store(range(200, 240))
        assert life.load(numbers) == 40
        life.close()
    return "40 chunks of 1 MiB in a store, back after a restart, and after others took their memory"


def offload_peers(work):
    """vLLM's own tier of peers, which moves by NIXL: what one engine computed, another has."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import init_none_hash
    init_none_hash(sha256)
    ports = [harness.free_port(), harness.free_port()]
    prefill, decode = (Life(spec_name="TieringOffloadingSpec", secondary_tiers=[{"type": "p2p", "host": "127.0.0.1", "port": port}])
                       for port in ports)
    for talk in range(5):
        numbers = range(8 * talk, 8 * talk + 8)
        prefill.store(numbers, {"remote_decoder": {"kv_request_id": f"talk {talk}"}})
        source = {"kv_request_id": f"talk {talk}", "remote_host": "127.0.0.1", "remote_port": ports[0]}
        found = decode.load(numbers, {"remote_prefiller": source}, others=[prefill])
        assert found == 8, f"talk {talk}: {found} of 8 chunks came"
    decode.close()
    until = time.monotonic() + 30
    while prefill.manager.secondary_tiers[0]._sessions:  # its last words to a peer that is gone would be waited for
        assert time.monotonic() < until, "vLLM has not noticed its peer's end"
        prefill.step()
    prefill.close()
    return "40 chunks of 1 MiB from one engine's memory into another's, in 5 requests"


def kvcr(work):
    """KVCR, NVIDIA's own cache, which moves all by NIXL: its memory and files below vLLM's, and what another has."""
    sys.path.append(os.environ.pop("TOWPATH_KVCR"))
    from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
    from vllm.v1.kv_hints import KvHintAction, KvHintsEnvelope
    from vllm.v1.kv_offload.base import get_offload_block_hash

    def life(name, port, **more):
        tier = {"type": "kvcr", "router_capabilities": ["router_hint"], "control_host": "127.0.0.1", "control_ports": [port],
                "control_advertise_host": "127.0.0.1", "operation_timeout_ms": 60000, "abandon_timeout_ms": 120000,
                "secondary_g2_slots": 24, "policy": "g3_lru", "g3": {"paths": [str(work / name)], "capacity_bytes_per_file": 64 * CHUNK, "backend": "POSIX"}}
        return Life(spec_name="TieringOffloadingSpec", secondary_tiers=[tier], self_describing_kv_events=True, **more)

    ports, numbers = [harness.free_port(), harness.free_port()], list(range(40))
    first = life("first", ports[0], chunks=48)
    for begin in range(0, 80, 8):  # the first 40 must leave both memories
        first.store(range(begin, begin + 8))
    assert first.load(numbers) == 40
    second = life("second", ports[1])
    _, keys = first.request(numbers)
    fetch = {"source_control_endpoint": f"tcp://127.0.0.1:{ports[0]}",
             "block_hashes": [maybe_convert_block_hash(get_offload_block_hash(key)) for key in keys]}
    hints = KvHintsEnvelope("0.1", "of a test", [KvHintAction("1", "kv.fetch", "1.0", fetch)])
    assert second.load(numbers, hints=hints, others=[first]) == 40
    return "40 chunks of 1 MiB from its files, and from one engine's memory into another's"
