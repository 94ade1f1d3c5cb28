"""towpath.trtllm without TensorRT-LLM: called by an engine of the tests (fake_trtllm.py, an emulation), whose tokens depend on
every byte of its cache. `alone` is the same engine without a connector."""
import json
import random
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest

import fake_trtllm

fake_trtllm.install()

from fake_trtllm import DIM, HEADS, LAYERS, PER_BLOCK, Engine, LlmRequest, RequestData, SchedulerOutput, Stream

from towpath.trtllm import connector, geometry, keeping, naming, settings

BLOCK_BYTES = LAYERS * 2 * HEADS * PER_BLOCK * DIM * 2
MODEL = {"num_hidden_layers": LAYERS, "num_attention_heads": 2 * HEADS, "num_key_value_heads": HEADS, "hidden_size": 2 * HEADS * DIM}
PROMPT = list(range(100, 142))  # ten blocks, and two tokens


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The model's folder, and that of the files."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODEL))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights" * 100)
    say(monkeypatch, directory=str(tmp_path / "kv"))
    return tmp_path


def say(monkeypatch, **said):
    monkeypatch.setenv(settings.VARIABLE, json.dumps({"staging": 16 * BLOCK_BYTES, **said}))


def arguments(place, **said):
    """TorchLlmArgs, as far as they are read."""
    of_cache = {name: said.pop(name) for name in list(said) if name in ("dtype", "max_attention_window", "host_cache_size",
                                                                         "use_kv_cache_manager_v2", "enable_partial_reuse")}
    cache = types.SimpleNamespace(**{"tokens_per_block": PER_BLOCK, "dtype": "auto", "enable_partial_reuse": False, **of_cache})
    return types.SimpleNamespace(**{"model": str(place / "model"), "kv_cache_config": cache, "tensor_parallel_size": 1, **said})


class Life:
    """An engine from its start to its end."""

    def __init__(self, place, **said):
        self.engine = Engine(arguments(place), connector, **said)

    def __enter__(self):
        return self.engine

    def __exit__(self, *_):
        keeper = self.engine.scheduler._keeper
        promised = [slot for request in self.engine.scheduler._requests.values() for slot in request.staged.slots]
        assert sorted(keeper._free + promised) == list(range(len(keeper._slots))), "each slot is somebody's, once"
        self.engine.close()


def alone(prompt, more=4, **said):
    return Engine(None, None).generate(LlmRequest(1, prompt, more, **said))[0]


def figures(engine):
    return engine.worker.figures()


def segments(place):
    """Files in which the prompt's first block is, and what they hold."""
    files = {path: path.read_bytes() for path in (place / "kv").rglob("*") if path.is_file()}
    return {path: content for path, content in files.items() if wanted_block(0) in content}


def flip_a_bit(place, number):
    """In the middle of the prompt's block of that number."""
    (path, content), = segments(place).items()
    at = content.index(wanted_block(number)) + BLOCK_BYTES // 2
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 1]))


def wanted_block(number):
    """The bytes of the prompt's block of that number."""
    engine = Engine(None, None)
    request = LlmRequest(1, PROMPT, 1)
    engine._finish = lambda request: engine.active.remove(request)  # its blocks stay as they are
    engine.generate(request)
    return engine.pool[request.blocks[number]].tobytes()


