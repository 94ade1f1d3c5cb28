"""towpath.vllm and models of unlike layers, on a vLLM that is none. With real ones: ./dev engines -k hybrid."""
import contextlib
import types

import fake_vllm
import numpy
import pytest

fake_vllm.install()

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

from towpath.vllm import geometry
from towpath.vllm.connector import TowpathConnector

from test_vllm import Request, begin, scheduled, views


@pytest.mark.parametrize("specs, said", [
    ((fake_vllm.FullAttentionSpec(), fake_vllm.SlidingWindowSpec(block_size=32)), "blocks of .16, 32. tokens, and one size"),
    ((fake_vllm.FullAttentionSpec(), fake_vllm.ChunkedLocalAttentionSpec()), "ChunkedLocalAttentionSpec are not kept"),
    ((fake_vllm.RSWASpec(),), "RSWASpec are not kept"),
])
def test_groups_that_cannot_be_kept_are_refused_with_what_to_say(specs, said):
    with pytest.raises(geometry.GeometryError, match=f"{said}.*--disable-hybrid-kv-cache-manager"):
        geometry.groups_of(fake_vllm.overlaid(specs)[1])


@pytest.mark.parametrize("spec", [fake_vllm.PrefixLMSpec(), fake_vllm.CircularBufferSpec()])
def test_caches_that_depend_on_more_than_the_tokens_before_are_refused(spec):
    """Of two prompts with one beginning, the second would get the first one's."""
    with pytest.raises(geometry.GeometryError, match=f"{type(spec).__name__} depend on more"):
        geometry.groups_of(fake_vllm.cache_config(spec))


def test_a_group_of_two_kinds_is_refused():
    both = types.SimpleNamespace(block_size=16, kv_cache_specs={"a": fake_vllm.FullAttentionSpec(), "b": fake_vllm.SlidingWindowSpec()})
    with pytest.raises(geometry.GeometryError, match="whole.*window.*one is wanted"):
        geometry.groups_of(fake_vllm.cache_config(both))


def test_pages_that_are_arranged_otherwise_have_another_name(monkeypatch):
    names = set()
    for layout, page, order in (("LBHNC", 16384, None), ("LBNHC", 16384, None), ("LBHNC", 8192, None), ("LBHNC", 16384, "DS")):
        _, config = fake_vllm.overlaid([fake_vllm.FullAttentionSpec(page_size_bytes=page), fake_vllm.SlidingWindowSpec()])
        config.kv_cache_layout = layout
        monkeypatch.setenv("VLLM_SSM_CONV_STATE_LAYOUT", order or "")
        names.add(TowpathConnector(fake_vllm.config(), KVConnectorRole.WORKER, config)._worker._name_space)
    assert len(names) == 4


@pytest.mark.parametrize("mode, ahead", [("none", 0), ("align", 2)])
def test_states_are_kept_with_prefix_caching_and_without_drafts(mode, ahead):
    spec = fake_vllm.MambaSpec(mamba_cache_mode=mode, num_speculative_blocks=ahead)
    with pytest.raises(geometry.GeometryError, match="--enable-prefix-caching"):
        geometry.groups_of(fake_vllm.overlaid([spec])[1])


def test_unlike_layers_are_pages_of_one_allocation():
    caches, config = fake_vllm.overlaid([fake_vllm.FullAttentionSpec(), fake_vllm.SlidingWindowSpec(sliding_window=33),
                                         fake_vllm.MambaSpec()])
    assert geometry.groups_of(config) == [("whole", 0), ("window", 32), ("state", 0)]
    proven = geometry.prove(caches, config)
    assert proven.shape == (8, 1, 1, config.kv_cache_groups[0].kv_cache_spec.page_size_bytes)
    assert len(proven.caches) == 2 and proven.block_bytes == 2 * proven.shape[3]
    assert proven.layer_of["group 0 layer 1"] == proven.layer_of["group 1 layer 1"] != proven.layer_of["group 0 layer 0"]
    caches["group 1 layer 0"][3] = 7  # seen in the page of its block, and in no other
    first = proven.caches[proven.layer_of["group 1 layer 0"]]
    assert first[3].any() and not first[2].any() and not first[4].any()


