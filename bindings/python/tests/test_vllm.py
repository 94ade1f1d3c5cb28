"""towpath.vllm without vLLM: settings, geometry, names, and the rules of the scheduler's half."""
import pickle
import types

import numpy
import pytest

import fake_vllm

fake_vllm.install()
from towpath._server import Server
from towpath.vllm import connector, geometry, settings
from towpath.vllm.connector import TowpathConnector, TowpathReports
from towpath.vllm.scheduling import SchedulerSide
from towpath.vllm.serving import WorkerSide
from towpath.vllm.stats import TowpathPromMetrics, TowpathStats
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

BLOCKS, HEADS, TOKENS, DIM, LAYERS = 8, 4, 16, 128, 3
LAYOUTS = ["LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC"]  # vLLM's names: from the outermost axis on


def views(layout, dtype=numpy.float16):
    """A layer's caches [block, head, token, content] of one allocation in that order of axes."""
    extents = {"L": LAYERS, "B": BLOCKS, "H": HEADS, "N": TOKENS, "C": DIM}
    whole = numpy.zeros([extents[axis] for axis in layout], dtype)
    ordered = whole.transpose([layout.index(axis) for axis in "LBHNC"])
    return {f"model.layers.{i}.self_attn.attn": ordered[i] for i in range(LAYERS)}


# Settings ----------------------------------------------------------------------------------------

def test_one_line_of_settings_is_enough():
    read = settings.read({"directory": "/nvme/kv"})
    assert (read.directory, read.disk, read.saves_in_background, read.loads_in_background) == (
        "/nvme/kv", 16 << 30, True, True)
    assert read.blocks_in_memory(1 << 20, 40) == 1024
    assert read.blocks_in_memory(1 << 30, 40) == 80


@pytest.mark.parametrize("value, meant", [(4096, 4096), ("64GiB", 64 << 30), ("1.5 MiB", 3 << 19), ("2g", 2 * 10**9)])
def test_sizes_are_numbers_or_texts(value, meant):
    assert settings.read({"memory": value}).memory == meant


@pytest.mark.parametrize("extra, says", [
    ({"direktory": "/x"}, "has no key 'direktory'; the nearest is 'directory'"),
    ({"Memory": 1}, "nearest is 'memory'"),
    ({"memory": "many"}, "memory is 'many', and a size is"),
    ({"disk": True}, "disk is True"),
    ({"directory": 7}, "directory is 7, and should be a text"),
    ({"saves_in_background": "no"}, "should be true or false"),
    ({"min_accesses": -1}, "a number, 0 or more"),
    ({"load": "never"}, "load is 'never', and should be 'cheaper' or 'always'"),
    ({"min_accesses": True}, "a number, 0 or more"),
    ({"peers": {"rendevouz": "x"}}, "peers has no key 'rendevouz'; the nearest is 'rendezvous'"),
    ({"peers": {"name": "x"}}, "peers need a rendezvous"),
    ({"peers": "etcd://"}, "should be a table"),
    ({"peers": {"rendezvous": 7}}, "peers.rendezvous is 7, and should be a text"),
    ({"peers": {"rendezvous": "x", "others": "ab"}}, "peers.others is 'ab', and should be a list of texts"),
    ({"peers": {"rendezvous": "x", "others": [1]}}, "peers.others is 1, and should be a text"),
    ({"peers": {"rendezvous": "x", "timeout": "5"}}, "should be a number of seconds"),
    ({"server": 7}, "server is 7, and should be a socket"),
    ({"server": {"memory": "64GiB", "sockets": "/x"}}, "server has no key 'sockets'; the nearest is 'socket'"),
    ({"server": {"directory": "/kv"}}, "server need a memory, such as \"64GiB\""),
])
def test_what_is_wrong_is_refused_with_what_is_meant(extra, says):
    with pytest.raises(ValueError, match="towpath: ") as refused:
        settings.read(extra)
    assert says in str(refused.value)


def parallel(ranks=1, replicas=1, replica=0):
    return types.SimpleNamespace(tensor_parallel_size=ranks, data_parallel_size=replicas, data_parallel_index=replica)


