"""SGLang's back-end, called as its cache controller calls it. With SGLang's own classes: ./dev engines -k sglang."""
import os
import queue
import random
import shutil
import threading
import types

import fake_sglang
import numpy
import pytest

fake_sglang.install()

from sglang.srt import runtime_context
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer

from towpath.sglang import TowpathHiCache, _Waiting

PAGE = 16


class Pool:
    """A host pool of 64 pages, as HostKVCache has it: pages in one piece ("page_first") or a piece per layer."""

    def __init__(self, layout="page_first", seed=None, layers=4, page_size=PAGE):
        self.layout, self.dtype, self.page_size = layout, "float16", page_size
        shape = (64, layers, page_size, 32) if layout == "page_first" else (layers, 64, page_size, 32)
        self.memory = numpy.zeros(shape, numpy.uint16)
        if seed is not None:
            self.memory[...] = numpy.random.default_rng(seed).integers(0, 65536, shape, numpy.uint16)

    def _page(self, index):
        number = index // self.page_size
        return self.memory[number] if self.layout == "page_first" else self.memory[:, number]

    def get_data_page(self, index, flat=True):
        return self._page(index).flatten() if flat else self._page(index)

    def get_dummy_flat_data_page(self):
        return numpy.zeros(self._page(0).size, numpy.uint16)

    def set_from_flat_data_page(self, index, page):
        self._page(index)[...] = page.reshape(self._page(index).shape)


class JoinedPool(Pool):
    """Whose pages are copies, as those of recurrent states are: joined of several tensors."""

    def get_data_page(self, index, flat=True):
        return super().get_data_page(index, flat).copy()


def pages_at(numbers, page_size=PAGE):
    return numpy.concatenate([numpy.arange(n * page_size, (n + 1) * page_size) for n in numbers])


def storage(tmp_path, pool, settings=None, **config):
    made = TowpathHiCache(fake_sglang.Config({"backend_name": "towpath", "module_path": "towpath.sglang",
                                              "class_name": "TowpathHiCache", "interface_v1": 1,
                                              "directory": str(tmp_path), "disk": "1GiB", **(settings or {})},
                                             **config), {})
    made.register_mem_pool_host(pool)
    return made


def keys(count, start=0):
    return [f"{i:064x}" for i in range(start, start + count)]


def test_what_a_decode_server_passes_on_of_sglangs_own_is_taken(tmp_path):
    storage(tmp_path, Pool("page_first"), {
        "prefetch_threshold": 256, "prefetch_timeout_base": 1, "prefetch_timeout_per_ki_token": 0.25,
        "hicache_storage_pass_prefix_keys": False, "file_storage_path": "/tmp/sglang"}).close()


@pytest.mark.parametrize("layout", ["page_first", "layer_first"])
def test_pages_come_back_also_in_the_next_life(tmp_path, layout):
    source, numbers = Pool(layout, seed=1), [5, 9, 2, 40]
    first = storage(tmp_path, source)
    assert first.batch_exists(keys(4)) == 0
    assert first.batch_set_v1(keys(4), pages_at(numbers)) == [True] * 4
    assert first.batch_exists(keys(6)) == 4
    assert first.batch_exists([*keys(2), *keys(1, 50), *keys(1, 2)]) == 2
    first.close()
    target = Pool(layout)
    second = storage(tmp_path, target)
    assert second.batch_get_v1(keys(5), pages_at([1, 2, 3, 4, 5])) == [True] * 4 + [False]
    for there, here in zip(numbers, (1, 2, 3, 4)):
        assert (target.get_data_page(here * PAGE) == source.get_data_page(there * PAGE)).all()
    assert not target.get_data_page(0).any() and not target.get_data_page(5 * PAGE).any()
    second.close()


def test_pages_without_bytes_are_there_too(tmp_path):
    there = storage(tmp_path, Pool(layers=0))
    assert there.batch_exists(keys(3)) == 0
    assert there.batch_set_v1(keys(3), pages_at(range(3))) == [True] * 3
    assert there.batch_exists(keys(4)) == 3
    assert there.batch_get_v1(keys(4), pages_at(range(4))) == [True] * 3 + [False]
    there.close()


def test_the_generic_way_gives_the_same_pages(tmp_path):
    pool = Pool("layer_first", seed=3)
    there = storage(tmp_path, pool)
    assert there.batch_set(keys(2), [pool.get_data_page(0), pool.get_data_page(PAGE)])
    got = there.batch_get(keys(3), [pool.get_dummy_flat_data_page() for _ in range(3)])
    assert (got[0] == pool.get_data_page(0)).all() and (got[1] == pool.get_data_page(PAGE)).all() and got[2] is None
    assert there.exists(keys(1)[0]) and not there.exists("another")
    assert there.set("one", pool.get_data_page(0)) and there.get("one", pool.get_dummy_flat_data_page()) is not None
    there.close()


