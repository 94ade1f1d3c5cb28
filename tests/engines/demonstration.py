"""What a user of vLLM has of Towpath, to be seen: `./dev demo --engine vllm` calls it.

The same prompts, as turns of a chat make them: computed by an engine alone; loaded by an engine that was started
again, from the files of its life before; and handed over from an engine that computes prompts to one that generates,
which in the middle loses the first (kill -9). Time to the first token, processor time and every token, side by side.
"""
import argparse
import html
import os
import pathlib
import shutil

from harness import ASK, Engine, free_port, make_model, nixl, prompt, say, towpath

TURNS, TOKENS = 8, 16
KILLED_AFTER = 5  # turns
COLOURS = {"computed alone": "#8a8f98", "loaded after a restart": "#2f6fde", "handed over": "#1f9d6b"}


def turns():
    """A chat that grows: each prompt has all that was said before."""
    history, prompts = prompt("system", 420), []
    for turn in range(TURNS):
        history = history + prompt(f"turn {turn}", 90 + 45 * turn)
        prompts.append(history)
    return prompts


def processor_seconds(engine):
    with open(f"/proc/{engine.process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Way:
    """One way to the first token, turn by turn."""

    def __init__(self, name):
        self.name, self.first, self.cpu, self.tokens = name, [], [], []

    def take(self, engine, tokens, **more):
        begin = processor_seconds(engine)
        answer = engine.generate([tokens], 1, settle=False, **more)
        self.first.append(answer["seconds"])
        self.cpu.append(processor_seconds(engine) - begin)
        say(f"{self.name}: {len(tokens):,} tokens, the first of the answer after {1000 * self.first[-1]:.0f} ms")
        return answer

    def take_all(self, engine, prompts):
        engine.generate([prompt("warm", 200)], 1)
        for tokens in prompts:
            self.take(engine, tokens)
            self.whole_answer(engine, tokens)
        return self

    def whole_answer(self, engine, tokens):
        """Beside the clock: what all ways must agree in."""
        self.tokens.append(engine.generate([tokens], TOKENS, settle=False)["tokens"][0])


def alone(model, prompts, work):
    say("one engine, which keeps nothing")
    with Engine(model, dtype="float32", log=work / "alone.log") as engine:
        return Way("computed alone").take_all(engine, prompts)


def after_a_restart(model, prompts, work):
    connector = towpath(directory=str(work / "kv"))
    say("the same chat in another engine, which keeps what it computes in files")
    with Engine(model, connector, dtype="float32", log=work / "first life.log") as engine:
        for tokens in prompts:
            engine.generate([tokens], TOKENS)
        engine.sync()
    say("the engine is stopped, and started again")
    with Engine(model, connector, dtype="float32", log=work / "second life.log") as engine:
        return Way("loaded after a restart").take_all(engine, prompts)


def handed_over(model, prompts, work):
    """By vLLM's own NixlConnector, unchanged, over towpath's module of the name nixl."""
    way = Way("handed over")
    say("two engines: one computes prompts, the other generates")
    with Engine(model, dtype="float32", log=work / "prefill.log", **nixl("kv_producer", free_port())) as prefill, \
            Engine(model, dtype="float32", log=work / "decode.log", **nixl("kv_consumer", free_port())) as decode:
        decode.generate([prompt("warm", 200)], 1, settle=False)
        for turn, tokens in enumerate(prompts):
            if turn == KILLED_AFTER:
                say("the engine that computes prompts is killed; what it had promised is computed where it is wanted")
                params = prefill.generate([tokens], 1, settle=False, extra=ASK)["params"][0]
                prefill.kill()
            elif turn < KILLED_AFTER:
                params = prefill.generate([tokens], 1, settle=False, extra=ASK)["params"][0]
            way.take(decode, tokens, **({"extra": {"kv_transfer_params": params}} if turn <= KILLED_AFTER else {}))
            way.whole_answer(decode, tokens)
    return way


# To be seen ---------------------------------------------------------------------------------------

def table(ways, prompts):
    rows = [["turn", "tokens", *(way.name for way in ways)]]
    for turn, tokens in enumerate(prompts):
        rows.append([str(turn + 1), f"{len(tokens):,}", *(f"{1000 * way.first[turn]:.0f} ms" for way in ways)])
    rows.append(["", "all", *(f"{1000 * sum(way.first):.0f} ms" for way in ways)])
    rows.append(["", "processor", *(f"{sum(way.cpu):.2f} s" for way in ways)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows)


def picture(ways, prompts):
    """Bars, a group for each turn, as SVG."""
    bar, gap, left, width, top = 13, 16, 150, 560, 62
    most = max(max(way.first) for way in ways)
    height = top + len(prompts) * (len(ways) * bar + gap) + 26
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 210}" height="{height}" '
           f'font-family="sans-serif" font-size="12" fill="#444">',
           f'<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="12" y="22" font-size="15" fill="#222">Time to the first token, turn by turn of a chat</text>']
    for i, way in enumerate(ways):
        out.append(f'<rect x="{12 + 190 * i}" y="34" width="12" height="12" fill="{COLOURS[way.name]}"/>'
                   f'<text x="{30 + 190 * i}" y="45">{html.escape(way.name)}</text>')
    for turn, tokens in enumerate(prompts):
        y = top + turn * (len(ways) * bar + gap)
        out.append(f'<text x="{left - 10}" y="{y + len(ways) * bar / 2 + 4}" text-anchor="end">{len(tokens):,} tokens</text>')
        for i, way in enumerate(ways):
            length = max(1, width * way.first[turn] / most)
            killed = way.name == "handed over" and turn >= KILLED_AFTER
            out.append(f'<rect x="{left}" y="{y + i * bar}" width="{length:.0f}" height="{bar - 2}" '
                       f'fill="{COLOURS[way.name]}"{" opacity=" + chr(34) + "0.45" + chr(34) if killed else ""}/>'
                       f'<text x="{left + length + 6:.0f}" y="{y + i * bar + 10}" font-size="11">'
                       f'{1000 * way.first[turn]:.0f} ms{" (the other engine is dead)" if killed else ""}</text>')
    out.append(f'<text x="12" y="{height - 8}" font-size="11" fill="#777">vLLM on two cores, a model of 34 million random '
               'weights; the same tokens each way</text></svg>')
    return "\n".join(out)


