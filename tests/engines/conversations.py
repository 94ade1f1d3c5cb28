"""Random conversations, seeded: shared beginnings, branches, answers that become prompts, restarts of the
engine, bits flipped in its files. The same requests go to vLLM's own prefix cache, which never forgets:
tokens and hits must be the same."""
import random

import harness
from harness import Engine, say


FLIPS = 5  # at a time: in blocks that are wanted again, or not


class Conversations:
    """Prompts as users of a chat make them."""

    def __init__(self, seed, longest=1200):
        self.random = random.Random(seed)
        self.longest = longest
        self.systems = [harness.prompt(f"{seed} {i}", self.random.randrange(40, 400)) for i in range(3)]
        self.open = []

    def text(self, least, most):
        return [self.random.randrange(10, harness.VOCABULARY) for _ in range(self.random.randrange(least, most))]

    def next(self):
        """(conversation, its prompt)"""
        choice = self.random.random()
        if not self.open or choice < 0.2:
            history = list(self.random.choice(self.systems)) if choice < 0.15 else []
            self.open.append(history)
            conversation = self.open[-1]
        else:
            conversation = self.random.choice(self.open)
            if choice < 0.35:  # a branch: another answer is asked for
                conversation = conversation[:self.random.randrange(len(conversation) // 2, len(conversation) + 1)]
                self.open.append(conversation)
        conversation += self.text(5, 150)
        if len(conversation) > self.longest:
            self.open[:] = [other for other in self.open if other is not conversation]
        return conversation, list(conversation)


def flip_anywhere(directory, numbers):
    path = numbers.choice(harness.segments(directory))
    harness.flip(path, numbers.randrange(4096, path.stat().st_size), numbers.randrange(8))


class Checked:
    """Both engines, and what came of the requests."""

    def __init__(self, model, directory, connector, args):
        self.model, self.directory, self.connector, self.args = model, directory, connector, args
        self.reference = Engine(model, dtype="float32", environment={"VLLM_CPU_KVCACHE_SPACE": "6"},
                                **{**args, "enable_prefix_caching": True})
        self.engine = self.start()
        self.requests = self.cached = self.wanted = self.failed = self.flipped = 0
        self.seconds, self.step_seconds = {}, 0.0  # of the engine's thread: in the connector by method; in all

    def start(self):
        return Engine(self.model, self.connector, dtype="float32", **self.args)

    def ask(self, prompt, max_tokens):
        mine = self.engine.generate([prompt], max_tokens)
        theirs = self.reference.generate([prompt], max_tokens)
        assert mine["tokens"] == theirs["tokens"], (
            f"request {self.requests}: {len(prompt)} tokens, {mine['cached']} cached ({theirs['cached']} by vLLM): "
            f"{mine['tokens']} is not {theirs['tokens']}")
        self.requests += 1
        self.cached += mine["cached"][0]
        self.wanted += theirs["cached"][0]
        return mine["tokens"][0]

    def take_figures(self):
        figures = self.engine.figures()
        self.failed += figures["scheduler"]["failed_blocks"]
        for name, value in figures["seconds"].items():
            if "register" not in name:
                self.seconds[name] = self.seconds.get(name, 0.0) + value
        self.step_seconds += figures["step_seconds"]

    def close(self):
        self.engine.stop()
        self.reference.stop()

    def restart(self, numbers=None):
        self.engine.sync()
        self.take_figures()
        self.engine.stop()
        if numbers is not None:
            for _ in range(FLIPS):
                flip_anywhere(self.directory, numbers)
            self.flipped += FLIPS
        self.engine = self.start()


def run(model, directory, seed, requests, restarts, settings=None, args=None):
    """Every second restart finds bits flipped. `args`: of both engines."""
    connector = harness.towpath(directory=str(directory), memory="256MiB", **(settings or {}))
    chats, checked = Conversations(seed), Checked(model, directory, connector, args or {})
    every = max(1, requests // (restarts + 1))
    for number in range(requests):
        if number and number % every == 0 and number // every <= restarts:
            checked.restart(chats.random if number // every % 2 == 0 else None)
            say(f"restart {number // every}: {checked.cached:,} tokens loaded, vLLM's own cache had {checked.wanted:,}")
        conversation, prompt = chats.next()
        conversation += checked.ask(prompt, chats.random.randrange(1, 40))
        if number % 25 == 24:
            say(f"{number + 1} requests")
    checked.take_figures()
    checked.close()
    return checked