def test_pages_that_are_not_where_they_should_be_are_refused():
    caches, config = fake_vllm.overlaid([fake_vllm.FullAttentionSpec(), fake_vllm.SlidingWindowSpec()])
    caches["group 1 layer 0"], caches["group 1 layer 1"] = caches["group 1 layer 1"], caches["group 1 layer 0"]
    with pytest.raises(geometry.GeometryError, match="the cache of group 1 layer 0 should be 8 pages .* from byte 0 on"):
        geometry.prove(caches, config)


def test_groups_that_do_not_share_their_places_are_refused():
    """The same number may then be two groups' block at once."""
    caches, config = fake_vllm.overlaid([fake_vllm.FullAttentionSpec(), fake_vllm.SlidingWindowSpec()], beside=True)
    with pytest.raises(geometry.GeometryError, match="2 groups lie beside each other.*--disable-hybrid-kv-cache-manager"):
        geometry.prove(caches, config)


@pytest.mark.parametrize("supported", [False, True])
def test_pooling_over_all_tokens_of_a_prompt_is_refused(supported):
    """As vLLM's MeanPool, which raises where it is given a part of them: that ends the engine."""
    config = fake_vllm.config()
    config.model_config.runner_type, config.model_config.is_prefix_caching_supported = "pooling", supported
    with pytest.raises(ValueError, match="without a connector") if not supported else contextlib.nullcontext():
        TowpathConnector(config, KVConnectorRole.SCHEDULER, fake_vllm.cache_config())


def test_outputs_that_vllm_has_of_its_own_cache_alone_are_refused():
    """Of a loaded block vLLM's worker finds no experts, and raises: that ends the engine."""
    config = fake_vllm.config()
    config.aux_output_config = types.SimpleNamespace(enabled=True)
    with pytest.raises(ValueError, match="--enable-return-routed-experts"):
        TowpathConnector(config, KVConnectorRole.SCHEDULER, fake_vllm.cache_config())


def test_unlike_layers_load_in_the_background_alone():
    _, config = fake_vllm.overlaid([fake_vllm.FullAttentionSpec(), fake_vllm.SlidingWindowSpec()])
    with pytest.raises(ValueError, match="loads_in_background is false, and this model has 2 groups"):
        TowpathConnector(fake_vllm.config({"loads_in_background": False}), KVConnectorRole.SCHEDULER, config)


class OnDevice(numpy.ndarray):
    """Memory that says it is a GPU's."""
    device = types.SimpleNamespace(type="cuda")


@pytest.mark.parametrize("device, zeroes", [(True, True), (True, False), (False, True)])
def test_saves_end_with_their_step_where_the_engine_zeroes_blocks_before_it_says_who_was_preempted(device, zeroes):
    """As vLLM's model runner V2: the next step's zeros would be saved by the name of what was there."""
    config = fake_vllm.cache_config()
    config.needs_kv_cache_zeroing = zeroes
    scheduler, worker = (TowpathConnector(fake_vllm.config(), role, config)
                         for role in (KVConnectorRole.SCHEDULER, KVConnectorRole.WORKER))
    caches = {name: cache.view(OnDevice) if device else cache for name, cache in views("LBHNC").items()}
    worker.register_kv_caches(caches)
    worker._await_device = lambda: None  # there is none
    scheduler.set_xfer_handshake_metadata({0: worker.get_handshake_metadata()})
    saved, request, ended = worker._worker._worker, Request("a", 40), []
    settle = saved.settle
    saved.settle = lambda: (settle(), ended.append("saves"))
    begin(scheduler._scheduler, request, [0, 1, 2])
    metadata = scheduler.build_connector_meta(scheduled(request, 0, 40))
    worker.handle_preemptions(metadata)
    worker.bind_connector_metadata(metadata)
    worker.start_load_kv(None)
    worker.wait_for_save()
    assert ended == (["saves"] if device and zeroes else [])
    worker.shutdown()