def test_ranks_and_replicas_have_places_and_names_of_their_own():
    read = settings.read({"directory": "/kv", "peers": {"rendezvous": "x", "name": "a", "others": ["b", "c"]}})
    alone, rank, replica = read.of_rank(0, parallel()), read.of_rank(1, parallel(2)), read.of_rank(0, parallel(1, 2, 1))
    assert (alone.peers.name, alone.peers.others, alone.directory) == ("a", ["b", "c"], "/kv")
    assert (rank.peers.name, rank.peers.others) == ("a-1", ["b-0", "b-1", "c-0", "c-1"])
    assert (replica.peers.name, replica.directory) == ("a-1", "/kv/replica-1")
    assert read.peers.name == "a", "the engine's own settings stay as they were read"


def test_a_server_that_is_started_has_a_cache_for_each_rank():
    table = settings.read({"server": {"memory": "64GiB", "socket": "/run/kv"}})
    assert table.of_rank(1, parallel(2)).server == Server(64 << 30, "/run/kv", caches=2)
    assert settings.read({"server": "unix:/run/kv"}).of_rank(1, parallel(2)).server == "unix:/run/kv"


def test_replicas_do_not_share_a_place_for_objects():
    with pytest.raises(ValueError, match="objects is 's3://b/p', .*data_parallel_size is 2: start each replica by itself"):
        settings.read({"objects": "s3://b/p"}).of_rank(0, parallel(1, 2, 1))


def test_too_little_memory_says_how_much_is_needed():
    with pytest.raises(ValueError, match='holds 2 blocks of 1,048,576 bytes, and a step may need 9: say "memory": "9MiB"'):
        settings.read({"memory": "2MiB"}).blocks_in_memory(1 << 20, 9)


# Geometry ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_the_engine_is_proven_and_kept(layout):
    caches = views(layout)
    proven = geometry.prove(caches, fake_vllm.cache_config())
    assert proven.shape == (BLOCKS, HEADS, TOKENS, DIM) and proven.block_bytes == LAYERS * HEADS * TOKENS * DIM * 2
    scheduler, worker = connectors(caches)
    written = {name: numpy.random.default_rng(i).random((2, HEADS, TOKENS, DIM)).astype(numpy.float16)
               for i, name in enumerate(caches)}
    for name, cache in caches.items():
        cache[[3, 6]] = written[name]
    step(scheduler, worker, Request("a", 40), [3, 6, 1], 0)
    for cache in caches.values():
        cache[:] = 0
    step(scheduler, worker, Request("b", 40), [7, 2, 5], 32)
    for name, cache in caches.items():
        assert numpy.array_equal(cache[[7, 2]], written[name]), name
        assert not cache[[0, 1, 3, 4, 5, 6]].any(), "other blocks were written"
    worker.shutdown()


def test_a_shape_that_does_not_fit_is_refused_with_both():
    caches = {name: cache.transpose(0, 2, 1, 3) for name, cache in views("LBHNC").items()}
    with pytest.raises(geometry.GeometryError) as refused:
        geometry.prove(caches, fake_vllm.cache_config())
    assert f"[{BLOCKS}, {HEADS}, {TOKENS}, {DIM}] by kv_cache_config" in str(refused.value)
    assert f"is [{BLOCKS}, {TOKENS}, {HEADS}, {DIM}] with strides" in str(refused.value)


def test_two_heads_are_not_taken_for_keys_and_values():
    """The shape that other connectors read as [2, ...]: here it is refused, whichever axis has the two."""
    caches = {"a": numpy.zeros((2, BLOCKS, TOKENS, DIM), numpy.float16)}
    with pytest.raises(geometry.GeometryError, match="should be"):
        geometry.prove(caches, fake_vllm.cache_config(fake_vllm.FullAttentionSpec(num_heads=2)))


def strided(shape, strides, offset=0, memory=numpy.zeros(1 << 20, numpy.float16)):
    return numpy.lib.stride_tricks.as_strided(memory[offset:], shape, [2 * stride for stride in strides])


@pytest.mark.parametrize("caches, says", [
    ({}, "no caches"),
    ({"a": strided((8, 4, 16, 128), (8192, 2048, 128, 1)), "b": strided((8, 4, 16, 128), (4 * 8192, 2048, 128, 1), 99)},
     "layers of one shape are wanted"),
    ({"a": strided((8, 4, 16, 128), (2048, 2048, 128, 1))}, "elements of a share bytes"),
    ({"a": strided((8, 4, 16, 128), (8192, 2048, 128, 1)), "b": strided((8, 4, 16, 128), (8192, 2048, 128, 1), 4096)},
     "the caches of a and b share bytes"),
    ({name: strided((8, 4, 16, 128), (4 * 8192, 2048, 128, 1), offset)
      for name, offset in (("a", 0), ("b", 8192), ("c", 36864))}, "the caches of a and b share bytes"),
    ({"a": strided((8, 4, 16, 128), (8192, 2048, 128, 1)), "b": strided((8, 4, 16, 64), (8192, 2048, 128, 1), 70000)},
     "b should be"),
])
def test_caches_that_overlap_are_refused(caches, says):
    with pytest.raises(geometry.GeometryError, match=says):
        geometry.prove(caches, fake_vllm.cache_config())


