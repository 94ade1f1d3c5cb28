"""The connector's two halves and blobs, from Python."""
import os
import pathlib
import subprocess
import sys
import threading
import time
import types

import numpy
import pytest

import towpath
from towpath import kv_events
from towpath.connector import Blobs, Peers, Scheduler, Worker

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "kv_connector.py"
sys.path.insert(0, str(ROOT / "tests" / "process"))
import swift_store


def test_the_example_runs_and_reports_what_it_loaded():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = [line.partition(":")[2].strip() for line in done.stdout.splitlines()]
    assert said[:7] == [
        "0 tokens loaded, 0 blocks failed",
        "128 tokens loaded, 0 blocks failed",
        "144 tokens loaded, 1 blocks failed",
        "144 tokens loaded, 0 blocks failed",
        "144 tokens loaded, 0 blocks failed",
        "144 tokens loaded, 0 blocks failed",
        "144 tokens loaded, 9 blocks failed",
    ]


def caches(shape=(2, 8, 4, 2, 8), layers=3):
    return [numpy.zeros(shape, numpy.float16) for _ in range(layers)]


AXES = {
    "outer block token head dim": ((2, 8, 4, 2, 8), lambda cache, block: cache[:, block]),
    "outer block head token dim": ((2, 8, 2, 4, 8), lambda cache, block: cache[:, block]),
    "block outer token head dim": ((8, 2, 4, 2, 8), lambda cache, block: cache[block]),
    "block outer head token dim": ((8, 2, 2, 4, 8), lambda cache, block: cache[block]),
    "block head token dim": ((8, 2, 4, 16), lambda cache, block: cache[block]),
    "block token head dim": ((8, 4, 2, 16), lambda cache, block: cache[block]),
    "block token dim": ((8, 4, 16), lambda cache, block: cache[block]),
}


def test_a_rank_that_does_not_fit_is_refused():
    for rank, why in ((1 << 32, towpath.InvalidArgument), (1 << 64, OverflowError)):
        with pytest.raises(why):
            Worker(caches(), name_space="m", rank=rank)


def content(block, shape):
    """What computing the prompt's block of that number gives."""
    return numpy.random.default_rng(block).random(shape).astype(numpy.float16)


