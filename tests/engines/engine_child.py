"""A vLLM in a process of its own, which a test can kill: orders come as lines of JSON, answers go back so.

    engine_child.py FD_IN FD_OUT '{"model": ..., "connector": {...} or null, "args": {...of LLM...}}'
"""
import contextlib
import functools
import json
import os
import sys
import time


SETTLED_S = HEARD_S = 60


def ours(connector):
    """Of a MultiConnector, the child that is Towpath's."""
    from towpath.vllm import TowpathConnector
    return next(one for one in getattr(connector, "sub_connectors", [connector]) if isinstance(one, TowpathConnector))


class Engine:

    def __init__(self, config):
        from vllm import LLM
        from vllm.config import KVEventsConfig, KVTransferConfig
        transfer = config.get("connector")
        if "kv_events_config" in config["args"]:
            config["args"]["kv_events_config"] = KVEventsConfig(**config["args"]["kv_events_config"])
        self.llm = LLM(model=config["model"], skip_tokenizer_init=True, enforce_eager=True, disable_log_stats=False,
                       **({"kv_transfer_config": KVTransferConfig(**transfer)} if transfer else {}),
                       **config.get("args", {}))
        self.core = self.llm.llm_engine.engine_core.engine_core
        self.scheduler = self.core.scheduler
        self.step_seconds, self.computed = 0.0, 0
        self._watch_steps()
        self._watch_events()

    def _watch_events(self):
        """What the connector gives the engine to publish."""
        self.taken, connector = [], self.scheduler.connector
        if connector is None:
            return
        take_events = connector.take_events

        def watched():
            events = list(take_events())
            self.taken += events
            return events

        connector.take_events = watched

    def events(self):
        return [{"kind": type(event).__name__, "tokens": list(getattr(event, "token_ids", ()))}
                for event in self.taken]

    def _watch_steps(self):
        step = self.core.step_fn

        def timed():
            begin = time.perf_counter()
            try:
                return step()
            finally:
                self.step_seconds += time.perf_counter() - begin

        schedule = self.scheduler.schedule

        def counted(*args, **kwargs):
            output = schedule(*args, **kwargs)
            self.computed += output.total_num_scheduled_tokens
            return output

        self.core.step_fn, self.scheduler.schedule = timed, counted

    def settle(self):
        """Steps until the connector has nothing more to do."""
        connector = self.scheduler.connector
        until = time.monotonic() + SETTLED_S
        while connector is not None and connector.has_pending_push_work():
            assert time.monotonic() < until, f"the connector still has work after {SETTLED_S} s"
            self.core.step_fn()

    @contextlib.contextmanager
    def _hinted(self, actions):
        """Requests have the hints: the engine takes them with a request, its front for batches does not."""
        if not actions:
            yield
            return
        from vllm.v1.kv_hints import KvHintAction, KvHintsEnvelope
        envelope = KvHintsEnvelope("1", "of a test", [KvHintAction(name, name, "1", payload) for name, payload in actions])
        engine = self.llm.llm_engine
        engine.add_request = functools.partial(engine.add_request, kv_hints=envelope)
        try:
            yield
        finally:
            del engine.add_request

    def generate(self, prompts, max_tokens, settle=True, salt=None, extra=None, hints=None):
        from vllm import SamplingParams
        params = SamplingParams(temperature=0, max_tokens=max_tokens, min_tokens=max_tokens, ignore_eos=True,
                                detokenize=False, extra_args=extra)
        begin, before = time.perf_counter(), self.computed
        with self._hinted(hints):
            outputs = self.llm.generate(
                [{"prompt_token_ids": prompt, **({"cache_salt": salt} if salt else {})} for prompt in prompts],
                params, use_tqdm=False)
        seconds = time.perf_counter() - begin
        if settle:
            self.settle()
        return {"tokens": [list(output.outputs[0].token_ids) for output in outputs],
                "cached": [output.num_cached_tokens for output in outputs],
                "params": [getattr(output, "kv_transfer_params", None) for output in outputs],
                "seconds": seconds, "computed": self.computed - before}

    def worker_side(self):
        from vllm.distributed.kv_transfer import get_kv_transfer_group
        return ours(get_kv_transfer_group())

    def figures(self):
        connector, worker = ours(self.scheduler.connector), self.worker_side()
        kept = worker._worker._worker.figures()
        return {"scheduler": connector._scheduler.figures(),
                "worker": {name: str(value) if "failure" in name else value for name, value in kept.items()},
                "seconds": {**connector.seconds, **{f"worker {k}": v for k, v in worker.seconds.items()}},
                "step_seconds": self.step_seconds, "preemptions": self.preemptions()}

    def preemptions(self):
        for metric in self.llm.get_metrics():
            if metric.name == "vllm:num_preemptions":
                return int(metric.value)
        return None

    def await_found(self, prompts, counts):
        """Until so many tokens of each prompt could be loaded."""
        until = time.monotonic() + HEARD_S
        while (found := [self.finds(one) for one in prompts]) != counts:
            self.worker_side()._worker._worker.wait_for_news(1)
            assert time.monotonic() < until, f"{found} tokens could be loaded after {HEARD_S} s, and {counts} are there"

    def finds(self, tokens):
        """How many tokens could be loaded, by what the worker knows now: peers are heard of without a request."""
        connector = ours(self.scheduler.connector)
        reports = self.worker_side().build_connector_worker_meta()
        if reports is not None:
            connector._scheduler.update(reports)
        found, _ = connector._scheduler._scheduler.match("a question", tokens)
        connector._scheduler._scheduler.finish("a question")
        return found

    def sync(self):
        self.settle()
        self.worker_side()._worker._worker.sync()

    def reset(self):
        return {"prefix": self.llm.reset_prefix_cache(reset_connector=True)}

    def close(self):
        self.core.shutdown()


def main():
    commands, answers = os.fdopen(int(sys.argv[1])), os.fdopen(int(sys.argv[2]), "w")
    config = json.loads(sys.argv[3])

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    import torch
    torch.set_num_threads(1)
    engine = Engine(config)
    answer({"ready": True})
    for line in commands:
        order = json.loads(line)
        name = order.pop("do")
        answer(getattr(engine, name)(**order))
        if name == "close":
            break


if __name__ == "__main__":
    main()
