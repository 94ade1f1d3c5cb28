"""The same two `vllm serve`, over NIXL's own wheel and over our package of its name, in turns, each alone: when the
decode server has its first token, and what both servers' processors did for it."""
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


def turn(model, work, packages, number):
    """Medians: the first token handed over and computed, and processor seconds of prefill and decode a prompt."""
    prompts = [prompt(2000 + 100 * number + i, LENGTH) for i in range(2 * PROMPTS + 1)]
    with Serve(model, work, "kv_producer", "NixlConnector", packages=packages) as prefill, \
            Serve(model, work, "kv_consumer", "NixlConnector", packages=packages) as decode:
        for server in (prefill, decode):
            server.await_ready()
        meeting = first_token(prefill, decode, prompts[-1])
        before, had = [server.processor_seconds() for server in (prefill, decode)], decode.handed_over()
        handed = [first_token(prefill, decode, one) for one in prompts[:PROMPTS]]
        after = [server.processor_seconds() for server in (prefill, decode)]
        wanted = PROMPTS * (LENGTH - 1)
        assert decode.handed_over() - had >= wanted, f"{decode.handed_over() - had} of {wanted} tokens were handed over"
        alone = []
        for one in prompts[PROMPTS:-1]:
            begin = time.monotonic()
            post(decode.url, PATH, {**question(one), "max_tokens": 1, "min_tokens": 1})
            alone.append(time.monotonic() - begin)
    return {"the first one": meeting, "handed over": statistics.median(handed), "computed": statistics.median(alone),
            "prefill's processors": (after[0] - before[0]) / PROMPTS, "decode's processors": (after[1] - before[1]) / PROMPTS}


def nixl_beside(work):
    model, taken, theirs = make_model(work / "model"), {OURS: [], "NIXL": []}, nixl_itself(work)
    for number in range(TURNS):
        for name, turns in taken.items():
            here = pathlib.Path(work, f"{name}-{number}")
            here.mkdir()
            turns.append(turn(model, here, None if name == OURS else theirs, number))
            say(f"{name}: " + ", ".join(f"{what} {seconds:.3f} s" for what, seconds in turns[-1].items()))

    def spread(name, what):
        seconds = sorted(one[what] for one in taken[name])
        return f"{statistics.median(seconds):.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})"

    return f"prompts of {LENGTH} tokens, {TURNS} turns: " + "; ".join(
        f"{what} {spread(OURS, what)}, NIXL {spread('NIXL', what)}" for what in taken[OURS][0])