@pytest.mark.parametrize("other", [{"model_name": "b/model"}, {"tp_rank": 1, "tp_size": 2}, {"pp_rank": 1, "pp_size": 2}])
def test_unlike_caches_never_meet(tmp_path, other):
    one = storage(tmp_path, Pool(seed=1))
    assert one.batch_set_v1(keys(1), pages_at([0])) == [True]
    one.close()
    another = storage(tmp_path, Pool(), **other)
    assert another.batch_exists(keys(1)) == 0
    another.close()


def started_with(monkeypatch, **args):
    """SGLang, in this way."""
    monkeypatch.setattr(runtime_context, "get_server_args", lambda: types.SimpleNamespace(**args))


def is_met_by(tmp_path, other):
    """Whether a page that is stored now is there for the storage that `other()` makes."""
    one = storage(tmp_path / "kv", Pool(seed=1))
    assert one.batch_set_v1(keys(1), pages_at([0])) == [True]
    one.close()
    another = other()
    there = another.batch_exists(keys(1))
    another.close()
    return bool(there)


@pytest.mark.parametrize("drafts", [False, True])
def test_other_weights_under_one_served_name_never_meet(tmp_path, monkeypatch, drafts):
    weights = {"model_path": tmp_path / "model", "speculative_draft_model_path": tmp_path / "drafts"}
    for number, folder in enumerate(weights.values()):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes([number]) * (1 << 20))
    started_with(monkeypatch, **{name: str(folder) for name, folder in weights.items()})

    def trained_on():
        changed = weights["speculative_draft_model_path" if drafts else "model_path"]
        (changed / "model.safetensors").write_bytes(b"\7" * (1 << 20))
        os.utime(changed / "model.safetensors", (1, 1))  # whatever the file system's clock counts in
        return storage(tmp_path / "kv", Pool())

    assert is_met_by(tmp_path, lambda: storage(tmp_path / "kv", Pool()))
    assert not is_met_by(tmp_path, trained_on)


