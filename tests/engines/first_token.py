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


def ask_files(engine, prompts):
    before = engine.figures()["worker"]["from_files"]
    answers = ask(engine, prompts)
    found = engine.figures()["worker"]["from_files"] - before
    assert found >= PROMPTS * (LENGTH // BLOCK), f"{found} blocks were read from files"
    return answers


def take_turns(model, directory):
    """An engine with Towpath lives for a turn, and finds in files what the one before it kept."""
    turns, expected, connector, warm = [], [], towpath(directory=str(directory)), [prompt(9, LENGTH)]
    with Engine(model, enable_prefix_caching=True, **EXACT) as prefix_cache:
        one_by_one(prefix_cache, warm)
        for number in range(TURNS + 1):
            with Engine(model, connector, **EXACT) as engine:
                one_by_one(engine, warm)
                if turns:
                    tokens, turns[-1]["its files"] = ask_files(engine, prompts)
                    assert tokens == expected, "wrong tokens from files"
                    say(", ".join(f"{source} {seconds:.3f} s" for source, (seconds, _) in turns[-1].items()))
                if number == TURNS:
                    return turns
                prompts, taken = [prompt(3000 + 10 * number + i, LENGTH) for i in range(PROMPTS)], {}
                expected, taken["computed"] = ask(prefix_cache, prompts)
                cached, taken["vLLM's prefix cache"] = ask(prefix_cache, prompts)
                again = ask(engine, prompts)[0]
                loaded, taken["Towpath's memory"] = ask(engine, prompts)
                assert cached == again == loaded == expected, "wrong tokens"
                engine.sync()
                turns.append(taken)


def first_token(work):
    turns = take_turns(make_model(work / "model"), work / "kv")

    def spread(source, which):
        seconds = sorted(one[source][which] for one in turns)
        return f"{statistics.median(seconds):.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})"

    return f"prompts of {LENGTH} tokens, {TURNS} turns: " + "; ".join(
        f"{source} {spread(source, 0)}, processors {statistics.median(one[source][1] for one in turns):.3f} s" for source in turns[0])