def test_layers_that_share_a_cache_have_one():
    caches = views("LBHNC")
    names = list(caches)
    proven = geometry.prove({**caches, "shares": caches[names[1]]}, fake_vllm.cache_config())
    assert list(proven.caches) == names and proven.layer_of["shares"] == names[1]


def test_pipelines_are_refused():
    with pytest.raises(ValueError, match="pipeline_parallel_size is 2, and only 1"):
        TowpathConnector(fake_vllm.config(pipeline_parallel_size=2), KVConnectorRole.SCHEDULER, fake_vllm.cache_config())


def test_ranks_with_schedulers_of_their_own_are_refused():
    with pytest.raises(ValueError, match="external_launcher.*--distributed-executor-backend mp"):
        TowpathConnector(fake_vllm.config(distributed_executor_backend="external_launcher"), KVConnectorRole.SCHEDULER,
                         fake_vllm.cache_config())


def test_loads_in_a_step_are_refused_where_a_step_is_computed_upon_them_before_they_came():
    config = fake_vllm.config({"loads_in_background": False})
    config.scheduler_config.async_scheduling = True
    with pytest.raises(ValueError, match="--no-async-scheduling"):
        TowpathConnector(config, KVConnectorRole.SCHEDULER, fake_vllm.cache_config())


# The scheduler's half ----------------------------------------------------------------------------

SYNCHRONOUS = {"loads_in_background": False, "saves_in_background": False}


class Request:

    def __init__(self, name, count, **more):
        self.request_id, self.all_token_ids = name, list(range(count))
        self.cache_salt = self.lora_request = self.prompt_embeds = None
        self.mm_features, self.num_preemptions, self.resumable = [], 0, False
        self.num_computed_tokens, self.num_in_flight_tokens = 0, 0
        self.status = types.SimpleNamespace(name="FINISHED_STOPPED")
        self.__dict__.update(more)


def halves(**extra):
    """They load and save within the step."""
    return (TowpathConnector(fake_vllm.config({**SYNCHRONOUS, **extra}), role, fake_vllm.cache_config())
            for role in (KVConnectorRole.SCHEDULER, KVConnectorRole.WORKER))


def connectors(caches, **extra):
    """Both halves, which know of each other."""
    scheduler, worker = halves(**extra)
    worker.register_kv_caches(caches)
    scheduler.set_xfer_handshake_metadata({0: worker.get_handshake_metadata()})
    return scheduler, worker


def scheduled(request, computed, count, preempted=(), cached=False, drafts=()):
    space = types.SimpleNamespace
    name = request.request_id
    return space(scheduled_new_reqs=[] if cached else [space(req_id=name, num_computed_tokens=computed)],
                 scheduled_cached_reqs=space(req_ids=[name] if cached else [], resumed_req_ids=set(),
                                             num_computed_tokens=[computed], new_block_ids=[None]),
                 num_scheduled_tokens={name: count}, preempted_req_ids=set(preempted),
                 scheduled_spec_decode_tokens={name: list(drafts)})


def step(scheduler, worker, request, blocks, found):
    """A step in which the request is computed, and its end."""
    assert scheduler.get_num_new_matched_tokens(request, 0) == (found, False)
    scheduler.update_state_after_alloc(request, types.SimpleNamespace(get_block_ids=lambda: (blocks,)), found)
    metadata = scheduler.build_connector_meta(scheduled(request, found, len(request.all_token_ids) - found))
    metadata = pickle.loads(pickle.dumps(metadata))  # as it goes to another process
    worker.handle_preemptions(metadata)
    worker.bind_connector_metadata(metadata)
    worker.start_load_kv(None)
    for name in worker._worker._geometry.layer_of:
        worker.wait_for_layer_load(name)
        worker.save_kv_layer(name, None, None)
    worker.wait_for_save()
    sent, received = worker.get_finished(set())
    assert worker.get_block_ids_with_load_errors() == set()
    worker._worker._collect(waits=True)
    reports = pickle.loads(pickle.dumps(worker.build_connector_worker_meta()))
    scheduler.update_connector_output(types.SimpleNamespace(
        kv_connector_worker_meta=reports, finished_sending=sent, finished_recving=received))
    assert scheduler.request_finished(request, blocks) == (False, None)