# Blocks ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("gpu", [False, True])
def test_what_one_life_computed_the_next_loads(place, monkeypatch, gpu, overlap):
    monkeypatch.setattr(naming, "_machine", lambda device: "a machine")
    with Life(place, gpu=gpu, overlap=overlap) as engine:
        assert engine.generate(LlmRequest(1, PROMPT, 8)) == [alone(PROMPT, 8)]
        assert engine.loaded == {1: 0}
        assert engine.generate(LlmRequest(2, PROMPT, 8)) == [alone(PROMPT, 8)]
        assert engine.loaded[2] == 40
    longer = alone(PROMPT, 8)
    with Life(place, gpu=gpu, overlap=overlap) as engine:
        request = LlmRequest(1, longer, 8)
        engine._finish = lambda request: engine.active.remove(request)  # its blocks can be verified
        assert engine.generate(request) == [alone(longer, 8)]
        assert engine.loaded[1] == 48, "of the prompt and of what was generated"
        assert figures(engine)["from_files"] == 12 and figures(engine)["failed_blocks"] == 0
        for number in range(10):
            assert engine.pool[request.blocks[number]].tobytes() == wanted_block(number), number


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tensors_of_torch_are_kept_as_arrays_are(place, dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for loaded in (0, 40):
        with Life(place, registered=lambda pool: torch.from_numpy(pool).view(getattr(torch, dtype))) as engine:
            assert engine.generate(LlmRequest(1, PROMPT)) == [alone(PROMPT)] and engine.loaded[1] == loaded


@pytest.mark.parametrize("overlap", [False, True])
def test_a_prompt_in_chunks_is_kept_and_loaded(place, overlap):
    with Life(place, max_num_tokens=10, overlap=overlap) as engine:
        assert engine.generate(LlmRequest(1, PROMPT)) == [alone(PROMPT)]
        assert figures(engine)["saved_blocks"] == 11
    longer = PROMPT + list(range(500, 525))
    with Life(place, max_num_tokens=10, overlap=overlap) as engine:
        assert engine.generate(LlmRequest(1, longer)) == [alone(longer)]
        assert engine.loaded[1] == 40
        assert figures(engine)["saved_blocks"] == 7, "what was loaded is not saved again"


def test_a_flipped_bit_costs_that_block(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT))
    flip_a_bit(place, 6)
    with Life(place) as engine:
        assert engine.generate(LlmRequest(1, PROMPT)) == [alone(PROMPT)]
        assert engine.loaded[1] == 24, "a promise ends where a block is not proven"
        assert figures(engine)["failed_blocks"] == 1 and sum(figures(engine)["quarantined"].values()) == 1
        assert figures(engine)["saved_blocks"] == 1, "the others are still there"
        assert engine.generate(LlmRequest(2, PROMPT)) == [alone(PROMPT)]
        assert engine.loaded[2] == 40


def test_orders_are_carried_out_once(place):
    """An iteration for which nothing was built keeps the last one's, in some releases."""
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT, 1))
        engine.worker.wait_for_save(engine.stream)
        assert engine.scheduler._keeper._failures == {}, "of a request that has ended"
        engine.generate(LlmRequest(2, PROMPT, 1))
        assert engine.loaded[2] == 40
        engine.pool[...] = 9
        engine.worker.start_load_kv(engine.stream)
        assert (engine.pool == 9).all()


def test_an_iteration_that_was_called_off_shifts_no_names(place):
    with Life(place) as engine:
        request = LlmRequest(1, PROMPT, 20)
        engine.active.append(request)
        save, calls = engine.worker.wait_for_save, []
        engine.worker.wait_for_save = lambda stream: calls.append(1) if len(request.tokens) in range(43, 50) else save(stream)
        assert engine.generate() == [] and calls and request.tokens == alone(PROMPT, 20)
        again = LlmRequest(2, request.tokens, 1)
        assert engine.generate(again) == [alone(request.tokens, 1)] and engine.loaded[2] == 40
        assert engine.generate(LlmRequest(3, request.tokens, 1)) and engine.loaded[3] == 60


def test_what_files_lost_is_computed(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT))
    for path, content in segments(place).items():
        path.write_bytes(bytes(len(content)))
    with Life(place) as engine:
        assert engine.generate(LlmRequest(1, PROMPT)) == [alone(PROMPT)]
        assert engine.loaded[1] == 0


def test_conversations_of_several_lives_are_as_without_a_connector(place):
    chance, number, loaded = random.Random(3), 0, 0
    said = [[chance.randrange(1000) for _ in range(chance.randrange(1, 30))] for _ in range(5)]
    for life in range(4):
        with Life(place, overlap=life % 2 == 1, max_num_tokens=chance.choice([9, 64]), reuse=life > 1, blocks=256) as engine:
            for _ in range(6):
                chosen = chance.sample(range(len(said)), 2)
                requests = []
                for which in chosen:
                    number += 1
                    said[which] = said[which] + [chance.randrange(1000) for _ in range(chance.randrange(1, 12))]
                    requests.append(LlmRequest(number, said[which], chance.randrange(1, 12)))
                for which, tokens, request in zip(chosen, engine.generate(*requests), requests):
                    assert tokens == alone(said[which], request.more), (life, request.request_id)
                    said[which] = tokens
            loaded += sum(engine.loaded.values())
    assert loaded > 500


def test_what_the_engine_has_itself_is_not_loaded(place):
    with Life(place, reuse=True) as engine:
        engine.generate(LlmRequest(1, PROMPT))
        assert engine.generate(LlmRequest(2, PROMPT)) == [alone(PROMPT)]
        assert engine.loaded[2] == 0 and figures(engine)["saved_blocks"] == 11
    with Life(place) as engine:
        request, keeper = LlmRequest(1, PROMPT), engine.scheduler._keeper
        assert engine.scheduler.get_num_new_matched_tokens(request, 8) == (32, False)
        assert engine.scheduler.get_num_new_matched_tokens(request, 9) == (0, False), "it ends within a block"
        assert len(keeper._free) == 16


