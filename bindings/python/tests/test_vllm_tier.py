"""Our tier below vLLM's own offloading, called as its scheduler calls it. With vLLM's own classes: ./dev engines -k offload_tier."""
import dataclasses
import types

import fake_vllm
import numpy
import pytest

fake_vllm.install()

from vllm.v1.kv_offload.base import LookupResult

from towpath.errors import Unavailable
from towpath.vllm import naming
from towpath.vllm.tier import TowpathOffloadingSpec, TowpathTier

CHUNKS, CHUNK = 16, 8192
space = types.SimpleNamespace


def of_a_scheduler(vllm_config, make):
    """As vLLM's makes it: what calls the tier has the configuration, which it is not given."""
    return make()


class Life:
    """A tier, from its opening on, and vLLM's memory above it. `started`: how vLLM was, as fake_vllm.config() has it."""

    def __init__(self, directory, served="model", layout="NHD", started=None, **settings):
        spec = space(config=space(parallel=space(data_parallel_size=1, data_parallel_index=0), model=space(name=served),
                                 kv_cache_layout=layout),
                     blocks_per_chunk=1, kv_events_config=space(enable_kv_cache_events=True))
        self.memory = numpy.zeros((CHUNKS, CHUNK), numpy.uint8)
        self.tier = of_a_scheduler(fake_vllm.config(**(started or {})), lambda: TowpathTier(
            spec, memoryview(self.memory), "TowpathTier", directory=str(directory), disk=1 << 26, **settings))
        self.jobs = 0

    def ask(self, keys, request="a"):
        """What a request that waits learns at last."""
        context = space(req_id=request)
        while LookupResult.RETRY in (answers := [self.tier.lookup(key, context) for key in keys]):
            self.tier.on_schedule_end(None)
        self.tier.on_request_finished(context)
        return [answer == LookupResult.HIT for answer in answers]

    def run(self, is_load, keys, chunks):
        self.jobs += 1
        job = space(job_id=self.jobs, keys=keys, chunk_ids=numpy.array(chunks), is_promotion=is_load, req_context=None)
        (self.tier.submit_load if is_load else self.tier.submit_store)(job)
        assert self.tier.has_pending_work()
        self.tier.drain_jobs()
        (ended,) = self.tier.get_finished_jobs()
        assert ended.job_id == self.jobs and not self.tier.has_pending_work()
        return ended


def keys(count):
    return [b"key %d" % number for number in range(count)]


def fill(life, count):
    life.memory[:count] = numpy.random.default_rng(7).integers(0, 256, (count, CHUNK), numpy.uint8)
    return life.memory[:count].copy()


def test_chunks_come_back_in_another_life_and_in_other_places(tmp_path):
    life = Life(tmp_path, enable_kv_events=True)
    content = fill(life, 4)
    assert life.ask(keys(4)) == [False] * 4
    ended = life.run(False, keys(4), range(4))
    assert ended.success and ended.transfer_bytes == 4 * CHUNK
    (event,) = life.tier.take_events()
    assert event.keys == keys(4) and not event.removed
    assert list(life.tier.take_events()) == []
    assert life.ask(keys(5), "b") == [True] * 4 + [False], "the next request asks anew"
    life.tier.shutdown()
    life = Life(tmp_path)
    assert life.ask(keys(4)) == [True] * 4
    assert life.run(True, keys(4), range(8, 12)).success
    assert (life.memory[8:12] == content).all()
    life.tier.shutdown()


def test_a_damaged_chunk_is_not_loaded_and_the_others_are(tmp_path):
    life = Life(tmp_path)
    content = fill(life, 4)
    life.run(False, keys(4), range(4))
    life.tier.shutdown()
    (segment,) = tmp_path.glob("segment-*")
    stored = bytearray(segment.read_bytes())
    stored[stored.index(content[2].tobytes()) + 77] ^= 1
    segment.write_bytes(stored)
    life = Life(tmp_path)
    ended = life.run(True, keys(4), range(4))
    assert not ended.success and list(ended.successful_keys) == [keys(4)[i] for i in (0, 1, 3)]
    assert (life.memory[[0, 1, 3]] == content[[0, 1, 3]]).all()
    life.run(False, keys(4)[2:3], [3])
    assert life.ask(keys(4)) == [True] * 4
    life.tier.shutdown()