def page(ways, prompts):
    return (f'<!doctype html><meta charset="utf-8"><title>Towpath under vLLM</title>'
            f'<body style="font-family:sans-serif;margin:2em;max-width:60em"><h1>Towpath under vLLM</h1>'
            f'<p>{html.escape(__doc__.split(chr(10) + chr(10))[1])}</p>{picture(ways, prompts)}'
            f'<pre>{html.escape(table(ways, prompts))}</pre></body>')


def main():
    options = argparse.ArgumentParser()
    for name in ("--work", "--model", "--page"):
        options.add_argument(name, required=True, type=pathlib.Path)
    args = options.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    model, prompts = make_model(args.model), turns()
    ways = [way(model, prompts, args.work) for way in (alone, after_a_restart, handed_over)]
    for way in ways[1:]:
        assert way.tokens == ways[0].tokens, f"{way.name}: {way.tokens} is not {ways[0].tokens}"
    args.page.parent.mkdir(parents=True, exist_ok=True)
    args.page.write_text(page(ways, prompts))
    args.page.with_suffix(".svg").write_text(picture(ways, prompts))
    print(f"\n{table(ways, prompts)}\n\nall {TURNS} answers of {TOKENS} tokens are the same each way; the picture: {args.page}")
    print(f"RESULT {sum(ways[0].first) / sum(ways[1].first):.1f} times sooner after a restart, tokens identical", flush=True)


if __name__ == "__main__":
    main()
