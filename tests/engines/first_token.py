"""When vLLM has a prompt's first token, and what its processor did for it: computed, from its own prefix cache, from
Towpath's memory, and from its files after a restart; in turns, each engine alone. LMCache 0.5.6 does not run here:
its connector says "No supported cpu connector found"."""
import statistics

from harness import BLOCK, Engine, make_model, one_by_one, prompt, say, towpath

TURNS, PROMPTS, LENGTH = 5, 5, 1500
EXACT = {"dtype": "float32"}


def ask(engine, prompts):
    """The tokens; medians: seconds to the first token, and of the processors."""
    tokens, seconds, spent = [], [], []
    for one in prompts:
        before = engine.processor_seconds()
        answer = engine.generate([one], 1)
        spent.append(engine.processor_seconds() - before)
        seconds.append(answer["seconds"])
        tokens.append(answer["tokens"][0])
    return tokens, (statistics.median(seconds), statistics.median(spent))


def turn(model, directory, number):
    prompts, connector = [prompt(3000 + 10 * number + i, LENGTH) for i in range(PROMPTS)], towpath(directory=str(directory))
    taken, warm = {}, [prompt(9, LENGTH)]
    with Engine(model, enable_prefix_caching=True, **EXACT) as engine:
        one_by_one(engine, warm)
        computed, taken["computed"] = ask(engine, prompts)
        cached, taken["vLLM's prefix cache"] = ask(engine, prompts)
    with Engine(model, connector, **EXACT) as engine:
        one_by_one(engine, warm)
        assert ask(engine, prompts)[0] == computed
        tokens, taken["Towpath's memory"] = ask(engine, prompts)
        engine.sync()
    with Engine(model, connector, **EXACT) as engine:
        one_by_one(engine, warm)
        restarted, taken["its files"] = ask(engine, prompts)
        kept = engine.figures()["worker"]
        assert kept["from_files"] >= PROMPTS * (LENGTH // BLOCK), kept
    assert tokens == restarted == cached, "wrong tokens"
    return taken


def first_token(work):
    model, turns = make_model(work / "model"), []
    for number in range(TURNS):
        turns.append(turn(model, work / f"kv-{number}", number))
        say(", ".join(f"{source} {seconds:.3f} s" for source, (seconds, _) in turns[-1].items()))

    def spread(source, which):
        seconds = sorted(one[source][which] for one in turns)
        return f"{statistics.median(seconds):.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})"

    return f"prompts of {LENGTH} tokens, {TURNS} turns: " + "; ".join(
        f"{source} {spread(source, 0)}, processors {statistics.median(one[source][1] for one in turns):.3f} s" for source in turns[0])