def test_models_do_not_meet_and_a_directory_has_one_owner(tmp_path):
    life = Life(tmp_path)
    fill(life, 1)
    life.run(False, keys(1), [0])
    with pytest.raises(Unavailable, match="has it"):
        Life(tmp_path)
    life.tier.shutdown()
    for other in ({"served": "another"}, {"layout": "HND"}):
        life = Life(tmp_path, **other)
        assert life.ask(keys(1)) == [False]
        life.tier.shutdown()


@pytest.mark.parametrize("one,other", [({}, {"quantization": "fp8"}), ({}, {"rope": "yarn"}),
                                       ({"rope": "longrope"}, {"rope": "longrope", "max_model_len": 8192})])
def test_models_that_were_started_otherwise_do_not_meet(tmp_path, one, other):
    life = Life(tmp_path, started=one)
    fill(life, 1)
    life.run(False, keys(1), [0])
    life.tier.shutdown()
    for started, is_there in ((other, False), (one, True)):
        life = Life(tmp_path, started=started)
        assert life.ask(keys(1)) == [is_there]
        life.tier.shutdown()


@pytest.mark.parametrize("model", ["", "one"])
def test_another_release_of_vllm_does_not_find_chunks_that_it_may_arrange_otherwise(tmp_path, monkeypatch, model):
    life = Life(tmp_path, model=model)
    fill(life, 1)
    life.run(False, keys(1), [0])
    life.tier.shutdown()
    for version, is_there in (("another", False), (naming.vllm.__version__, True)):
        monkeypatch.setattr(naming.vllm, "__version__", version)
        life = Life(tmp_path, model=model)
        assert life.ask(keys(1)) == [is_there]
        life.tier.shutdown()


def test_a_name_of_ones_own_is_asked_for_where_vllm_does_not_say_its_model(tmp_path, monkeypatch):
    monkeypatch.setattr("towpath.vllm.tier._vllm_config", lambda: None)
    with pytest.raises(ValueError, match='cannot be asked.*say "model"'):
        Life(tmp_path)
    life = Life(tmp_path, model="one")
    fill(life, 1)
    life.run(False, keys(1), [0])
    life.tier.shutdown()
    for model in ("another", "one"):
        life = Life(tmp_path, model=model)
        assert life.ask(keys(1)) == [model == "one"]
        life.tier.shutdown()


def test_images_that_are_known_by_numbers_are_refused(tmp_path, monkeypatch):
    config = fake_vllm.config()
    config.model_config.multimodal_config, config.cache_config.enable_prefix_caching = space(mm_processor_cache_gb=0), False
    monkeypatch.setattr("towpath.vllm.tier._vllm_config", lambda: config)
    with pytest.raises(ValueError, match="--mm-processor-cache-gb 0"):
        Life(tmp_path)


def test_one_line_of_settings_is_the_tier_and_a_policy(tmp_path):
    @dataclasses.dataclass
    class Config:
        extra_config: dict

    spec = TowpathOffloadingSpec(Config({"cpu_bytes_to_use": 1, "directory": str(tmp_path), "disk": "1GiB"}))
    assert spec.extra_config == {
        "cpu_bytes_to_use": 1, "eviction_policy": "AdaptiveCachePolicy", "cache_policy_module_path": "towpath.vllm.policies",
        "secondary_tiers": [{"type": "TowpathTier", "module_path": "towpath.vllm.tier", "directory": str(tmp_path), "disk": "1GiB"}]}
    named = TowpathOffloadingSpec(Config({"eviction_policy": "arc", "directory": "/kv", "secondary_tiers": [{"type": "fs"}]}))
    assert named.extra_config["eviction_policy"] == "arc" and [one["type"] for one in named.extra_config["secondary_tiers"]] == [
        "TowpathTier", "fs"]
    with pytest.raises(ValueError, match="directory"):
        Life(tmp_path, directry="x")