def side(**given):
    read = settings.read(given)
    return SchedulerSide(tokens_per_block=16, workers=1, name_space="m", settings=read)


def begin(half, request, blocks, loaded=0):
    half.match(request, 0)
    half.allocate(request, (blocks,), loaded)


@pytest.mark.parametrize("load, measures", [("cheaper", True), ("always", False)])
def test_steps_are_measured_where_the_cheaper_way_is_wanted(load, measures):
    extra = {**SYNCHRONOUS, "load": load}
    scheduler = TowpathConnector(fake_vllm.config(extra), KVConnectorRole.SCHEDULER, fake_vllm.cache_config())
    for request in (Request("a", 63), Request("b", 200)):
        assert scheduler.get_num_new_matched_tokens(request, 0) == (0, False)
        scheduler.update_state_after_alloc(request, types.SimpleNamespace(get_block_ids=lambda: ([],)), 0)
        scheduler.build_connector_meta(scheduled(request, 0, len(request.all_token_ids)))
        assert scheduler._scheduler.figures()["computing_ns_per_token"] == 0, "it has not ended"
        assert list(scheduler.take_events()) == []
        assert (scheduler._scheduler.figures()["computing_ns_per_token"] > 0) == (
            measures and request.request_id == "b"), "few tokens say nothing"


@pytest.mark.parametrize("lasting", [False, True])
def test_routers_hear_when_blocks_are_in_files_and_steps_are_asked_for_until_then(tmp_path, lasting):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path), lasting_events=lasting)
    step(scheduler, worker, Request("a", 40), [0, 1, 2], 0)
    assert not lasting or scheduler.has_pending_push_work() or scheduler._scheduler.figures()["not_lasting"] == 0
    worker._worker._worker.sync()
    worker._worker._collect(waits=True)
    reports = worker.build_connector_worker_meta()
    if reports is not None:
        scheduler.update_connector_output(types.SimpleNamespace(
            kv_connector_worker_meta=reports, finished_sending=set(), finished_recving=set()))
    assert not scheduler.has_pending_push_work()
    said = [(type(event).__name__, event.medium, len(event.block_hashes)) for event in scheduler.take_events()]
    assert said[:1] == [("BlockStored", "CPU", 2)] or lasting
    assert sum(count for _, medium, count in said if medium == "DISK") == (2 if lasting else 0)


def test_only_known_tokens_are_saved():
    """A scheduler that runs ahead computes tokens that are not there yet; drafts may be wrong."""
    half, request = side(), Request("a", 16)
    begin(half, request, [0, 1, 2])
    half.build(scheduled(request, 0, 16))
    assert half.figures()["saved_blocks"] == 1
    half.build(scheduled(request, 16, 16, cached=True))
    assert half.figures()["saved_blocks"] == 1, "tokens that nobody knows"
    request.all_token_ids += [1] * 16
    half.build(scheduled(request, 24, 8, cached=True, drafts=[5]))
    assert half.figures()["saved_blocks"] == 1, "a draft"
    half.build(scheduled(request, 31, 1, cached=True))
    assert half.figures()["saved_blocks"] == 2


def test_nothing_is_saved_while_a_load_is_not_confirmed(tmp_path):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path))
    step(scheduler, worker, Request("a", 40), [0, 1, 2], 0)
    half, request = scheduler._scheduler, Request("b", 64)
    before = half.figures()["saved_blocks"]
    assert half.match(request, 0) == (32, False)
    half.allocate(request, ([3, 4, 5, 6],), 32)
    orders = half.build(scheduled(request, 32, 32))
    assert orders.loads and half.figures()["saved_blocks"] == before, "saved upon a load that may fail"
    half.build(scheduled(request, 64, 1, cached=True))
    assert half.figures()["saved_blocks"] == before
    half.update(TowpathReports(0, [], [orders.step]))
    half.build(scheduled(request, 64, 1, cached=True))
    assert half.figures()["saved_blocks"] == before + 2
    worker.shutdown()