def test_behind_what_the_engine_has_the_rest_is_loaded(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT))
    with Life(place, reuse=True) as engine:
        engine.generate(LlmRequest(1, PROMPT[:9], 1))
        assert engine.generate(LlmRequest(2, PROMPT)) == [alone(PROMPT)]
        assert engine.loaded == {1: 8, 2: 32}


def test_the_only_step_of_a_request_that_loads_keeps_what_it_computes(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT, 1))
        longer = PROMPT + list(range(500, 510))
        engine.generate(LlmRequest(2, longer, 1))
        assert engine.loaded[2] == 40 and figures(engine)["saved_blocks"] == 13


def test_only_blocks_that_are_new_and_whose_tokens_are_known_are_ordered_to_be_saved(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT, 1))
        scheduler, blocks = engine.scheduler, list(range(14))
        assert scheduler.get_num_new_matched_tokens(LlmRequest(2, PROMPT), 0) == (40, False)
        orders = scheduler.build_connector_meta(SchedulerOutput([RequestData(2, PROMPT, blocks, 0, 2)]))
        assert len(orders.loads) == 1 and orders.saves == []
        ahead = RequestData(2, [7, 7], [], 43, 9)  # as if drafts were computed: only two tokens are known
        saved, = scheduler.build_connector_meta(SchedulerOutput([], [ahead])).saves
        assert (saved.first, saved.blocks) == (10, [10])
        scheduler.request_finished(LlmRequest(2, PROMPT), blocks)
        engine.scheduler._keeper.give_back(orders.loads[0][0])  # which no worker brought


def test_salts_are_apart_and_adapters_are_not_kept(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT, cache_salt="a"), LlmRequest(2, PROMPT, lora_task_id=0),
                        LlmRequest(3, PROMPT, multimodal_hashes=[[1] * 8]))
        assert figures(engine)["saved_blocks"] == 11, "of the first"
        assert engine.generate(LlmRequest(4, PROMPT)) == [alone(PROMPT)]
        assert engine.generate(LlmRequest(5, PROMPT, cache_salt="a")) == [alone(PROMPT, cache_salt="a")]
        assert (engine.loaded[4], engine.loaded[5]) == (0, 40)
        assert engine.generate(LlmRequest(6, PROMPT, lora_task_id=0)) == [alone(PROMPT)] and engine.loaded[6] == 0


# Staging memory ----------------------------------------------------------------------------------

def test_a_prompt_that_is_longer_than_the_staging_memory_is_saved_in_parts_and_loaded_as_far_as_it_fits(place, monkeypatch):
    say(monkeypatch, directory=str(place / "kv"), staging=3 * BLOCK_BYTES)
    with Life(place) as engine:
        assert engine.generate(LlmRequest(1, PROMPT)) == [alone(PROMPT)]
        assert figures(engine)["saved_blocks"] == 11
        assert engine.generate(LlmRequest(2, PROMPT)) == [alone(PROMPT)]
        assert engine.loaded[2] == 12


def test_blocks_that_were_not_saved_do_not_shift_the_names_of_those_behind_them(place, monkeypatch):
    say(monkeypatch, directory=str(place / "kv"), staging=2 * BLOCK_BYTES)
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT))
        away = LlmRequest(9, PROMPT)
        request = LlmRequest(2, range(300, 306), 30)
        engine.active.append(request)
        while len(request.tokens) < 20:
            engine._iterate()
        assert engine.scheduler.get_num_new_matched_tokens(away, 0) == (8, False)  # all there is, and it does not come
        while len(request.tokens) < 26:
            engine._iterate()
        engine.scheduler.request_finished(away, [])
        assert engine.generate() == [] and request.tokens == alone(range(300, 306), 30)
        assert engine.generate(LlmRequest(3, request.tokens, 1)) == [alone(request.tokens, 1)]
        assert 0 < engine.loaded[3] <= 24


def test_staging_memory_is_free_again_whatever_became_of_a_promise(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT))
        keeper, scheduler = engine.scheduler._keeper, engine.scheduler
        for ends in (scheduler.request_reset, lambda request: scheduler.request_finished(request, []),
                     lambda request: scheduler.get_num_new_matched_tokens(request, len(PROMPT))):
            request = LlmRequest(2, PROMPT)
            assert scheduler.get_num_new_matched_tokens(request, 0) == (40, False) and len(keeper._free) == 6
            ends(request)
            assert sorted(keeper._free) == list(range(16))


