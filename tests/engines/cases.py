"""The tests with real engines, each run by itself: `./dev engines -k NAME`, or cases.py NAME --work FOLDER.

A case returns a sentence with what it measured; it fails by an exception.
"""
import argparse
import os
import pathlib
import shutil
import sys
import time
import traceback

import conversations
import harness
import hybrid
from first_token import first_token
from harness import ASK, BLOCK, Engine, Server, free_port, make_model, multi, nixl, one_by_one, prompt, say, towpath
from hybrid import hybrid_states, hybrid_windows
from llama_server import llama_server
from lmcache_l2 import lmcache
from nixl_beside import nixl_beside
from nixl_trouble import nixl_trouble
from offload_policies import offload_policies
from offload_tier import kvcr, offload_objects, offload_peers, offload_tier
from serving import Serve, ask, nixl_http, nixl_push
from sglang_hicache import sglang

IN_THE_FIRST_BLOCK = 2 * 4096 + 12345
SYNCHRONOUS = {"loads_in_background": False, "saves_in_background": False}


def whole_blocks(prompts):
    """Tokens of each prompt that can be loaded: one token at least is computed."""
    return [(len(one) - 1) // BLOCK * BLOCK for one in prompts]


def by_itself(model, prompts, **args):
    """What vLLM answers alone, and from its own prefix cache."""
    with Engine(model, enable_prefix_caching=True, **args) as engine:
        computed, _ = one_by_one(engine, prompts)
        cached, _ = one_by_one(engine, prompts)
    return computed, cached


def restart(work, settings):
    """Save, match, load; across a restart; with a bit flipped."""
    model, prompts = make_model(work / "model"), [prompt(seed, 300 + 77 * seed) for seed in range(4)]
    longer = [prompts[0] + prompt(77, 200)]  # computed upon a block that fails
    computed, cached = by_itself(model, prompts)
    (alone,), _ = by_itself(model, longer)
    whole, connector = whole_blocks(prompts), towpath(directory=str(work / "kv"), **settings)
    with Engine(model, connector) as engine:
        say("first life")
        assert one_by_one(engine, prompts) == (computed, [0] * 4)
        assert one_by_one(engine, prompts) == (cached, whole)
        engine.sync()
        assert engine.figures()["worker"]["failed_blocks"] == 0
    with Engine(model, connector) as engine:
        say("second life")
        assert one_by_one(engine, prompts) == (cached, whole)
        figures = engine.figures()
        assert figures["worker"]["from_files"] == sum(whole) // BLOCK, figures
    harness.flip(harness.segments(work / "kv")[0], IN_THE_FIRST_BLOCK)
    with Engine(model, connector) as engine:
        say("third life, with a bit flipped")
        assert one_by_one(engine, longer)[0] == [alone]
        assert one_by_one(engine, longer) == ([alone], whole_blocks(longer)), "it was not kept, or not right"
        assert one_by_one(engine, prompts) == (cached, whole)
        figures = engine.figures()
        assert figures["worker"]["failed_blocks"] == 1, figures
        assert sum(figures["worker"]["quarantined"].values()) == 1, figures
    return f"{sum(whole)} tokens from files, one flipped bit cost one block"


def restart_in_background(work):
    return restart(work, {})


def restart_in_step(work):
    return restart(work, SYNCHRONOUS)


def conversation_figures(checked, least=0.99):
    spent = sum(checked.seconds.values())
    most = sorted(checked.seconds.items(), key=lambda item: -item[1])[:3]
    say("most time in " + ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in most))
    assert checked.cached >= least * checked.wanted, (checked.cached, checked.wanted)
    assert checked.leased > 0
    return (f"{checked.requests} requests, tokens identical; {checked.cached:,} tokens loaded of {checked.wanted:,} that were "
            f"kept; {checked.preemptions} preemptions; {checked.restarts} restarts, {checked.flipped} bits flipped; "
            f"{checked.leased} blocks of a peer loaded, which was killed {checked.kills} times; {checked.failed} blocks "
            f"failed; connector {1000 * spent:.0f} ms of {1000 * checked.step_seconds:.0f} ms of steps "
            f"({100 * spent / checked.step_seconds:.1f} %)")


