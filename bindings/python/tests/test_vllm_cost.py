"""What a step costs the engine's thread, counted in calls."""
import sys
import threading
import types

import pytest

import fake_vllm

fake_vllm.install()
from test_vllm import TOKENS, Request, connectors, scheduled, views

BACKGROUND = {"loads_in_background": True, "saves_in_background": True}


def test_a_step_looks_once_for_news():
    scheduler, worker = connectors(views("LBHNC"))
    looks, look = [], worker._worker._look
    worker._worker._look = lambda: looks.append(look())
    for steps in 1, 2:
        worker.get_transfer_results(set())
        worker.build_connector_worker_meta()
        assert len(looks) == steps
    worker.build_connector_worker_meta()
    assert len(looks) == 3, "by itself it looks"
    worker.shutdown()


def named_calls(work):
    """Of functions of Python."""
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_requests_that_complete_no_block_cost_no_call():
    count = 256
    scheduler, worker = connectors(views("LBHNC"), **BACKGROUND)
    requests = [Request(f"r{i}", TOKENS // 2) for i in range(count)]
    for one in requests:
        scheduler.get_num_new_matched_tokens(one, 0)
        scheduler.update_state_after_alloc(one, types.SimpleNamespace(get_block_ids=lambda: ([0],)), 0)
    names = [one.request_id for one in requests]
    output = scheduled(requests[0], 0, 1)
    output.scheduled_new_reqs = []
    output.scheduled_cached_reqs = types.SimpleNamespace(
        req_ids=names, resumed_req_ids=set(), num_computed_tokens=[2] * count, new_block_ids=[None] * count)
    output.num_scheduled_tokens = dict.fromkeys(names, 1)
    calls = named_calls(lambda: scheduler.build_connector_meta(output))
    assert len(calls) < 16, f"{len(calls)} calls for {count} requests"
    worker.shutdown()


class Tokens(list):
    """Counts how often they are copied."""
    copies = 0

    def __getitem__(self, at):
        self.copies += isinstance(at, slice)
        return list.__getitem__(self, at)


def test_the_head_of_the_queue_is_matched_again_without_its_tokens():
    scheduler, worker = connectors(views("LBHNC"))
    request = Request("r", 2 * TOKENS)
    request.all_token_ids = tokens = Tokens(request.all_token_ids)
    for _ in range(3):
        assert scheduler.get_num_new_matched_tokens(request, 0)[0] == 0
    assert tokens.copies == 1
    tokens.append(7)
    scheduler.get_num_new_matched_tokens(request, 0)
    assert tokens.copies == 2
    worker.shutdown()


@pytest.mark.parametrize("in_background, asked", [(True, False), (False, True)])
def test_layers_call_only_where_one_is_waited_for_or_saved(in_background, asked):
    scheduler, worker = connectors(views("LBHNC"), **(BACKGROUND if in_background else {}))
    request = Request("r", 2 * TOKENS + 1)

    def begin(metadata):
        worker.bind_connector_metadata(metadata)
        return worker.has_connector_metadata()

    scheduler.get_num_new_matched_tokens(request, 0)
    scheduler.update_state_after_alloc(request, types.SimpleNamespace(get_block_ids=lambda: ([0, 1, 2],)), 0)
    saves = scheduler.build_connector_meta(scheduled(request, 0, 2 * TOKENS + 1))
    assert saves.orders.data is not None and begin(saves) == asked
    worker.wait_for_save()
    worker.clear_connector_metadata()
    assert not worker.has_connector_metadata()
    nothing = scheduler.build_connector_meta(scheduled(request, 2 * TOKENS + 1, 1, cached=True))
    assert nothing.orders.data is None and not begin(nothing), "a step without orders"
    assert worker._worker._worker.figures()["steps"] == 1
    worker._worker.quiesce()
    assert worker._worker._worker.figures()["saved_blocks"] == 2
    worker.shutdown()


def test_what_is_asked_for_in_each_step_is_counted():
    scheduler, worker = connectors(views("LBHNC"))
    scheduler.take_events()
    scheduler.has_pending_push_work()
    assert {"take_events", "has_pending_push_work"} <= set(scheduler.seconds)
    worker.shutdown()


def test_a_look_at_the_scheduler_lets_go_of_no_interpreter():
    """Another thread that computes would keep it for as long as it may."""
    scheduler, worker = connectors(views("LBHNC"))
    turns, begins, before = [], threading.Event(), sys.getswitchinterval()

    def compute():
        begins.wait()
        turns.append(1)

    thread = threading.Thread(target=compute)
    thread.start()
    sys.setswitchinterval(1000)  # it is not taken away, however busy the machine is; who lets go has lost it
    try:
        half = scheduler._scheduler._scheduler
        begins.set()
        for _ in range(20_000):
            half.has_orders
            half.step_begins(1)
            half.step_ends()
        assert turns == []
    finally:
        sys.setswitchinterval(before)
        thread.join()
    assert turns == [1]
    worker.shutdown()


def test_a_device_is_waited_for_before_loads_and_before_saves_only():
    scheduler, worker = connectors(views("LBHNC"), **BACKGROUND)
    waits, name = [], "saved"
    worker._await_device = lambda: waits.append(name)
    request = Request(name, 2 * TOKENS + 1)

    def begin(loaded):
        assert scheduler.get_num_new_matched_tokens(request, 0) == (loaded, loaded > 0)
        scheduler.update_state_after_alloc(request, types.SimpleNamespace(get_block_ids=lambda: ([0, 1, 2],)), loaded)
        output = scheduled(request, loaded, 2 * TOKENS + 1 - loaded)
        if loaded:
            output.scheduled_new_reqs, output.num_scheduled_tokens = [], {}  # it waits for what comes
        worker.bind_connector_metadata(scheduler.build_connector_meta(output))

    begin(0)
    assert waits == [], "nothing of the engine's is written"
    worker.wait_for_save()
    assert waits == ["saved"]
    worker._worker.quiesce()
    scheduler.update_connector_output(types.SimpleNamespace(
        kv_connector_worker_meta=worker.build_connector_worker_meta(), finished_sending=None, finished_recving=None))
    name = "loaded"
    request = Request(name, 2 * TOKENS + 1)
    begin(2 * TOKENS)
    assert waits == ["saved", "loaded"]
    worker.shutdown()
