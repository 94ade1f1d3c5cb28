"""vLLM's own TieringOffloadingManager over our tier: its half in the scheduler, which runs on a CPU. Its worker wants a
GPU; here the test writes and reads the chunks as that would."""
import hashlib
import uuid

import harness

CHUNK = 1 << 20


def make_config(directory, chunks):
    from vllm.v1.kv_offload import config as of
    return of.OffloadingConfig(
        groups=(of.OffloadingGroupConfig(16, ("layer",), 0),), worker_kv_bytes_per_block=CHUNK, enable_kv_cache_events=True,
        extra_config={"cpu_bytes_to_use": chunks * CHUNK, "directory": str(directory), "disk": "1GiB"},
        engine_id=f"test-{uuid.uuid4()}", model=of.OffloadingModelConfig("model", "bfloat16"),
        cache=of.OffloadingCacheConfig(16, 1),
        parallel=of.OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True))


def content(number):
    return hashlib.shake_128(str(number).encode()).digest(CHUNK)


class Life:
    """One engine's scheduler, from its start to its end."""

    def __init__(self, directory, chunks=64):
        from vllm.v1.kv_offload.factory import OffloadingSpecFactory
        config = make_config(directory, chunks)
        config.extra_config.update(spec_name="TowpathOffloadingSpec", spec_module_path="towpath.vllm.tier")
        self.manager = OffloadingSpecFactory.create_spec(config).get_manager()
        self.memory = self.manager.primary_tier.get_kv_memoryview().cast("B")
        self.requests = 0

    def step(self):
        from vllm.v1.kv_offload.base import ScheduleEndContext
        self.manager.on_schedule_end(ScheduleEndContext((), ()))

    def request(self, numbers):
        from vllm.v1.kv_offload.base import ReqContext, make_offload_key
        self.requests += 1
        context = ReqContext(str(self.requests))
        self.manager.on_new_request(context)
        keys = [make_offload_key(hashlib.sha256(str(number).encode()).digest(), 0) for number in numbers]
        for place, key in enumerate(keys):
            context.set_offload_key_position(key, place)
        return context, keys

    def settle(self):
        while self.manager.has_pending_work():
            self.step()

    def store(self, numbers):
        context, keys = self.request(numbers)
        stored = self.manager.prepare_store(keys, context)
        place_of = dict(zip(stored.keys_to_store, stored.store_spec.block_ids))
        for number, key in zip(numbers, keys):
            if key in place_of:
                self.memory[place_of[key] * CHUNK:(place_of[key] + 1) * CHUNK] = content(number)
        self.manager.complete_store(stored.keys_to_store, context)
        self.manager.on_request_finished(context)
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

    def load(self, numbers):
        """How many of the first were found; each of them is what was stored."""
        context, keys = self.request(numbers)
        while (found := self._found(keys, context)) is None:
            self.step()
        places = self.manager.prepare_load(keys[:found], context).block_ids if found else []
        for number, place in zip(numbers, places):
            assert self.memory[place * CHUNK:(place + 1) * CHUNK] == content(number), f"chunk {number} is not what it was"
        self.manager.complete_load(keys[:found], context)
        self.manager.on_request_finished(context)
        self.settle()
        return found

    def close(self):
        self.memory.release()
        self.manager.shutdown()


def offload_tier(work):
    """`spec_module_path`: chunks come back after a restart, as they were; of a damaged one nothing does."""
    directory, numbers = work / "kv", list(range(40))
    life = Life(directory)
    life.store(numbers)
    events = [key for event in life.manager.take_events() for key in event.keys]
    assert len(events) >= 40, events
    life.close()
    life = Life(directory, chunks=48)
    assert life.load(numbers) == 40
    assert life.load([100, 101]) == 0
    life.store(range(200, 240))  # the first 40 must leave memory
    assert life.load(numbers) == 40
    life.close()
    harness.flip(harness.segments(directory.parent)[0], 20 * CHUNK)
    life = Life(directory)
    found = life.load(numbers)
    assert 15 < found < 25, found
    life.store(numbers)
    assert life.load(numbers) == 40
    life.close()
    life = Life(directory)
    assert life.load(numbers) == 40, "what was computed anew was not kept"
    life.close()
    return f"40 chunks of 1 MiB after a restart, and after others took their memory; a flipped bit cost one, {found} before it came"
