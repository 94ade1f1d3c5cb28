"""What befalls a prefill server in the middle of requests: it is killed, stopped for a while, or both, over shm, tcp and
ucx in turn, at moments that a seed chooses. Each answer has the tokens that were computed alone, and the server that
goes on, or its next life on the same ports, hands over again."""
import contextlib
import pathlib
import random
import subprocess
import threading

from harness import make_model, prompt, say
from proxy import Proxy
from serving import Serve, ask, ask_all

BACKENDS, TROUBLES = ("shm", "tcp", "ucx"), ("killed", "stopped", "stopped and killed")
PROMPTS, EACH = 24, 8  # that there are; of them for a seed
LONGEST_STOP_S = 8  # a peer that is silent for 5 s is lost


class Trouble:
    """Comes to the server when some requests were answered and others are on their way."""

    def __init__(self, server, kind, chance):
        self.server, self.kind = server, kind
        self.left, self.delay = chance.randrange(1, EACH - 2), 0.3 * chance.random()
        self.stop = LONGEST_STOP_S * chance.random()
        self.thread = threading.Thread(target=self._come)

    def after_each(self):
        self.left -= 1
        if self.left == 0:
            self.thread.start()

    def _come(self):
        self._pass(self.delay)
        if "stopped" in self.kind:
            self.server.pause()
            self._pass(self.stop)
        if "killed" in self.kind:
            self.server.kill()
            self.server.start()
        else:
            self.server.resume()

    def _pass(self, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.server.process.wait(seconds)

    def end(self):
        self.thread.join()
        self.server.await_ready()


def have_trouble(prefill, decode, proxy, expected, seed):
    """Which kind it was; the tokens that were handed over afterwards."""
    chance = random.Random(seed)
    trouble = Trouble(prefill, TROUBLES[seed // len(BACKENDS) % len(TROUBLES)], chance)
    chosen = chance.sample(sorted(expected), EACH)
    answers = ask_all(proxy.url, chosen, trouble.after_each)
    trouble.end()
    wrong = [len(one) for one, answer in zip(chosen, answers) if answer != expected[one]]
    assert not wrong, f"seed {seed}, {trouble.kind}: wrong tokens after prompts of {wrong} tokens"
    before, again = decode.handed_over(), chosen[0]
    assert ask(proxy.url, again) == expected[again], f"seed {seed}, {trouble.kind}: wrong tokens afterwards"
    assert decode.process.poll() is None, f"seed {seed}: the decode server ended"
    handed = decode.handed_over() - before
    say(f"seed {seed}: prefill was {trouble.kind}{f' ({trouble.stop:.1f} s)' if 'stopped' in trouble.kind else ''}; "
        f"afterwards {handed} of {len(again) - 1} tokens were handed over")
    assert handed >= len(again) - 1, f"seed {seed}, {trouble.kind}: they were computed"
    return trouble.kind


def nixl_trouble(work):
    model = make_model(work / "model")
    prompts = [tuple(prompt(1200 + i, 60 + 67 * i)) for i in range(PROMPTS)]
    expected, counts = {}, {}
    for number, backend in enumerate(BACKENDS):
        seeds = [seed for seed in range(work.seed, work.seed + work.troubles) if seed % len(BACKENDS) == number]
        if not seeds:
            continue
        here = pathlib.Path(work, backend)
        here.mkdir()
        with Serve(model, here, "kv_producer", "NixlConnector", backend) as prefill, \
                Serve(model, here, "kv_consumer", "NixlConnector", backend) as decode, \
                Proxy(prefill.url, decode.url) as proxy:
            for server in (prefill, decode):
                server.await_ready()
            say(f"{backend}: both servers run")
            expected = expected or dict(zip(prompts, ask_all(decode.url, prompts)))
            for seed in seeds:
                kind = have_trouble(prefill, decode, proxy, expected, seed)
                counts[kind] = counts.get(kind, 0) + 1
    return (f"{work.troubles} troubles over {', '.join(BACKENDS)} ({', '.join(f'{kind} {n}' for kind, n in sorted(counts.items()))}): "
            "tokens identical, handed over again after each")