# A GPU's memory ----------------------------------------------------------------------------------

def test_streams_are_waited_for_before_staging_memory_is_used_again(place, monkeypatch):
    monkeypatch.setattr(naming, "_machine", lambda device: "a machine")
    with Life(place, gpu=True) as engine:
        engine.generate(LlmRequest(1, PROMPT))
        keeper, stream = engine.scheduler._keeper, engine.stream
        assert keeper._slots.device.pinned is True
        request = LlmRequest(2, PROMPT)
        engine._add_sequence(request)
        request.chunk = 2
        waits = stream.waits
        engine._start_batch([request])
        assert stream.sent == [] and stream.waits > waits and len(keeper._free) == 16
        assert engine.pool[request.blocks[0]].tobytes() == wanted_block(0)


def test_memory_of_the_host_needs_no_stream(place):
    class NoStream(Stream):
        def synchronize(self):
            raise AssertionError("no device is there")

    with Life(place) as engine:
        engine.stream = NoStream()
        engine.generate(LlmRequest(1, PROMPT))
        engine.generate(LlmRequest(2, PROMPT))
        assert engine.loaded[2] == 40


# What is refused ---------------------------------------------------------------------------------

@pytest.mark.parametrize("shape, there", [
    ((8, LAYERS, 2, 2 * HEADS * PER_BLOCK * DIM), "[8, 3, 2, 128]"),
    ((8, LAYERS - 1, 2, HEADS * PER_BLOCK * DIM), "[8, 2, 2, 64]"),  # the others' lie in another tensor
    ((8, LAYERS, 2 * HEADS * PER_BLOCK * DIM), "[8, 3, 128]"),
])
def test_a_shape_that_does_not_fit_is_refused_with_both(place, shape, there):
    worker = connector.TowpathWorker(arguments(place))
    with pytest.raises(geometry.GeometryError) as refused:
        worker.register_kv_caches(numpy.zeros(shape, numpy.float16))
    assert "= [any, 3, 2, 64], one element behind the other, by config.json with 4 tokens per block" in str(refused.value)
    assert f"and is {there} of float16" in str(refused.value)


def test_a_cache_with_gaps_is_refused(place):
    with pytest.raises(geometry.GeometryError, match=r"and is \[4, 3, 2, 64\] of float16 with gaps"):
        geometry.prove(numpy.zeros((8, 3, 2, 64), numpy.float16)[::2], str(place / "model"), PER_BLOCK)


def test_a_latent_vector_has_a_shape_of_its_own(place):
    (place / "model" / "config.json").write_text(json.dumps({**MODEL, "kv_lora_rank": 512, "qk_rope_head_dim": 64}))
    assert geometry.expected_shape(str(place / "model"), 32) == (LAYERS, 1, 32 * 576)


@pytest.mark.parametrize("said, says", [
    ({"tensor_parallel_size": 2}, "tensor_parallel_size is 2, and only 1 is supported"),
    ({"pipeline_parallel_size": 4}, "pipeline_parallel_size is 4"),
    ({"max_beam_width": 2}, "max_beam_width is 2"),
    ({"speculative_config": object()}, "speculative_config is set"),
    ({"sparse_attention_config": object()}, "sparse_attention_config is set"),
    ({"max_attention_window": [512]}, r"max_attention_window is \[512\]"),
    ({"host_cache_size": 1 << 30}, "host_cache_size is 1073741824"),
    ({"dtype": "nvfp4"}, "scales lie in a tensor of their own"),
    ({"use_kv_cache_manager_v2": True}, "set kv_cache_config.use_kv_cache_manager_v2=False"),
])
def test_engines_whose_blocks_cannot_be_kept_are_refused_by_name(place, said, says):
    for half in (connector.TowpathScheduler, connector.TowpathWorker):
        with pytest.raises(geometry.GeometryError, match=says):
            half(arguments(place, **said))


def test_a_configuration_that_does_not_say_the_shape_is_refused(place):
    (place / "model" / "config.json").write_text(json.dumps({"n_layer": 3}))
    with pytest.raises(geometry.GeometryError, match="config.json has no num_hidden_layers"):
        connector.TowpathWorker(arguments(place))


@pytest.mark.parametrize("key", ["sliding_window", "vision_config", "index_head_dim", "mamba_d_state"])
def test_models_that_have_more_than_one_cache_are_refused_by_name(place, key):
    (place / "model" / "config.json").write_text(json.dumps({**MODEL, key: 512}))
    with pytest.raises(geometry.GeometryError, match=f"config.json has a? ?{key}"):
        connector.TowpathWorker(arguments(place))