def test_nothing_is_saved_while_a_load_of_another_connector_is_not_confirmed(tmp_path):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path), loads_in_background=True)
    half, request = scheduler._scheduler, Request("a", 64)
    begin(half, request, [0, 1, 2, 3])
    output = scheduled(request, 32, 32)
    output.has_sync_kv_loads = True  # 32 tokens are another child's
    worker._worker.begin(half.build(output))
    half.build(scheduled(request, 64, 1, cached=True))
    assert half.figures()["saved_blocks"] == 0, "saved upon a load that may fail"
    worker.wait_for_save()
    half.update(worker.build_connector_worker_meta())
    half.build(scheduled(request, 64, 1, cached=True))
    assert half.figures()["saved_blocks"] == 4
    worker.shutdown()


@pytest.mark.parametrize("background", [False, True])
def test_a_load_that_failed_and_lost_nothing_is_not_ordered_again(tmp_path, background):
    """As of a store that does not answer: what is kept there is still kept."""
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path), loads_in_background=background)
    half, request = scheduler._scheduler, Request("b", 64)
    saved = Request("a", 40)
    begin(half, saved, [0, 1, 2])
    worker._worker.begin(half.build(scheduled(saved, 0, 40)))
    for name in worker._worker._geometry.layer_of:
        worker.save_kv_layer(name, None, None)
    worker.wait_for_save()
    worker._worker._collect(waits=True)
    half.update(worker.build_connector_worker_meta())

    def asks(computed=0):
        found, waits = half.match(request, computed)
        half.allocate(request, ([3, 4, 5, 6],), found)
        half.ended(["b"])
        return computed + found

    assert asks() == 32
    assert asks() == 0 and asks() == 0 and asks(16) == 16, "the same load again"
    request.num_preemptions = 1
    assert asks() == 32, "another load, of blocks that were computed and lost to others"
    worker.shutdown()


def test_an_aborted_request_saves_nothing_at_its_end():
    for status, saved in (("FINISHED_ABORTED", 0), ("FINISHED_LENGTH_CAPPED", 1), ("FINISHED_REPETITION", 1)):
        half, request = side(), Request("a", 15)
        begin(half, request, [0])
        half.build(scheduled(request, 0, 15))
        request.all_token_ids.append(7)
        request.num_computed_tokens, request.status.name = 16, status
        assert half.finish(request) == (bool(saved), None) and half.figures()["saved_blocks"] == saved
        assert half.has_work() == bool(saved), "the engine must step once more"
        half.ended(["a"])


def test_saves_end_before_a_preempted_requests_blocks_are_others():
    half, request = side(), Request("a", 40)
    begin(half, request, [0, 1, 2])
    assert half.build(scheduled(request, 0, 40)).settle is False
    request.num_preemptions = 1
    other = Request("b", 40)
    begin(half, other, [0, 1, 2])
    orders = half.build(scheduled(other, 0, 40, preempted=["a"]))
    assert orders.settle is True
    settled = []
    worker = WorkerSide(settings=settings.read({}), name_space="m")
    worker._worker = types.SimpleNamespace(settle=lambda: settled.append(True))
    worker.settle(orders)
    assert settled == [True]
    begin(half, request, [3, 4, 5])
    assert half.build(scheduled(request, 0, 40)).settle is False, "once is enough"


def test_saves_end_before_the_blocks_of_a_preempted_request_that_was_aborted_are_others():
    """As reset_prefix_cache(reset_running_requests=True) and an abort before the next step."""
    half, request, other = side(), Request("a", 40), Request("b", 40)
    begin(half, request, [0, 1, 2])
    assert half.build(scheduled(request, 0, 40)).data is not None
    request.num_preemptions, request.status.name = 1, "FINISHED_ABORTED"
    half.finish(request)
    begin(half, other, [0, 1, 2])
    assert half.build(scheduled(other, 0, 40, preempted=["a"])).settle is True


def test_no_output_of_a_preempted_request_is_computed_twice_for_the_sake_of_its_saves():
    scheduler = TowpathConnector(fake_vllm.config(), KVConnectorRole.SCHEDULER, fake_vllm.cache_config())
    assert scheduler.requires_kv_delivery is False


@pytest.mark.parametrize("name, salt", [("n" * 1025, None), ("\ud800", None), ("n", "\ud800")], ids=["long", "no text", "salt"])
def test_what_clients_send_does_not_end_the_engine(name, salt):
    half, request = side(), Request(name, 40)
    request.cache_salt = salt
    assert half.match(request, 0) == (0, False)
    half.allocate(request, ([3, 6, 1],), 0)
    half.build(scheduled(request, 0, 40))
    assert half.finish(request) == (False, None)