@pytest.mark.parametrize("drafts", [False, True])
def test_weights_that_are_computed_otherwise_never_meet(tmp_path, monkeypatch, drafts):
    """As Qwen's readme has it: for longer prompts, write YaRN into config.json."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(1 << 20))
    (folder / "config.json").write_text('{"rope_scaling": null}')
    started_with(monkeypatch, **({"model_path": "a/model", "speculative_draft_model_path": str(folder)} if drafts else
                                 {"model_path": str(folder)}))

    def changed():
        (folder / "config.json").write_text('{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}')
        return storage(tmp_path / "kv", Pool())

    assert is_met_by(tmp_path, lambda: storage(tmp_path / "kv", Pool()))
    assert not is_met_by(tmp_path, changed)


def test_other_weights_in_one_file_never_meet(tmp_path, monkeypatch):
    """SGLang hands on a model in GGUF as the path of its file, wherever it came from."""
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(1 << 20))
    started_with(monkeypatch, model_path=str(file))

    def changed():
        file.write_bytes(b"\1" * (1 << 20))
        os.utime(file, (1, 1))
        return storage(tmp_path / "kv", Pool())

    assert is_met_by(tmp_path, lambda: storage(tmp_path / "kv", Pool()))
    assert not is_met_by(tmp_path, changed)


@pytest.mark.parametrize("args", [{"model_path": "another/model"}, {"model_path": "a/model", "revision": "next"},
                                  {"model_path": "a/model", "json_model_override_args": '{"rope_theta": 2}'}])
def test_models_by_name_never_meet(tmp_path, monkeypatch, args):

    def another():
        started_with(monkeypatch, **args)
        return storage(tmp_path / "kv", Pool())

    assert not is_met_by(tmp_path, another)


def is_met_by_one_that_was_started_otherwise(tmp_path, monkeypatch, settings, *both):
    """Whether its pages, in pools of the type that SGLang has for all of 8 bits, are there for SGLang with other arguments."""
    found = []
    for args in both:
        started_with(monkeypatch, model_path="a/model", **args)
        pool = Pool(seed=1)
        pool.dtype = "torch.uint8"
        there = storage(tmp_path / "kv", pool, settings)
        found.append(there.batch_exists(keys(1)))
        assert there.batch_set_v1(keys(1), pages_at([0])) == [True]
        there.close()
    assert found[0] == 0
    return bool(found[1])


@pytest.mark.parametrize("settings,one,other", [
    ({}, {"kv_cache_dtype": "fp8_e4m3"}, {"kv_cache_dtype": "fp8_e5m2"}),
    ({"model": "mine"}, {"kv_cache_dtype": "fp8_e4m3"}, {"kv_cache_dtype": "fp8_e5m2"}),
    ({}, {}, {"mamba_ssm_dtype": "bfloat16"})])
def test_types_of_one_size_never_meet(tmp_path, monkeypatch, settings, one, other):
    assert is_met_by_one_that_was_started_otherwise(tmp_path, monkeypatch, settings, one, one)
    assert not is_met_by_one_that_was_started_otherwise(tmp_path / "other", monkeypatch, settings, one, other)


def test_pages_of_other_scales_never_meet(tmp_path, monkeypatch):
    scales = [tmp_path / name for name in ("one.json", "same.json", "other.json")]
    for path, content in zip(scales, ("{}", "{}", '{"model_type": "llama"}')):
        path.write_text(content)
    one, same, other = ({"quantization_param_path": str(path)} for path in scales)
    assert is_met_by_one_that_was_started_otherwise(tmp_path, monkeypatch, {}, one, same), "wherever the file is"
    assert not is_met_by_one_that_was_started_otherwise(tmp_path / "other", monkeypatch, {}, one, other)


def test_replicas_have_folders_of_their_own(tmp_path, monkeypatch):
    open_ones = []
    for rank in (None, 1, 2):
        monkeypatch.setattr(runtime_context, "get_parallel", lambda rank=rank: types.SimpleNamespace(dp_rank=rank),
                            raising=False)
        open_ones.append(storage(tmp_path, Pool(seed=1)))
    assert {folder.name for folder in tmp_path.iterdir()} == {"dp0", "dp1", "dp2"}
    for one in open_ones:
        one.close()


def test_a_name_of_ones_own_is_asked_for_where_sglang_does_not_say_its_model(tmp_path, monkeypatch):
    monkeypatch.delattr(runtime_context, "get_server_args")
    with pytest.raises(ValueError, match='cannot be asked.*say "model"'):
        storage(tmp_path, Pool())
    for model in ("one", "another"):
        there = storage(tmp_path, Pool(seed=1), settings={"model": model})
        assert there.batch_exists(keys(1)) == 0 and there.batch_set_v1(keys(1), pages_at([0])) == [True]
        there.close()


@pytest.mark.parametrize("pool", [Pool("layer_first"), Pool(page_size=8)])
def test_pages_of_another_form_are_not_found(tmp_path, pool):
    one = storage(tmp_path, Pool(seed=1))
    assert one.batch_set_v1(keys(1), pages_at([0])) == [True]
    one.register_mem_pool_host(pool)
    assert one.batch_exists(keys(1)) == 0
    one.close()


def test_several_pools_by_their_rules(tmp_path):
    """Of sliding windows and recurrent states only the end of a prefix need be there."""
    main, state, target = Pool(seed=1), JoinedPool(seed=2), Pool()
    there = storage(tmp_path, main)
    for pool_name, pool in ((PoolName.MAMBA, state), (PoolName.SWA, target)):
        there.register_mem_host_pool_v2(pool, pool_name)
    assert there.batch_set_v2([PoolTransfer(PoolName.KV, pages_at(range(6)), keys(6)),
                               PoolTransfer(PoolName.MAMBA, pages_at([2, 4]), [keys(6)[2], keys(6)[4]])]) == {
        PoolName.KV: [True] * 6, PoolName.MAMBA: [True] * 2}

    def restorable(name, policy, window):
        found = there.batch_exists_v2(keys(8), [PoolTransfer(name, keys=window, hit_policy=policy)])
        return found.kv_hit_pages, found.restorable_prefix_pages

    assert restorable(PoolName.MAMBA, PoolHitPolicy.TRAILING_PAGES, ["x"]) == (5, [3, 5])
    assert restorable(PoolName.MAMBA, PoolHitPolicy.TRAILING_PAGES, ["x", "y"]) == (0, [])
    assert restorable(PoolName.MAMBA, PoolHitPolicy.ALL_PAGES, None) == (0, [])
    assert restorable(PoolName.KV, PoolHitPolicy.ALL_PAGES, None) == (6, [1, 2, 3, 4, 5, 6])
    with pytest.raises(ValueError, match="block_groups.*not supported"):
        restorable(PoolName.MAMBA, PoolHitPolicy.BLOCK_GROUPS, None)
    assert there.batch_get_v2([PoolTransfer(PoolName.SWA, pages_at([0]), keys(1)),
                               PoolTransfer(PoolName.MAMBA, pages_at([9]), [keys(6)[4]]),
                               PoolTransfer(PoolName.KV, pages_at([9])[:-1], keys(1))]) == {
        PoolName.SWA: [False], PoolName.MAMBA: [True], PoolName.KV: [False]}
    assert (state.get_data_page(9 * PAGE) == state.get_data_page(4 * PAGE)).all()
    there.close()


def test_threads_wait_for_their_own_batches_and_clear_is_a_miss(tmp_path):
    there, failures = storage(tmp_path, Pool(seed=1)), []

    def work(seed):
        rng = random.Random(seed)
        try:
            for _ in range(60):
                numbers = rng.sample(range(64), 4)
                names = [f"{number}" for number in numbers]
                if rng.random() < 0.5:
                    there.batch_set_v1(names, pages_at(numbers))
                else:
                    there.batch_get_v1(names, pages_at(numbers))
                there.batch_exists(names)
        except Exception as why:
            failures.append(why)

    before = there.mem_pool_host.memory.copy()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert there.clear()
    for thread in threads:
        thread.join()
    assert not failures
    assert (there.mem_pool_host.memory == before).all()
    assert there.clear() and there.batch_exists(["1"]) == 0
    there.close()


def test_a_batch_that_has_ended_does_not_wait_for_another_thread_s():

    class Blocks:
        """Batches end when a test says so."""

        def __init__(self):
            self.readable, self.writable = os.pipe()
            self.ended = []

        def fileno(self):
            return self.readable

        def take_ended(self):
            os.read(self.readable, 1)
            return [(self.ended.pop(0), [None])]

        def end(self, number):
            self.ended.append(number)
            os.write(self.writable, b"x")

    class Poller:
        """Looks until there is something, and says that it does."""

        def __init__(self, poller):
            self.poller, self.looks = poller, threading.Event()

        def poll(self, _):
            self.looks.set()
            return self.poller.poll()

    blocks, taken = Blocks(), queue.Queue()
    waiting = _Waiting(blocks)
    waiting._poller = Poller(waiting._poller)

    def take(number):
        thread = threading.Thread(target=lambda: taken.put((number, waiting.take(number))), daemon=True)
        thread.start()

    take(1)
    assert waiting._poller.looks.wait(20)
    take(2)
    blocks.end(2)
    assert taken.get(timeout=20) == (2, [None]), "it waited for the first one's batch"
    blocks.end(1)
    assert taken.get(timeout=20) == (1, [None])


def test_a_folder_that_cannot_be_removed_is_kept_and_served(tmp_path, monkeypatch):
    there = storage(tmp_path, Pool(seed=1))
    assert there.batch_set_v1(keys(1), pages_at([0])) == [True]

    def refuse(path):
        raise PermissionError(13, "not yours", path)

    monkeypatch.setattr("shutil.rmtree", refuse)
    assert there.clear() is False
    assert there.batch_exists(keys(1)) == 1
    there.close()


def test_a_drive_is_cleared(tmp_path):
    drive = tmp_path / "drive"
    drive.touch()
    os.truncate(drive, 512 << 20)
    for _ in range(2):
        there = storage(drive, Pool(seed=1))
        assert there.batch_exists(keys(1)) == 0 and there.batch_set_v1(keys(1), pages_at([0])) == [True]
        assert there.clear() is True
        assert there.batch_exists(keys(1)) == 0
        there.close()


def test_a_folder_that_is_gone_is_cleared(tmp_path):
    there = storage(tmp_path, Pool(seed=1))
    for folder in tmp_path.iterdir():
        shutil.rmtree(folder)
    assert there.clear() is True
    there.close()


@pytest.mark.parametrize("extra, said", [
    ({"directry": "/x"}, "has no key 'directry'; the nearest is 'directory'"),
    ({}, "need a directory"),
    ({"directory": "/x", "direct": 1}, "direct is 1, and should be true or false"),
])
def test_wrong_settings_are_refused(extra, said):
    with pytest.raises(ValueError, match=said):
        TowpathHiCache(fake_sglang.Config(extra), {})


def test_one_writer_for_several_ranks_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="tensor parallel size is 2.*MLA"):
        storage(tmp_path, Pool(), is_mla_model=True, tp_size=2)
