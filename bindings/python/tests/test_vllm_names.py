"""What names a model's cache for towpath.vllm, and what tells requests' rooms in it apart."""
import json
import os
import types

import fake_vllm
import pytest

fake_vllm.install()
from test_vllm import Request, begin, scheduled, side
from towpath.vllm import naming
from towpath.vllm.connector import TowpathConnector
from towpath.vllm.scheduling import adapter_of, room_of, tenant_of
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole


def room(**request):
    request = types.SimpleNamespace(**request)
    return room_of(request, adapter_of(request))


def write(weights, content):
    """A second later than before, whatever the file system's clock counts in."""
    later = weights.stat().st_mtime + 1 if weights.exists() else 1
    weights.write_bytes(content)
    os.utime(weights, (later, later))


def test_weights_that_were_trained_on_have_another_name(tmp_path):
    weights = tmp_path / "model.safetensors"
    write(weights, bytes(1 << 21))
    first = naming.digest_of_weights(str(tmp_path))
    weights.touch()
    assert naming.digest_of_weights(str(tmp_path)) == first, "a date is not a weight"
    changed = bytearray(1 << 21)
    changed[(1 << 20) + (1 << 19):] = b"\1" * (1 << 19)
    write(weights, changed)
    assert naming.digest_of_weights(str(tmp_path)) != first


def test_weights_of_one_small_tensor_that_changed_have_another_name(tmp_path):
    weights, tensors = tmp_path / "model.safetensors", {}
    for i in range(64):  # 1 MiB each: what lies between even pieces would be 252 KiB
        tensors[f"layer {i}"] = {"dtype": "U8", "shape": [1 << 20], "data_offsets": [i << 20, (i + 1) << 20]}
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    content = bytearray(len(header).to_bytes(8, "little") + header + bytes(64 << 20))
    names = set()
    for tensor in (None, 1, 40, 63):
        if tensor is not None:
            begin = 8 + len(header) + (tensor << 20)
            content[begin:begin + 100] = b"\1" * 100
        write(weights, content)
        names.add(naming.digest_of_weights(str(tmp_path)))
    assert len(names) == 4


@pytest.mark.parametrize("header", [b'{"a": {"data_offsets": [-1000, 0]}}', b'{"a": {"data_offsets": [%d, 0]}}' % 10**30,
                                    b'{"a": {"data_offsets": [1.5, 0]}}', b"[" * 100000])
def test_weights_whose_header_is_damaged_have_a_name_too(tmp_path, header):
    """An adapter's are digested in the scheduler, which nothing may end."""
    weights, names = tmp_path / "model.safetensors", set()
    for content in (b"some", b"more"):
        write(weights, len(header).to_bytes(8, "little") + header + content)
        lora = types.SimpleNamespace(lora_name="one", lora_path=str(tmp_path))
        names.add(adapter_of(types.SimpleNamespace(lora_request=lora)))
    assert len(names) == 2


def test_another_model_in_one_file_has_another_name(tmp_path):
    """vLLM takes a GGUF file's path for a model."""
    weights, config, names = tmp_path / "model.gguf", fake_vllm.config(), set()
    config.model_config.model = str(weights)
    for content in (b"one model", b"the other"):
        write(weights, content)
        names.add(str(naming.facts_of_model(config)))
    assert len(names) == 2


def test_models_whose_weights_are_streamed_have_the_names_of_their_places(tmp_path):
    """vLLM makes a folder of the rest: equal ones of models that differ in their weights alone."""
    names, config = set(), fake_vllm.config()
    for folder, streamed in (("a", ""), ("b", ""), ("c", "s3://models/one"), ("c", "s3://models/other")):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text("{}")
        config.model_config.model, config.model_config.model_weights = str(place), streamed
        names.add(naming.name_of_cache(config, 16))
    assert len(names) == 4


def test_what_computes_otherwise_has_another_name():
    config = fake_vllm.config()
    name = naming.name_of_cache(config, 16)
    assert naming.name_of_cache(config, 16) == name and naming.name_of_cache(config, 32) != name
    config.cache_config.cache_dtype = "fp8"
    assert naming.name_of_cache(config, 16) != name
    assert naming.name_of_cache(config, 16, "mine") != naming.name_of_cache(config, 16, "yours")


@pytest.mark.parametrize("model", ["", "mine"])
def test_what_is_said_of_images_and_of_quantization_is_in_the_name(model):
    config, names = fake_vllm.config(), set()
    for kwargs, quantization in ((None, None), ({"num_crops": 4}, None), ({"num_crops": 16}, None), (None, {"linear": "fp8"})):
        config.model_config.multimodal_config = types.SimpleNamespace(mm_processor_kwargs=kwargs)
        config.model_config.quantization_config = quantization
        names.add(naming.name_of_cache(config, 16, model))
    assert len(names) == 4


@pytest.mark.parametrize("model", ["", "mine"])
def test_other_scales_of_what_encodes_images_have_another_name(tmp_path, model):
    """--mm-encoder-fp8-scale-path, a file that vLLM itself writes anew with other images (--mm-encoder-fp8-scale-save-path)."""
    scales, config = tmp_path / "scales.json", fake_vllm.config()
    names = {naming.name_of_cache(config, 16, model)}
    config.model_config.multimodal_config = types.SimpleNamespace(mm_encoder_fp8_scale_path=str(scales))
    for content in (b'{"q": 1.0}', b'{"q": 2.0}'):
        write(scales, content)
        names.add(naming.name_of_cache(config, 16, model))
    assert len(names) == 3


