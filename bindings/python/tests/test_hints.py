"""KV hints: from the envelope that vLLM carries to what the worker's memory holds, and back."""
import types

import pytest

import fake_vllm

fake_vllm.install()
from test_vllm import Request, connectors, scheduled, views
from towpath.vllm import hints

BLOCKS = [0, 1, 2]


def action(kind, name="", version="1", **payload):
    return types.SimpleNamespace(action_id=name or kind, action_type=kind, action_version=version, payload=payload)


def request(name, *actions, length=40):
    made = Request(name, length)
    made.kv_hints = types.SimpleNamespace(protocol_version="1", message_id=f"of {name}", actions=list(actions))
    return made


def step(scheduler, worker, metadata):
    worker.bind_connector_metadata(metadata)
    worker.start_load_kv(None)
    worker.wait_for_save()
    sent, received = worker.get_finished(set())
    worker._worker._collect(waits=True)
    scheduler.update_connector_output(types.SimpleNamespace(
        kv_connector_worker_meta=worker.build_connector_worker_meta(), finished_sending=sent, finished_recving=received))


def serve(scheduler, worker, one, loaded=0):
    """Its prompt is computed, or loaded; what its end says of its hints."""
    assert scheduler.get_num_new_matched_tokens(one, 0)[0] == loaded
    scheduler.update_state_after_alloc(one, types.SimpleNamespace(get_block_ids=lambda: (BLOCKS,)), 0)
    step(scheduler, worker, scheduler.build_connector_meta(scheduled(one, 0, len(one.all_token_ids))))
    return scheduler.request_finished(one, BLOCKS)[1]


def settle(scheduler, worker, until):
    """Steps without work, as vLLM makes them while there is something to do."""
    nothing = types.SimpleNamespace(
        num_scheduled_tokens={}, preempted_req_ids=None, scheduled_new_reqs=[], scheduled_spec_decode_tokens={},
        scheduled_cached_reqs=types.SimpleNamespace(req_ids=[], new_block_ids=[], num_computed_tokens=[], resumed_req_ids=set()))
    for _ in range(2000):
        step(scheduler, worker, scheduler.build_connector_meta(nothing))
        if until():
            return
        worker._worker._worker.wait_for_news(0.005)
    raise AssertionError(scheduler._scheduler.figures())


def answers(said):
    return {one["action_id"]: (one["outcome"], one["why"]) for one in said["kv_hints"]["answers"]}


def test_what_a_hint_says_of_a_request_that_ends_is_done_then(tmp_path):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path))
    said = serve(scheduler, worker, request("a", action("demote"), action("retain", ttl_s=60, when="now")))
    assert said["kv_hints"]["message_id"] == "of a"
    assert answers(said)["demote"] == ("deferred", "until the request has finished")
    figures = scheduler._scheduler.figures
    settle(scheduler, worker, lambda: figures()["hints_accepted"] == 2)
    # Demoted last, they are in files alone: the next request finds them there.
    serve(scheduler, worker, request("b", action("prefetch")), loaded=32)
    settle(scheduler, worker, lambda: figures()["hints_accepted"] == 3)
    assert figures()["hints_deferred"] == 1 and figures()["hints_rejected"] == 0
    worker.shutdown()


@pytest.mark.parametrize("wrong, why", [
    (action("warm"), "no hint is called 'warm'; there are prefetch, pin"),
    (action("pin", version="2"), "version '2' of pin"),
    (action("pin", ttl=3), "payload has no key 'ttl'; the nearest is 'ttl_s'"),
    (action("pin", ttl_s="long"), "payload.ttl_s is 'long'"),
    (action("pin"), "pin needs payload.ttl_s"),
    (action("pin", ttl_s=1, tokens=[4]), "should be the first token and the end"),
    (action("retain", ttl_s=1, when="later"), "should be 'now' or 'finished'"),
    (action("pin", ttl_s=-1), "a time must be 0 seconds or more"),
    (action("pin", ttl_s=1e6), "times up to a day"),
    (action("pin", ttl_s=float("nan")), "a time must be 0 seconds or more"),
    (action("pin", ttl_s=10**400), "times up to a day"),
    (action("pin", ttl_s=1, after_s=-10**400), "a time must be 0 seconds or more"),
    (action("pin", ttl_s=True), "payload.ttl_s is True"),
    (action("prefetch", tokens=[0, 2**64]), "should be the first token and the end"),
    (action("prefetch", tokens=[38, 40]), "name whole blocks"),
])
def test_what_is_wrong_is_rejected_with_what_is_meant(tmp_path, wrong, why):
    scheduler, worker = connectors(views("LBHNC"), directory=str(tmp_path))
    said = serve(scheduler, worker, request("a", wrong, action("retain", "good", ttl_s=1)))
    assert answers(said)[wrong.action_type][0] == "rejected" and why in answers(said)[wrong.action_type][1], said
    assert answers(said)["good"][0] == "deferred"
    worker.shutdown()


def test_without_peers_nothing_is_shared():
    scheduler, worker = connectors(views("LBHNC"))
    serve(scheduler, worker, request("a", action("demote"), action("share", ttl_s=5)))
    settle(scheduler, worker, lambda: scheduler._scheduler.figures()["hints_rejected"] == 1)
    assert scheduler._scheduler.figures()["hints_accepted"] == 1
    worker.shutdown()


def test_a_hint_is_of_the_session_that_it_names_or_of_its_request_s():
    said, heard = [], hints.Hints()
    scheduler = types.SimpleNamespace(hint=lambda *hint, session, **more: said.append(session))
    for of_request, payload in (None, {}), ("ours", {}), ("ours", {"session": "theirs"}), ("\ud800", {}):
        one = request(f"{len(said)}", action("pin", ttl_s=1, **payload), action("demote", **payload))
        one.session_id = of_request
        assert heard.hear(scheduler, one)
        heard.finish(scheduler, one.request_id)
    assert said[::2] == said[1::2] == [b"", b"ours", b"theirs", b"\xed\xa0\x80"]


@pytest.mark.parametrize("changes", [False, True])
def test_hints_of_a_request_that_is_not_kept_are_rejected(tmp_path, changes):
    """From the start, or since its adapter's folder changed while it had to make room."""
    (tmp_path / "adapter_model.safetensors").write_bytes(b"first")
    scheduler, worker = connectors(views("LBHNC"))
    one = request("a", action("demote"), action("share", ttl_s=1))
    one.lora_request = types.SimpleNamespace(lora_name="a", lora_path=str(tmp_path), lora_int_id=1)
    one.resumable = not changes
    assert scheduler.get_num_new_matched_tokens(one, 0) == (0, False)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"another")
    one.num_preemptions = 1
    one.all_token_ids.append(7)
    assert scheduler.get_num_new_matched_tokens(one, 0) == (0, False)
    said = scheduler.request_finished(one, [])
    assert said[0] is False and set(answers(said[1]).values()) == {("rejected", "its blocks are not kept")} and len(answers(said[1])) == 2
    assert scheduler._scheduler.figures()["hints_rejected"] == 2 and scheduler.request_finished(one, []) == (False, None)
    worker.shutdown()


def test_a_request_without_hints_says_nothing_of_them():
    scheduler, worker = connectors(views("LBHNC"))
    assert serve(scheduler, worker, Request("a", 40)) is None
    assert hints.read(action("pin", ttl_s=1)).when == "now" and hints.read(action("share", ttl_s=0)).when == "finished"
    worker.shutdown()
