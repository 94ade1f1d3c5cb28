"""towpath.vllm's resets: what was kept before one is not loaded after it, wherever it was."""
import os
import time

import pytest

from test_vllm import Request, begin, connectors, scheduled, side, step, views  # which has the engine's stand-in
from towpath.vllm import serving


def test_a_reset_forgets_and_hears_no_old_report(tmp_path):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path), direct=True)
    heard, update = [], scheduler._scheduler.update
    scheduler._scheduler.update = lambda reports: (heard.append(reports), update(reports))
    step(scheduler, worker, Request("a", 40), [0, 1, 2], 0)
    worker._worker._worker.sync()
    assert list(tmp_path.glob("*/segment-*")) and heard
    assert scheduler.reset_cache() is True and scheduler.has_pending_push_work()
    for old in heard:
        update(old)
    step(scheduler, worker, Request("b", 40), [3, 4, 5], 0)
    assert not scheduler.has_pending_push_work()
    step(scheduler, worker, Request("c", 40), [3, 4, 5], 32)
    assert worker._worker._worker.figures()["saved_blocks"] == 2, "the worker was not made anew"
    worker.shutdown()


def test_what_both_halves_count_is_the_workers_and_counts_go_on_after_a_reset():
    scheduler, worker = connectors(views("LBHNC"))

    def counted():
        scheduler._stats_at = 0.0
        return scheduler.get_kv_connector_stats().data

    for life in range(2):
        step(scheduler, worker, Request(f"{life}", 40), [0, 1, 2], 0)
        counts = counted()
        assert counts["asked_tokens"] == 40 and "saved_blocks" not in counts, counts
        assert scheduler.reset_cache() is True
    worker.shutdown()


def test_hints_are_counted_once_however_often_is_reset():
    scheduler, worker = connectors(views("LBHNC"))
    for answered in (2, 0, 1):
        scheduler._scheduler._hints.counts["hints_accepted"] += answered
        scheduler._stats_at = 0.0
        assert scheduler.get_kv_connector_stats().data.get("hints_accepted", 0) == answered
        assert scheduler.reset_cache() is True
    worker.shutdown()


@pytest.mark.parametrize("on_a_drive", [False, True])
def test_what_is_kept_after_a_reset_is_for_this_life_alone(tmp_path, on_a_drive):
    """A reset is said to come with new weights, which the folder of weights need not have."""
    place = tmp_path / "drive" if on_a_drive else tmp_path
    if on_a_drive:
        place.touch()
        os.truncate(place, 512 << 20)
    for life in range(2):
        scheduler, worker = connectors(views("LBHNC"), directory=str(place))
        step(scheduler, worker, Request("a", 40), [0, 1, 2], 0)
        assert scheduler.reset_cache() is True
        step(scheduler, worker, Request("b", 40), [3, 4, 5], 0)
        step(scheduler, worker, Request("c", 40), [3, 4, 5], 32)
        step(scheduler, worker, Request("d", 40, cache_salt="another"), [0, 1, 2], 0)
        assert scheduler.reset_cache() is True
        step(scheduler, worker, Request("e", 40), [3, 4, 5], 0)
        step(scheduler, worker, Request("f", 40, cache_salt="another"), [0, 1, 2], 0)
        worker._worker._worker.sync()
        assert on_a_drive or list(tmp_path.glob("*/segment-*")), "it goes to files"
        worker.shutdown()


def test_what_a_worker_had_to_say_before_a_reset_is_not_said_after_it():
    scheduler, worker = connectors(views("LBHNC"))
    worker._worker._reports, worker._worker._steps = [b"old"], [0]
    assert scheduler.reset_cache() is True
    worker._worker.begin(scheduler._scheduler.build(scheduled(Request("a", 15), 0, 15)))
    said = worker.build_connector_worker_meta()
    assert said is None or (said.epoch == 1 and b"old" not in said.data and not said.steps)
    worker.shutdown()


def test_what_others_keep_is_not_loaded_after_a_reset(monkeypatch):
    """vLLM pauses and sleeps with a reset, and stays as it is, paused, where that is refused."""
    made, make = [], serving.Worker
    monkeypatch.setattr(serving, "Worker", lambda *args, **more: made.append(more["peers"]) or make(*args, **more))
    names = [f"reset-{os.getpid()}-{which}" for which in "ab"]
    ours, theirs = (connectors(views("LBHNC"), peers={"rendezvous": f"scope:reset-{os.getpid()}", "name": name, "others": names})
                    for name in names)
    scheduler, worker = ours
    step(*theirs, Request("a", 40), [0, 1, 2], 0)
    eventually_finds(*ours, Request("b", 40), 32)
    assert scheduler.reset_cache() is True
    step(*ours, Request("c", 40), [0, 1, 2], 0)
    step(*ours, Request("d", 40), [3, 4, 5], 32)
    step(*ours, Request("e", 40, cache_salt="another"), [0, 1, 2], 0)
    assert made[0] and made[-1] is None, "others that were reset too would be met, and they have weights of their own"
    for _, other in (ours, theirs):
        other.shutdown()


def eventually_finds(scheduler, worker, request, count):
    until = time.monotonic() + 60
    while scheduler.get_num_new_matched_tokens(request, 0)[0] != count:
        assert time.monotonic() < until, f"{count} tokens were not found"
        worker._worker._collect(waits=True)
        reports = worker.build_connector_worker_meta()
        if reports is not None:
            scheduler._scheduler.update(reports)
    scheduler.request_finished(request, [])


def test_a_reset_waits_for_blocks_on_their_way():
    half, request = side(), Request("a", 15)
    begin(half, request, [0])
    half.build(scheduled(request, 0, 15))
    request.all_token_ids.append(7)
    request.num_computed_tokens = 16
    assert half.finish(request)[0] and half.reset() is False
    half.ended(["a"])
    assert half.reset() is True


def test_a_load_of_which_nobody_hears_keeps_no_reset_waiting():
    half, request = side(), Request("a", 40)
    begin(half, request, [0, 1, 2])
    half._loading.add("a")  # an earlier life of the worker was to make it
    assert not half.reset()
    assert half.finish(request) == (False, None)
    assert half.reset()