def test_prompts_without_tokens_are_left_alone():
    half = side()
    for request in (Request("a", 40, prompt_embeds=object()), Request("b", 40, resumable=True)):
        assert half.match(request, 0) == (0, False)
        half.allocate(request, ([0, 1, 2],), 0)
        assert half.build(scheduled(request, 0, 40)).data is None and half.finish(request) == (False, None)


@pytest.mark.parametrize("child", [False, True])
def test_a_child_of_a_multi_connector_reports_with_its_first_step(tmp_path, monkeypatch, child):
    """Its MultiConnector gives what one child has for its like to all children."""
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path))
    step(scheduler, worker, Request("a", 40), [0, 1, 2], 0)
    worker._worker._worker.sync()
    worker.shutdown()
    scheduler, worker = halves(directory=str(tmp_path))
    worker.register_kv_caches(views("LBHNC"))
    monkeypatch.setattr(connector, "has_kv_transfer_group", lambda: True)
    monkeypatch.setattr(connector, "get_kv_transfer_group", lambda: object() if child else worker)
    assert (worker.get_handshake_metadata() is None) == child
    scheduler.set_xfer_handshake_metadata({0: types.SimpleNamespace(agent="another's")})
    if child:
        step(scheduler, worker, Request("b", 8), [3], 0)
        step(scheduler, worker, Request("c", 40), [3, 4, 5], 32)
    worker.shutdown()


def test_what_ended_as_the_caches_fell_asleep_is_said_later():
    _, worker = connectors(views("LBHNC"))
    worker._worker._sent.add("a")
    worker.unregister_kv_caches()
    assert worker.get_finished(set()) == ({"a"}, set())
    assert worker.get_finished(set()) == (set(), set())


def test_what_comes_after_it_was_asked_is_not_in_the_answer():
    """The engine keeps an answer for a while: what is collected then would be in it, and in the next."""
    _, worker = connectors(views("LBHNC"))
    sent, received = worker.get_finished(set())
    failed = worker.get_block_ids_with_load_errors()
    worker._worker._sent.add("late")
    worker._worker._received.add("late")
    worker._worker._failed.add(7)
    assert (sent, received, failed) == (set(), set(), set())
    assert worker.get_finished(set()) == ({"late"}, {"late"})
    assert worker.get_block_ids_with_load_errors() == {7}
    worker.shutdown()


def test_blocks_come_back_after_the_caches_slept(tmp_path):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path))
    step(scheduler, worker, Request("a", 40), [0, 1, 2], 0)
    for _ in range(2):
        worker.unregister_kv_caches()
    assert worker.get_finished(set()) == (set(), set())
    worker.build_connector_worker_meta()  # of what was written to files before they slept
    assert worker.build_connector_worker_meta() is None
    worker.restore_kv_caches()
    step(scheduler, worker, Request("b", 40), [3, 4, 5], 32)
    assert worker._worker._worker.figures()["from_files"] == 2
    worker.shutdown()


def test_reports_of_ranks_are_one():
    both = TowpathReports(1, [b"a"], [4]).aggregate(TowpathReports(1, [b"b"], [4]))
    assert (both.data, both.steps) == ([b"a", b"b"], [4, 4])
    assert TowpathReports(0, [b"old"], [3]).aggregate(both).data == [b"a", b"b"]


def test_stats_add_up_and_reach_prometheus():
    from prometheus_client import Counter
    stats = TowpathStats({"loaded_blocks": 2}).aggregate(TowpathStats({"loaded_blocks": 3, "engine_seconds": 0.5}))
    assert stats.reduce() == {"loaded_blocks": 5, "engine_seconds": 0.5} and not stats.is_empty()
    metrics = TowpathPromMetrics(None, {Counter: Counter}, ["engine"], {0: ["0"]})
    metrics.observe(stats.data)
    assert metrics._counters["loaded_blocks"][0].values == {("0",): 5}


def test_a_multi_connector_finds_the_figures_class_by_the_name_of_the_class():
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    found = KVConnectorFactory.get_connector_class_by_name("TowpathConnector")
    assert found is TowpathConnector and found.build_kv_connector_stats({"written": 2}).data == {"written": 2}