def test_a_model_by_name_needs_its_folder(place, monkeypatch):
    with pytest.raises(geometry.GeometryError, match="no config.json in 'a/model'.*say \"model_folder\""):
        connector.TowpathWorker(arguments(place, model="a/model"))
    say(monkeypatch, model_folder=str(place / "model"))
    connector.TowpathWorker(arguments(place, model="a/model"))


def test_another_cache_manager_is_refused(place):
    with Life(place) as engine:
        with pytest.raises(geometry.GeometryError, match="use_kv_cache_manager_v2=False"):
            engine.worker.register_kv_cache_layout(None)
        with pytest.raises(keeping.NotPromised, match="use_kv_cache_manager_v2=False"):
            engine.scheduler.cancel_load(LlmRequest(1, PROMPT), 0, 4)


def test_a_promise_for_which_the_engine_has_no_blocks_is_an_error(place):
    with Life(place) as engine:
        engine.generate(LlmRequest(1, PROMPT))
        request = LlmRequest(2, PROMPT)
        assert engine.scheduler.get_num_new_matched_tokens(request, 0) == (40, False)
        with pytest.raises(keeping.NotPromised, match="request 2 was promised blocks 0 to 10, and the engine's table"):
            engine.scheduler.build_connector_meta(SchedulerOutput([RequestData(2, PROMPT, [1, 2, 3], 0, 2)]))


# Settings and names ------------------------------------------------------------------------------

def read(said):
    return settings.read({settings.VARIABLE: said if isinstance(said, str) else json.dumps(said)})


def test_settings_are_json_or_a_file(tmp_path):
    (tmp_path / "towpath.json").write_text('{"directory": "/nvme/kv", "disk": "200GiB"}')
    for said in ('{"directory": "/nvme/kv", "disk": "200GiB"}', str(tmp_path / "towpath.json")):
        assert (read(said).directory, read(said).disk) == ("/nvme/kv", 200 << 30)
    assert settings.read({}).blocks(1 << 20) == (1024, 2064)
    assert settings.VARIABLE.startswith("TRTLLM"), "others do not reach the engine's processes"


@pytest.mark.parametrize("said, says", [
    ({"direktory": "/x"}, "TRTLLM_TOWPATH has no key 'direktory'; the nearest is 'directory'"),
    ({"Staging": 1}, "nearest is 'staging'"),
    ({"memory": "many"}, "memory is 'many', and a size is"),
    ({"directory": 7}, "directory is 7, and should be a text"),
    ("{", "is no JSON"),
    ("/no/such/file", "is '/no/such/file', and should be JSON"),
])
def test_what_is_wrong_is_refused_with_what_is_meant(said, says):
    with pytest.raises(ValueError, match="towpath: ") as refused:
        read(said)
    assert says in str(refused.value)


def test_too_little_memory_says_how_much_is_needed():
    with pytest.raises(ValueError, match='holds 20 blocks of 1,048,576 bytes, and a step may need 24: say "memory": "24MiB"'):
        read({"staging": "8MiB", "memory": "20MiB"}).blocks(1 << 20)
    with pytest.raises(ValueError, match='holds no block of 1,048,576 bytes: say "staging": "1MiB"'):
        read({"staging": 4096}).blocks(1 << 20)


def test_what_computes_otherwise_has_another_name(place):
    def name(model="", dtype="float16", **said):
        return naming.name_of_cache(arguments(place, **said), PER_BLOCK, str(place / "model"), dtype, None, model)

    others = [name("mine"), name("yours"), name(attn_backend="FLASHINFER"), name(dtype="bfloat16"), name(quant_config="fp8")]
    assert name() == name() and len({name(), *others}) == 6


def test_halves_of_one_engine_meet_and_those_of_two_do_not(place):
    one, other = arguments(place), arguments(place)
    first, second = connector.TowpathScheduler(one), connector.TowpathScheduler(other)
    assert connector.TowpathWorker(other)._keeper is second._keeper
    assert connector.TowpathWorker(one)._keeper is first._keeper
    assert connector.TowpathWorker(one)._keeper is not first._keeper, "a third is of the next engine"


def test_the_interface_is_found_where_it_was_in_earlier_releases():
    program = ("import fake_trtllm; fake_trtllm.install(('', '._torch', '.pyexecutor', '.kv_cache_connector'))\n"
               "from towpath.trtllm import TowpathWorker\nprint(TowpathWorker.__mro__[1].__name__)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=Path(__file__).parent)
    assert done.stdout == "KvCacheConnectorWorker\n", done.stderr
