"""SGLang's own factory, configuration and failure injector over our back-end; beside its back-end `file`."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from harness import beside, say

ROUNDS, PAGES, PAGE_SIZE, LAYERS = 5, 64, 64, 16  # pages of 1 MiB: 64 tokens, 16 layers, 4 heads of 128 bf16


def sglang(work):
    """In a process of its own, whose packages are SGLang's. No engine runs: its wheel asks for a GPU."""
    path = f"{os.environ['TOWPATH_SGLANG']}:{os.environ['PYTHONPATH']}"
    done = subprocess.run([sys.executable, __file__, str(work)], text=True, stdout=subprocess.PIPE, timeout=280,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout[-3000:]
    say("SGLang's classes are served")
    return done.stdout.strip().splitlines()[-1]


class Pool:
    """The part of HostKVCache that back-ends call, in its layout `page_first`: the real one wants a device's pool."""

    def __init__(self, torch, seed=None):
        self.layout, self.dtype, self.page_size = "page_first", torch.bfloat16, PAGE_SIZE
        self.memory = torch.zeros(PAGES, LAYERS, PAGE_SIZE, 512, dtype=torch.bfloat16)
        if seed is not None:
            self.memory.normal_(generator=torch.Generator().manual_seed(seed))

    def get_data_page(self, index, flat=True):
        page = self.memory[int(index) // PAGE_SIZE]
        return page.flatten() if flat else page

    def get_dummy_flat_data_page(self):
        return self.memory[0].flatten().clone()

    def set_from_flat_data_page(self, index, page):
        self.memory[int(index) // PAGE_SIZE].copy_(page.view_as(self.memory[0]))


def make(pool, name, folder, **more):
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
    from sglang.srt.mem_cache.storage import StorageBackendFactory
    ours = {"backend_name": "towpath", "module_path": "towpath.sglang", "class_name": "TowpathHiCache", "interface_v1": 1,
            "directory": str(folder), "disk": "4GiB", "model": "a/model"}  # no engine runs that could say its own
    config = HiCacheStorageConfig(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
                                  is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=True,
                                  model_name="a/model", extra_config=ours if name == "dynamic" else
                                  {"file_storage_path": str(folder)}, **more)
    made = StorageBackendFactory.create_backend(name, config, pool)
    made.register_mem_pool_host(pool)
    made.on_host_pools_registered()
    return made


def times(name, folder, torch):
    """Seconds to store all pages and to load them, as the cache controller does for such a back-end."""
    shutil.rmtree(folder, ignore_errors=True)
    source, target, keys = Pool(torch, 1), Pool(torch), [f"{i:064x}" for i in range(PAGES)]
    backend, indices = make(source, name, folder), torch.arange(PAGES * PAGE_SIZE)
    begin = time.perf_counter()
    if name == "dynamic":
        assert all(backend.batch_set_v1(keys, indices))
    else:
        assert backend.batch_set(keys, [source.get_data_page(i * PAGE_SIZE) for i in range(PAGES)])
    stored = time.perf_counter()
    backend.register_mem_pool_host(target)
    assert backend.batch_exists(keys) == PAGES
    found = time.perf_counter()
    if name == "dynamic":
        assert all(backend.batch_get_v1(keys, indices))
    else:
        pages = backend.batch_get(keys, [target.get_dummy_flat_data_page() for _ in keys])
        for i, page in enumerate(pages):
            target.set_from_flat_data_page(i * PAGE_SIZE, page)
    loaded = time.perf_counter()
    assert torch.equal(target.memory, source.memory)
    if name == "dynamic":
        backend.close()
    return stored - begin, loaded - found


def injected(folder, torch):
    """SGLang's injector fails a third of the calls: what is loaded is right, whatever was not."""
    os.environ["SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE"] = "0.3"
    source, target, rng = Pool(torch, 2), Pool(torch), random.Random(7)
    storing, loads = make(source, "dynamic", folder), 0
    for _ in range(200):
        number = rng.randrange(PAGES)
        indices = torch.arange(number * PAGE_SIZE, (number + 1) * PAGE_SIZE)
        try:
            storing.register_mem_pool_host(source)
            storing.batch_set_v1([f"{number}"], indices)
            storing.register_mem_pool_host(target)
            target.memory[number].zero_()
            if storing.batch_get_v1([f"{number}"], indices)[0]:
                assert torch.equal(target.memory[number], source.memory[number])
                loads += 1
        except Exception as why:  # the injector's
            assert "njected" in str(why) or "failure" in str(why), why
    del os.environ["SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE"]
    assert loads > 20, loads
    return loads


def main(work):
    import torch
    loads = injected(work / "injected", torch)
    taken = {name: [] for name in ("dynamic", "file")}
    for _ in range(ROUNDS):
        for name in taken:
            taken[name].append(times(name, work / name, torch))
    parts = [beside(what, *([PAGES / 1024 * 1.073741824 / pair[which] for pair in taken[name]] for name in taken), "file")
             for which, what in enumerate(("store", "load"))]
    print(f"SGLang's factory and failure injector (200 pages, {loads} loaded, all right); 64 pages of 1 MiB: {'; '.join(parts)}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