@pytest.mark.parametrize("rope,model,is_another", [("longrope", "", True), ("longrope", "mine", True), ("su", "", True),
                                                   ("yarn", "", False)])
def test_keys_that_are_turned_by_the_longest_request_have_its_length_in_their_name(rope, model, is_another):
    names = {naming.name_of_cache(fake_vllm.config(rope=rope, max_model_len=longest), 16, model) for longest in (4096, 8192)}
    assert len(names) == 1 + is_another


def test_another_version_of_the_engine_has_another_name(monkeypatch):
    first = naming.name_of_cache(fake_vllm.config(), 16, "mine")
    monkeypatch.setattr(naming.vllm, "__version__", "another")
    assert naming.name_of_cache(fake_vllm.config(), 16, "mine") != first


def test_keys_that_kernels_shuffle_have_another_name(monkeypatch):
    monkeypatch.delenv("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", raising=False)
    first = naming.name_of_cache(fake_vllm.config(), 16, "mine")
    for value, is_another in ("0", False), ("1", True):
        monkeypatch.setenv("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", value)
        assert (naming.name_of_cache(fake_vllm.config(), 16, "mine") != first) == is_another


def test_rooms_keep_adapters_tenants_and_images_apart():
    feature = types.SimpleNamespace(identifier="image", mm_position=types.SimpleNamespace(offset=4))
    lora = types.SimpleNamespace(lora_name="a", lora_path="/a", lora_int_id=1)
    rooms = [room(lora_request=adapter, cache_salt=salt, mm_features=features)
             for adapter in (None, lora) for salt in (None, "s", "") for features in ([], [feature])]
    assert rooms[0] == "" and len(set(rooms)) == len(rooms)


@pytest.mark.parametrize("cache_gb, caches_prefixes, are_kept", [(0, False, False), (0, True, True), (4, False, True)])
def test_requests_with_images_are_kept_where_images_are_known_by_their_content(cache_gb, caches_prefixes, are_kept):
    """Else vLLM counts them, and the first image of each life has one name."""
    config = fake_vllm.config()
    config.model_config.multimodal_config = types.SimpleNamespace(mm_processor_cache_gb=cache_gb)
    config.cache_config.enable_prefix_caching = caches_prefixes
    half = TowpathConnector(config, KVConnectorRole.SCHEDULER, fake_vllm.cache_config())._scheduler
    image = types.SimpleNamespace(identifier="renderer0-mm-1-image-0", mm_position=types.SimpleNamespace(offset=4))
    for features, saved in ([image], 2 if are_kept else 0), ([], 2):
        request, before = Request(f"{len(features)}", 40, mm_features=features), half.figures()["saved_blocks"]
        begin(half, request, [0, 1, 2])
        half.build(scheduled(request, 0, 40))
        assert half.figures()["saved_blocks"] == before + saved


def test_an_adapter_that_was_trained_on_has_another_room(tmp_path):
    lora = types.SimpleNamespace(lora_name="a", lora_path=str(tmp_path), lora_int_id=1)
    rooms = []
    for weights in (b"first", b"other", b"first"):
        write(tmp_path / "adapter_model.safetensors", weights)
        rooms.append(room(lora_request=lora))
    assert rooms[0] == rooms[2] != rooms[1]


def test_an_adapter_whose_folder_changed_is_not_kept_until_the_engine_reads_it_again(tmp_path):
    """It computes with what it read, by a name that is of what is there now; the next life would load that."""
    half, weights = side(), tmp_path / "adapter_model.safetensors"

    def blocks_saved_by(request):
        before = half.figures()["saved_blocks"]
        begin(half, request, [0, 1, 2])
        half.build(scheduled(request, 0, 40))
        return half.figures()["saved_blocks"] - before

    def request(name, number, **more):
        lora = types.SimpleNamespace(lora_name="a", lora_path=str(tmp_path), lora_int_id=number, **more)
        return Request(name, 40, lora_request=lora, cache_salt=name)

    write(weights, b"first")
    preempted = request("a", 1)
    assert blocks_saved_by(preempted) == 2
    write(weights, b"other")
    assert blocks_saved_by(request("b", 1)) == 0
    assert blocks_saved_by(request("c", 2)) == 2, "another number is read anew"
    preempted.num_preemptions = 1
    assert blocks_saved_by(preempted) == 0 and half.finish(preempted) == (False, None)
    assert blocks_saved_by(request("d", 1, load_inplace=True)) == 2
    assert blocks_saved_by(request("e", 1)) == 2, "which has been read by now"


def test_rooms_are_short_whatever_clients_send():
    assert len(room(cache_salt="s" * 100_000)) < 100


def test_a_salt_says_whose_blocks_they_are():
    assert [tenant_of(types.SimpleNamespace(cache_salt=salt)) for salt in ("s", "", None)] == ["s", "", ""]
    assert tenant_of(types.SimpleNamespace()) == ""