def serve(scheduler, worker, layers, request, blocks, part=AXES["outer block token head dim"][1],
          priority=50):
    """A step for a prompt of three blocks; how many of its tokens were loaded."""
    loaded, waits = scheduler.match(request, range(12))
    assert not waits
    scheduler.allocate(request, blocks, loaded)
    scheduler.advance(request, loaded, 12, priority=priority)
    for i in range(loaded // 4, 3):
        for cache in layers:
            part(cache, blocks[i])[...] = content(i, part(cache, blocks[i]).shape)
    worker.start_step(scheduler.build())
    for layer in range(3):
        worker.wait_for_layer_load(layer)
        worker.save_layer(layer)
    worker.wait_for_save()
    scheduler.update(worker.take_report())
    return loaded


@pytest.mark.parametrize("axes", AXES)
def test_blocks_of_any_arrangement_come_back(axes):
    shape, part = AXES[axes]
    layers = caches(shape)
    with Worker(layers, name_space="m", axes=axes) as worker:
        scheduler = Scheduler(4)
        assert serve(scheduler, worker, layers, "a", [0, 1, 2], part) == 0
        assert serve(scheduler, worker, layers, "b", [5, 3, 4], part) == 8
        for cache in layers:
            for source, target in ((0, 5), (1, 3)):
                assert part(cache, source).any()
                assert numpy.array_equal(part(cache, source), part(cache, target))
        assert scheduler.finish("a") is False
        assert scheduler.figures()["matched_tokens"] == 8
        assert [event.kind for event in scheduler.take_events()] == ["stored"] * 3
        assert worker.figures()["saved_blocks"] == 3


def test_caches_lie_where_their_strides_say():
    """Layers that interleave in one allocation, those that have their own, and what neither is."""
    shape, part = AXES["block head token dim"]
    whole = numpy.zeros((8, 3, *shape[1:]), numpy.float16)
    padded = [numpy.zeros((8, 2, 4, 20), numpy.float16)[..., :16] for _ in range(3)]
    for layers in ([whole[:, i] for i in range(3)], padded):
        with Worker(layers, name_space="m", axes="block head token dim") as worker:
            scheduler = Scheduler(4)
            assert serve(scheduler, worker, layers, "a", [0, 1, 2], part) == 0
            assert serve(scheduler, worker, layers, "b", [5, 3, 4], part) == 8
            for cache in layers:
                assert numpy.array_equal(cache[[0, 1]], cache[[5, 3]]) and cache[0].any() and not cache[7].any()
    with pytest.raises(ValueError, match="at one distance, in the order of the layers"):
        Worker([whole[:, i] for i in (0, 2, 1)], name_space="m", axes="block head token dim")
    with pytest.raises(ValueError, match="same strides"):
        Worker([whole[:, 0], padded[0]], name_space="m", axes="block head token dim")


def test_caches_of_unlike_types_and_strides_between_elements_are_refused():
    layers = caches()
    for other in (numpy.float32, numpy.int16):
        with pytest.raises(ValueError, match="of one type"):
            Worker([*layers, layers[0].astype(other)], name_space="m")
    beside = numpy.dtype([("wanted", numpy.float16), ("other", numpy.uint8)])
    with pytest.raises(ValueError, match="no multiples of an element of 2"):
        Worker([numpy.zeros(layers[0].shape, beside)["wanted"]], name_space="m")


def test_events_report_routers_the_tokens():
    layers = caches()
    with Worker(layers, name_space="m") as worker:
        scheduler = Scheduler(4, events_with_tokens=True)
        serve(scheduler, worker, layers, "a", [0, 1, 2])
        events = scheduler.take_events()
        hashes = [event.hash for event in events]
        assert [event.tokens for event in events] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert [event.parent for event in events] == [None, *hashes[:2]]
        stored, = kv_events.for_router(events, 4)
        assert stored == kv_events.BlockStored(hashes, None, list(range(12)), 4, None, "CPU", None)


def test_events_say_when_blocks_outlive_the_engine(tmp_path):
    layers = caches()
    with Worker(layers, name_space="m", directory=str(tmp_path)) as worker:
        scheduler = Scheduler(4, events_with_tokens=True, lasting_events=True)
        serve(scheduler, worker, layers, "a", [0, 1, 2])
        worker.sync()
        scheduler.update(worker.take_report())
        events = scheduler.take_events()
        assert sorted(event.is_lasting for event in events) == [False] * 3 + [True] * 3
        assert scheduler.figures()["not_lasting"] == 0
        said = kv_events.for_router(events, 4)
        for medium in ("CPU", "DISK"):
            hashes = [one for event in said if event.medium == medium for one in event.block_hashes]
            tokens = [one for event in said if event.medium == medium for one in event.token_ids]
            assert len(set(hashes)) == 3 and sorted(tokens) == list(range(12))


def test_orders_say_whose_blocks_are_saved():
    def orders(**whose):
        scheduler = Scheduler(4)
        scheduler.match("a", range(5), **whose)
        scheduler.allocate("a", [0, 1], 0)
        scheduler.advance("a", 0, 4)
        return scheduler.build()

    assert orders() == orders(tenant="") != orders(tenant="a salt") != orders(tenant="another")


def test_events_of_an_adapter_take_the_classes_of_the_engine():
    class BlockStored:  # as vLLM 0.10 has it, without the adapter's name
        block_hashes: list
        parent_block_hash: int
        token_ids: list
        block_size: int
        lora_id: int

        def __init__(self, **fields):
            self.fields = fields

    def event(kind, number, parent=None, room=""):
        return types.SimpleNamespace(kind=kind, hash=number, parent=parent, room=room,
                                     tokens=[number] * 2 if kind == "stored" else [])

    engine = types.SimpleNamespace(BlockStored=BlockStored, BlockRemoved=kv_events.BlockRemoved)
    events = [event("stored", 1, room="lora"), event("stored", 2, 1, "lora"), event("stored", 3, 9),
              event("removed", 2), event("removed", 1)]
    first, second, removed = kv_events.for_router(events, 2, types=engine, lora_ids={"lora": 7})
    assert first.fields == {"block_hashes": [1, 2], "parent_block_hash": None, "lora_id": 7,
                            "token_ids": [1, 1, 2, 2], "block_size": 2}
    assert second.fields["parent_block_hash"] == 9 and second.fields["lora_id"] is None
    assert removed == kv_events.BlockRemoved([2, 1], "CPU")
    with pytest.raises(ValueError, match="events_with_tokens"):
        kv_events.for_router(events, 4)


@pytest.mark.skipif(not swift_store.is_installed(), reason=swift_store.MISSING)
def test_blocks_in_a_store_serve_the_next_worker(monkeypatch):
    with swift_store.running_swift() as port:
        bucket = swift_store.Bucket(port, "towpath-connector")
        at_the_store = swift_store.environment(port)
        url = at_the_store.pop("AWS_ENDPOINT_URL")
        for name, value in at_the_store.items():
            monkeypatch.setenv(name, value)
        objects = f"s3://{bucket.name}/llama:1MiB?endpoint_override={url}"
        layers = caches()
        with Worker(layers, name_space="m", objects=objects) as worker:
            assert serve(Scheduler(4), worker, layers, "a", [0, 1, 2]) == 0
            worker.sync()
            assert worker.figures()["written"] == 3
            assert len(bucket.names()) == 3
        layers, scheduler = caches(), Scheduler(4)
        with Worker(layers, name_space="m", objects=objects) as worker:
            until = time.monotonic() + 60  # the store's list reports what is there
            while scheduler.match("b", range(12))[0] < 8 and time.monotonic() < until:
                scheduler.update(worker.take_report())
            assert serve(scheduler, worker, layers, "b", [5, 3, 4]) == 8
            assert worker.figures()["from_objects"] == 2
            for cache in layers:
                for source, target in ((0, 5), (1, 3)):
                    assert numpy.array_equal(cache[:, target], content(source, cache[:, target].shape))


def test_kvbm_s_settings_are_the_worker_s(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "8")
    monkeypatch.setenv("DYN_KVBM_DISK_CACHE_GB", "1")
    monkeypatch.setenv("DYN_KVBM_DISK_CACHE_DIR", str(tmp_path / "of_the_environment"))
    monkeypatch.setenv("DYN_KVBM_METRICS_PORT", "6880")
    with Worker(caches(), name_space="m", kvbm=True) as worker:
        assert worker.folder.startswith(str(tmp_path / "of_the_environment"))
    assert "DYN_KVBM_METRICS_PORT has no effect" in capfd.readouterr().err
    folder = str(tmp_path / "of_the_engine")
    layers, scheduler = caches(), Scheduler(4)
    with Worker(layers, name_space="m", kvbm={"cache": {"disk": {"storage_path": folder}}}) as worker:
        assert worker.folder.startswith(folder)
        assert serve(scheduler, worker, layers, "a", [0, 1, 2]) == 0
        worker.sync()
        assert worker.figures()["written"] == 0  # KVBM's filter: at second sight
        assert serve(scheduler, worker, layers, "b", [3, 4, 5]) == 8
        worker.sync()
        assert worker.figures()["written"] == 2
    with Worker(layers, name_space="m", kvbm=False) as worker:
        assert worker.folder == ""
    monkeypatch.setenv("DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "many")
    with pytest.raises(towpath.InvalidArgument, match="cannot be read: 'many'"):
        Worker(layers, name_space="m", kvbm=True)


def test_what_has_too_little_priority_stays_in_memory(tmp_path):
    settings = {"cache": {"host": {"num_blocks": 8}, "disk": {"num_blocks": 8, "storage_path": str(tmp_path)}},
                "offload": {"g1_to_g2": {"min_priority": 60}}}
    layers = caches()
    for priority, written in ((59, 0), (60, 3)):
        with Worker(layers, name_space="m", kvbm=settings, min_accesses=1) as worker:
            serve(Scheduler(4), worker, layers, "a", [0, 1, 2], priority=priority)
            worker.sync()
            assert worker.figures()["written"] == written
    with pytest.raises(TypeError):
        Scheduler(4).advance("b", 0, 0, priority=256)


def test_other_threads_work_while_the_worker_does():
    layers = caches()
    with Worker(layers, name_space="m") as worker:
        ended = threading.Event()

        def drive():
            while not ended.is_set():
                worker.progress()

        thread = threading.Thread(target=drive)
        thread.start()
        for _ in range(200):
            worker.take_report()
        ended.set()
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_what_is_wrong_is_raised():
    with pytest.raises(ValueError, match="axes are one of"):
        Worker(caches(), name_space="m", axes="block head")
    with pytest.raises(ValueError, match="one shape"):
        Worker([], name_space="m")
    with pytest.raises(towpath.InvalidArgument, match="no rendezvous"):
        Worker(caches(), name_space="m", peers=Peers("nowhere:"))
    with pytest.raises(towpath.NotFound):
        Worker(caches(), name_space="m", peers=Peers("scope:m", backends=["none"]))
    with pytest.raises(towpath.InvalidArgument, match="no place for objects"):
        Worker(caches(), name_space="m", objects="s3://bucket/prefix")
    with pytest.raises(towpath.InvalidArgument, match="s3-fifo"):
        Worker(caches(), name_space="m", policy="lucky")
    with pytest.raises(towpath.InvalidArgument, match="crc32c"):
        Worker(caches(), name_space="m", digest="md5")
    with pytest.raises(towpath.InvalidArgument, match="after 1000 accesses.*count to 15"):
        Worker(caches(), name_space="m", min_accesses=1000)
    with pytest.raises(towpath.InvalidArgument, match="JSON"):
        Worker(caches(), name_space="m", kvbm="{")
    with pytest.raises(towpath.NotFound):
        Scheduler().finish("nobody")
    with pytest.raises(towpath.InvalidArgument):
        Scheduler(workers=0)
    with Worker(caches(), name_space="m") as worker:
        with pytest.raises(towpath.Corrupt):
            worker.start_step(b"no orders")
        with pytest.raises(towpath.OutOfRange):
            worker.wait_for_layer_load(3)
    with pytest.raises(towpath.NotReady):
        worker.progress()


def test_blobs_come_back_as_they_were_or_not_at_all(tmp_path):
    blobs = Blobs(tmp_path)
    state = numpy.arange(100_000, dtype=numpy.uint16)
    blobs.save("chat/1", state, context="a model")
    assert blobs.restore("chat/1", context="a model") == state.tobytes()
    with pytest.raises(towpath.InvalidArgument, match="is of 'a model'"):
        blobs.restore("chat/1", context="another")
    (entry,) = blobs.list()
    assert (entry["name"], entry["length"], entry["error"]) == ("chat/1", 200_000, None)
    path = tmp_path / entry["file"]
    damaged = bytearray(path.read_bytes())
    damaged[150_000] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(towpath.Corrupt, match="not what was saved"):
        blobs.restore("chat/1", context="a model")
    with pytest.raises(towpath.Corrupt):
        blobs.verify("chat/1")
    path.write_bytes(damaged[:100_000])
    with pytest.raises(towpath.Corrupt, match="torn"):
        blobs.restore("chat/1", context="a model")
    blobs.remove("chat/1")
    with pytest.raises(towpath.NotFound):
        blobs.restore("chat/1")


def test_the_command_makes_no_folder_but_to_save(tmp_path, capsys):
    from towpath.blobs import main
    for words in (["verify"], ["verify", "chat"], ["list"], ["restore", "chat", "back"], ["remove", "chat"]):
        assert main([words[0], str(tmp_path / "typo"), *words[1:]]) == 3
        assert "there is no folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_blobs_from_the_command_line(tmp_path, capsys):
    from towpath.blobs import main
    folder, source, target = str(tmp_path / "blobs"), tmp_path / "state", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * 100)
    assert main(["save", folder, "chat", str(source), "--context", "a model"]) == 0
    assert main(["restore", folder, "chat", str(target), "--context", "a model"]) == 0
    assert target.read_bytes() == source.read_bytes()
    target.unlink()
    assert main(["restore", folder, "chat", str(target)]) == 3
    assert main(["verify", folder]) == 0
    assert "good   chat" in capsys.readouterr().out
    (path,) = (tmp_path / "blobs").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["verify", folder, "chat"]) == 1
    assert main(["list", folder]) == 1
    assert main(["restore", folder, "chat", str(target)]) == 1
    assert not target.exists()
    assert "torn" in capsys.readouterr().out
    assert main(["remove", folder, "chat"]) == 0


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_blob_s_name_may_be_any_bytes(tmp_path, encoding):
    name = os.fsdecode(b"a\xff\xc3\xa9\x1b[2J\ngood   b")
    Blobs(tmp_path / "blobs").save(name, b"state", context=name)
    for command, expected in (("list", r"5  a\udcff{}\x1b[2J\ngood   b  a\udcff"), ("verify", r"good   a\udcff{}\x1b[2J\ngood   b")):
        done = subprocess.run([sys.executable, "-m", "towpath.blobs", command, tmp_path / "blobs"], capture_output=True,
                              env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"})
        assert (done.returncode, done.stderr) == (0, b"")
        said = done.stdout.decode(encoding)
        assert said.count("\n") == 1 and expected.format("\xe9" if encoding == "utf-8" else r"\xe9") in said
