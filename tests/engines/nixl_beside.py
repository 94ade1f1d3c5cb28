"""The same two `vllm serve`, over NIXL's own wheel and over our package of its name, in turns, each alone (the others
are stopped): when the decode server has its first token, and what both servers' processors did for it."""
import contextlib
import os
import pathlib
import statistics
import time

from harness import make_model, prompt, say
from proxy import ASKED, post
from serving import PATH, Serve, question

TURNS, PROMPTS, LENGTH = 5, 5, 1500
OURS = "Towpath"


def nixl_itself(work):
    """A PYTHONPATH with NIXL's wheel by the name `nixl`. Its package of that name takes the wheel for the CUDA that torch was
    built with, which asks for that CUDA's libraries; the one for CUDA 12 asks for none."""
    package = pathlib.Path(work, "named/nixl")
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for module in ("_api", "_bindings"):
        (package / f"{module}.py").write_text(f"from nixl_cu12.{module} import *\n")
    return f"{package.parent}:{os.environ['TOWPATH_NIXL_BESIDE']}"


def first_token(prefill, decode, tokens):
    """Seconds from the prefill server's answer to the decode server's first token."""
    one = {**question(tokens), "max_tokens": 1, "min_tokens": 1}
    params = post(prefill.url, PATH, {**one, "kv_transfer_params": ASKED}, f"one {tokens[0]}")["kv_transfer_params"]
    begin = time.monotonic()
    post(decode.url, PATH, {**one, "kv_transfer_params": params}, f"one {tokens[0]}")
    return time.monotonic() - begin


class Pair:
    """Prefill and decode over one package. They stand still but within alone()."""

    def __init__(self, stack, model, work, packages):
        work.mkdir()
        self.servers = self.prefill, self.decode = [
            stack.enter_context(Serve(model, work, role, "NixlConnector", packages=packages)) for role in ("kv_producer", "kv_consumer")]
        for server in self.servers:
            server.await_ready()
        self.meeting = first_token(*self.servers, prompt(1999, LENGTH))
        self._pause()

    def _pause(self):
        for server in self.servers:
            server.pause()

    @contextlib.contextmanager
    def alone(self):
        for server in self.servers:
            server.resume()
        yield
        self._pause()

    def turn(self, prompts):
        """Medians: the first token handed over and computed, and processor seconds of both a prompt that is handed over."""
        before, had = [server.processor_seconds() for server in self.servers], self.decode.handed_over()
        handed = [first_token(*self.servers, one) for one in prompts[:PROMPTS]]
        after = [server.processor_seconds() for server in self.servers]
        wanted = PROMPTS * (LENGTH - 1)
        assert self.decode.handed_over() - had >= wanted, f"{self.decode.handed_over() - had} of {wanted} tokens were handed over"
        alone = []
        for one in prompts[PROMPTS:]:
            begin = time.monotonic()
            post(self.decode.url, PATH, {**question(one), "max_tokens": 1, "min_tokens": 1})
            alone.append(time.monotonic() - begin)
        return {"handed over": statistics.median(handed), "computed": statistics.median(alone),
                "prefill's processors": (after[0] - before[0]) / PROMPTS, "decode's processors": (after[1] - before[1]) / PROMPTS}


def take_turns(model, work, theirs):
    """(what the first one took, the turns) by name."""
    with contextlib.ExitStack() as stack:
        pairs = {name: Pair(stack, model, pathlib.Path(work, name), packages)
                 for name, packages in ((OURS, None), ("NIXL", theirs))}
        taken = {name: [] for name in pairs}
        for number in range(TURNS):
            prompts = [prompt(2000 + 100 * number + i, LENGTH) for i in range(2 * PROMPTS)]
            for name, pair in pairs.items():
                with pair.alone():
                    taken[name].append(pair.turn(prompts))
                say(f"{name}: " + ", ".join(f"{what} {seconds:.3f} s" for what, seconds in taken[name][-1].items()))
        return {name: pair.meeting for name, pair in pairs.items()}, taken


def nixl_beside(work):
    meeting, taken = take_turns(make_model(work / "model"), work, nixl_itself(work))

    def spread(name, what):
        seconds = sorted(one[what] for one in taken[name])
        return f"{statistics.median(seconds):.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})"

    return (f"prompts of {LENGTH} tokens: the first one {meeting[OURS]:.3f} s, NIXL {meeting['NIXL']:.3f} s; {TURNS} turns: " +
            "; ".join(f"{what} {spread(OURS, what)}, NIXL {spread('NIXL', what)}" for what in taken[OURS][0]))