def random_conversations(work):
    """What turns of chats ask for, and all that may befall engines."""
    checked = conversations.run(make_model(work / "model"), work / "kv", seed=work.seed, requests=work.requests)
    assert checked.preemptions > 0, "nothing was preempted"
    return conversation_figures(checked)


def conversations_in_step(work):
    """The same, loading and saving within the step. What the step of a load completes is saved in the next
    one, so the last block of a request without a next one is not kept: of few requests too many."""
    return conversation_figures(conversations.run(make_model(work / "model"), work / "kv", seed=work.seed + 1,
                                                  requests=max(work.requests // 3, 50), settings=SYNCHRONOUS),
                                least=0.95)


def hybrid_conversations(work):
    """Windows, of which an engine without a cache of its own frees what they have passed."""
    return conversation_figures(conversations.run(hybrid.make_windows(work / "hybrid"), work / "kv", seed=work.seed,
                                                  requests=work.requests // 2, args=hybrid.HYBRID, groups=3),
                                least=0.95)


def peers(work):
    """Another engine's blocks are leased; killed, it costs the time to compute them."""
    model, prompts = make_model(work / "model"), [prompt(300 + seed, 200 + 100 * seed) for seed in range(4)]
    computed, cached = by_itself(model, prompts)
    place, whole = f"scope:engines-{os.getpid()}", whole_blocks(prompts)

    def connector(name, other):
        return towpath(peers={"rendezvous": place, "name": name, "others": [other]})

    with Engine(model, connector("a", "b")) as lessor, Engine(model, connector("b", "a")) as lessee:
        assert one_by_one(lessor, prompts) == (computed, [0] * 4)
        lessee.await_found(prompts=prompts, counts=whole)
        say("the lessee has heard of all blocks")
        assert one_by_one(lessee, prompts[:3]) == (cached[:3], whole[:3])
        assert lessee.figures()["worker"]["leased"] == sum(whole[:3]) // BLOCK
        lessor.kill()
        assert one_by_one(lessee, prompts)[0] == cached, "wrong tokens after the peer's death"
        failed = lessee.figures()["worker"]["failed_blocks"]
    return f"{sum(whole[:3])} tokens leased; the lessor was killed: {failed} blocks failed, tokens identical"


def one_server(work):
    """Two engines keep their blocks in one `towpath serve`: an engine is killed, then the server, which starts again."""
    model, prompts = make_model(work / "model"), [prompt(400 + seed, 200 + 100 * seed) for seed in range(4)]
    computed, cached = by_itself(model, prompts)
    socket, whole = work / "serve", whole_blocks(prompts)
    connector = towpath(server=f"unix:{socket}")
    with Server(socket, work / "kv") as server, Engine(model, connector) as second:
        with Engine(model, connector) as first:
            assert one_by_one(first, prompts) == (computed, [0] * 4)
            first.sync()
            first.kill()
        say("the engine that computed was killed")
        second.await_found(prompts=prompts, counts=whole)
        assert one_by_one(second, prompts) == (cached, whole)
        assert second.figures()["worker"]["leased"] == sum(whole) // BLOCK
        server.await_written(sum(whole) // BLOCK)
        server.kill()
        say("the server was killed")
        assert one_by_one(second, prompts) == (cached, whole), "its own memory has them"
        with Server(socket, work / "kv"), Engine(model, connector) as third:
            third.await_found(prompts=prompts, counts=whole)
            assert one_by_one(third, prompts) == (cached, whole)
            more = [prompt(499, 400)]
            second_answer, _ = one_by_one(second, more)
            second.sync()
            third.await_found(prompts=more, counts=whole_blocks(more))
            assert one_by_one(third, more)[1] == whole_blocks(more), second_answer
    return f"{sum(whole)} tokens from the server after the engine's death, and again from its files after its own"


def hints(work):
    """What is pinned is loaded from memory though many others came since, and what is not, from files."""
    model, prompts = make_model(work / "model"), [prompt(600 + seed, 400) for seed in range(34)]
    computed, cached = by_itself(model, prompts[:3])
    connector, whole = towpath(directory=str(work / "kv"), memory="72MiB"), whole_blocks(prompts)

    def hinted(engine, one, *actions):
        answer = engine.generate([one], hints=actions)
        return answer["tokens"][0], {each["action_id"]: each["outcome"] for each in answer["params"][0]["kv_hints"]["answers"]}

    def sources(engine):
        worker = engine.figures()["worker"]
        return worker["from_memory"], worker["from_files"]

    with Engine(model, connector) as engine:
        assert hinted(engine, prompts[0], ("retain", {"ttl_s": 600})) == (computed[0], {"retain": "deferred"})
        assert hinted(engine, prompts[1], ("demote", {}), ("pin", {"ttl": 3})) == (
            computed[1], {"demote": "deferred", "pin": "rejected"})
        one_by_one(engine, prompts[2:])
        found = []
        for i in range(3):
            before = sources(engine)
            answer, outcomes = hinted(engine, prompts[i], ("prefetch", {}))
            found.append(tuple(after - sooner for after, sooner in zip(sources(engine), before)))
            assert answer == cached[i] and set(outcomes) == {"prefetch"}
        blocks = [one // BLOCK for one in whole]
        # A prefetch that has ended before the request's own load is asked for makes that one a load from memory.
        assert found[0] == (blocks[0], 0) and [files for _, files in found[1:]] == blocks[1:3], found
        outcomes = engine.figures()["scheduler"]
    return (f"{blocks[0]} blocks retained were in memory after {sum(blocks[2:])} others came, of others "
            f"{blocks[1] - found[1][1]}; {outcomes['hints_accepted']} hints accepted, {outcomes['hints_rejected']} rejected")


def two_ranks(work):
    """Each rank keeps its heads; a block is there when both have it."""
    model, prompts = make_model(work / "model"), [prompt(500 + seed, 300 + 77 * seed) for seed in range(2)]
    args = {"tensor_parallel_size": 2}
    computed, cached = by_itself(model, prompts, **args)
    whole, connector = whole_blocks(prompts), towpath(directory=str(work / "kv"))
    with Engine(model, connector, **args) as engine:
        assert one_by_one(engine, prompts) == (computed, [0] * 2)
        assert one_by_one(engine, prompts) == (cached, whole)
        say("first life")
    with Engine(model, connector, **args) as engine:
        assert one_by_one(engine, prompts) == (cached, whole)
    assert len(list((work / "kv").iterdir())) == 2
    return f"{sum(whole)} tokens from the files of two ranks, tokens identical"


def preemption(work, settings=None, prefix_caching=False):
    """Twelve requests in a cache for four: they are preempted, resumed from what was kept, and chunked."""
    model, prompts = make_model(work / "model"), [prompt(100 + seed, 150 + 20 * seed) for seed in range(12)]
    args = {"dtype": "float32", "max_num_batched_tokens": 256, "max_model_len": 1024, "max_num_seqs": 12}
    with Engine(model, **args) as engine:
        alone = engine.generate(prompts, 200)["tokens"]
    say("computed alone")
    with Engine(model, towpath(directory=str(work / "kv"), **(settings or {})), num_gpu_blocks_override=64,
                **{**args, "enable_prefix_caching": prefix_caching}) as engine:
        first, second = engine.generate(prompts, 200), engine.generate(prompts, 200)
        figures = engine.figures()
    assert figures["preemptions"] > 0, "nothing was preempted: the case shows nothing"
    assert first["tokens"] == alone and second["tokens"] == alone
    assert sum(second["cached"]) >= 0.99 * sum(whole_blocks(prompts)), second["cached"]
    assert figures["worker"]["failed_blocks"] == 0, figures
    return f"{figures['preemptions']} preemptions in 24 requests, tokens identical, {figures['worker']['loaded_blocks']} blocks loaded"


def preemption_in_background(work):
    return preemption(work)


def preemption_in_step(work):
    return preemption(work, SYNCHRONOUS)


def preemption_beside_prefix_cache(work):
    return preemption(work, prefix_caching=True)


def load_or_compute(work):
    """Each request takes the way that took less lately. Which that is here, the machine says."""
    model = make_model(work / "model")
    prompts = [prompt(seed, 600) for seed in range(24)]
    with Engine(model, towpath(directory=str(work / "kv"), load="cheaper"), enable_prefix_caching=False) as engine:
        one_by_one(engine, prompts)
        engine.sync()
        one_by_one(engine, prompts)
        figures = engine.figures()
    decided = figures["scheduler"]
    ways = [decided[f"loaded_{way}"] for way in ("all", "some", "none")]
    assert sum(ways) == len(prompts) and decided["computing_ns_per_token"] > 0, decided
    assert decided["matched_tokens"] + decided["tokens_not_loaded"] == sum(whole_blocks(prompts)), decided
    assert figures["worker"]["failed_blocks"] == 0, figures
    return (f"a token computed in {decided['computing_ns_per_token'] / 1000:.0f} us: {ways[0]} requests loaded all, "
            f"{ways[1]} some, {ways[2]} nothing")


def salts_and_reset(work):
    """Tenants do not see each other's blocks, nor do routers; a reset forgets, in files too."""
    model, prompts = make_model(work / "model"), [prompt(7, 400)]
    connector = towpath(directory=str(work / "kv"))
    with Engine(model, connector, kv_events_config={"enable_kv_cache_events": True, "publisher": "null"}) as engine:
        seen = [one_by_one(engine, prompts, salt=salt)[1][0] for salt in (None, "a", "a", "b", None)]
        assert seen == [0, 0, 384, 0, 384], seen
        stored = [token for event in engine.events() if event["kind"] == "BlockStored" for token in event["tokens"]]
        assert stored == prompts[0][:384], "routers are to know the blocks of no tenant"
        engine.sync()
        assert engine.reset()["prefix"] is True
        assert one_by_one(engine, prompts)[1] == [0], "a reset kept something"
        assert one_by_one(engine, prompts)[1] == [384]
        engine.reset()
        engine.settle()
    with Engine(model, connector) as engine:
        assert one_by_one(engine, prompts)[1] == [0], "files were matched that a reset threw away"
    return "salts apart, reset forgets"


def wrong_settings(work):
    """The engine does not start, and says what is meant."""
    model = make_model(work / "model")
    for extra, says in (({"direktory": "/x"}, "'directory'"), ({"memory": "1MiB"}, "a step may need")):
        try:
            Engine(model, towpath(**extra), log=work / "log").kill()
        except harness.EngineDied:
            text = (work / "log").read_text()
            assert says in text, text[-3000:]
        else:
            raise AssertionError(f"{extra} was taken")
    return "refused with the key that is meant"


def multi_connector(work):
    """Beside NixlConnector in vLLM's MultiConnector, whichever is first; and of a `vllm serve`, whose front end is a process of
    its own, the figures. What files hold is known after a life's first step."""
    model, prompts = make_model(work / "model"), [prompt(800 + seed, 200 + 100 * seed) for seed in range(3)]
    computed, cached = by_itself(model, prompts)
    whole = whole_blocks(prompts)
    for place in ("first", "last"):
        theirs, ours = nixl("kv_both", free_port()), towpath(directory=str(work / place))
        children = [ours, theirs["connector"]]
        beside = {**theirs, "connector": multi(children if place == "first" else children[::-1])}
        with Engine(model, **beside) as engine:
            assert one_by_one(engine, prompts) == (computed, [0] * 3)
            assert one_by_one(engine, prompts) == (cached, whole)
            engine.sync()
        with Engine(model, **beside) as engine:
            one_by_one(engine, [prompt(899, BLOCK)])
            assert one_by_one(engine, prompts) == (cached, whole)
            figures = engine.figures()
            assert figures["worker"]["from_files"] == sum(whole) // BLOCK, figures
        say(f"{place} of two: saved, and loaded after a restart")
    server = Serve(model, work, "kv_both", "MultiConnector")
    server.transfer = multi([towpath(directory=str(work / "served")), theirs["connector"]])
    with server:
        server.await_ready()
        first, until = ask(server.url, prompts[-1]), time.monotonic() + 60
        while server.metric("vllm:towpath_loaded_blocks_total") == 0:
            assert ask(server.url, prompts[-1]) == first
            assert time.monotonic() < until, "the front end heard of no block that was loaded"
    return f"2 x {sum(whole)} tokens from files, tokens identical; a server's front end counts the blocks"


def nixl_pull(work):
    """vLLM's own NixlConnector, unchanged, over our module of the name nixl: prefill here, decode there. In float32:
    the decoder computes the prompt's last token by itself, and bfloat16 rounds otherwise then, on some processors."""
    model, prompts = make_model(work / "model"), [prompt(40 + seed, 200 + 173 * seed) for seed in range(8)]
    exact = {"dtype": "float32"}
    computed, _ = by_itself(model, prompts, **exact)
    with Engine(model, **exact, **nixl("kv_producer", free_port())) as prefill, \
            Engine(model, **exact, **nixl("kv_consumer", free_port())) as decode:
        say("both engines run")
        times, alone = [], []
        for one, tokens in zip(prompts, computed):
            handed = prefill.generate([one], 1, settle=False, extra=ASK)
            params = handed["params"][0]
            assert params and params["do_remote_prefill"], handed
            got = decode.generate([one], 16, settle=False, extra={"kv_transfer_params": params})
            assert got["tokens"] == [tokens], f"{len(one)} tokens: {got['tokens'][0]} is not {tokens}"
            assert got["computed"] == 16, f"{got['computed']} tokens were computed: the prompt was not pulled"
            times.append(got["seconds"])
            alone.append(decode.generate([prompt(900 + len(one), len(one))], 16, settle=False)["seconds"])
        say("one more, and the prefill engine is killed before it is pulled")
        params = prefill.generate([prompts[-1]], 1, settle=False, extra=ASK)["params"][0]
        prefill.kill()
        got = decode.generate([prompts[-1]], 16, settle=False, extra={"kv_transfer_params": params})
        assert got["tokens"] == [computed[-1]], "wrong tokens after the peer's death"
    return f"8 prompts, tokens identical; 16 tokens after {sum(times) / 8:.2f} s pulled, {sum(alone) / 8:.2f} s computed alone"


CASES = {function.__name__: function for function in (
    restart_in_background, restart_in_step, random_conversations, conversations_in_step, peers, one_server, hints, two_ranks,
    preemption_in_background, preemption_in_step, preemption_beside_prefix_cache, load_or_compute, salts_and_reset, wrong_settings,
    multi_connector, nixl_pull, nixl_http, nixl_push, nixl_trouble, nixl_beside, first_token, hybrid_windows, hybrid_states, hybrid_conversations, offload_policies, offload_tier, offload_objects, offload_peers, kvcr,
    lmcache, sglang, llama_server)}
# Those that measure what a user waits for, or what a thread spends: each has the machine to itself.
ALONE = {"random_conversations", "conversations_in_step", "load_or_compute", "nixl_pull", "nixl_beside", "first_token",
         "hybrid_conversations", "lmcache", "sglang"}


class Work(type(pathlib.Path())):
    """The folder of one case, with what the whole run was asked for."""
    seed, requests, troubles = 1, 130, 6


def main():
    options = argparse.ArgumentParser()
    options.add_argument("name", choices=CASES)
    options.add_argument("--work", required=True)
    options.add_argument("--model", required=True)
    options.add_argument("--requests", type=int, default=130)
    options.add_argument("--troubles", type=int, default=6)
    options.add_argument("--seed", type=int, default=1)
    args = options.parse_args()
    Work.seed, Work.requests, Work.troubles = args.seed, args.requests, args.troubles
    work = Work(args.work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "model").symlink_to(make_model(pathlib.Path(args.model)))
    begin = time.monotonic()
    try:
        said = CASES[args.name](work)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    print(f"RESULT {said} ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
