"""Random conversations, seeded: shared beginnings, branches, answers that become prompts, several at once in a cache that
is too small for them, restarts of the engine, bits flipped in its files, a peer that is killed while it is loaded from.
The same requests go to vLLM's own prefix cache, which never forgets: tokens must be the same, and hits too, of what
the engine itself computed."""
import os
import random
import threading

import harness
from harness import BLOCK, Engine, say


FLIPS = 5  # at a time: in blocks that are wanted again, or not
TOGETHER, ANSWER_TOGETHER = 6, 200  # requests, and their tokens at most
LONGEST = 1792
TIGHT = LONGEST // BLOCK + 4  # blocks of each group: one request has room, several preempt each other
RESTART_EVERY, KILL_EVERY, PEER_EVERY, TOGETHER_EVERY = 50, 40, 6, 11  # requests
KILLED_WITHIN_S = 0.04  # before, in or just after the load from it


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


class Kept:
    """What the engine itself computed, by the tokens up to the end of each block."""

    def __init__(self):
        self._ends = set()

    @staticmethod
    def _blocks(tokens):
        return [hash(tuple(tokens[:end])) for end in range(BLOCK, len(tokens) + 1, BLOCK)]

    def add(self, tokens, loaded):
        self._ends.update(self._blocks(tokens)[loaded // BLOCK:])

    def of(self, prompt):
        """Tokens from the prompt's first one that are kept and can be loaded: one token at least is computed."""
        blocks = self._blocks(prompt[:-1])
        return BLOCK * next((i for i, block in enumerate(blocks) if block not in self._ends), len(blocks))


class Checked:
    """The engine, the one that vLLM's own cache serves, a peer; and what came of the requests."""

    def __init__(self, model, directory, settings, args, groups, numbers):
        self.model, self.directory, self.settings, self.args, self.numbers = model, directory, settings, args, numbers
        self.blocks = groups * TIGHT
        self.place, self.kept = f"scope:conversations-{os.getpid()}", Kept()
        self.reference = Engine(model, dtype="float32", environment={"VLLM_CPU_KVCACHE_SPACE": "6"},
                                **{**args, "enable_prefix_caching": True})
        self.engine, self.peer = self._start(), self._start_peer()
        self.requests = self.cached = self.wanted = self.failed = self.flipped = self.leased = 0
        self.restarts = self.kills = self.preemptions = 0
        self.seconds, self.step_seconds = {}, 0.0  # of the engine's thread: in the connector by method; in all

    def _connector(self, name, other, **settings):
        return harness.towpath(memory="256MiB", peers={"rendezvous": self.place, "name": name, "others": [other]},
                               **settings)

    def _start(self):
        return Engine(self.model, self._connector("engine", "peer", directory=str(self.directory), **self.settings),
                      dtype="float32", num_gpu_blocks_override=self.blocks, **self.args)

    def _start_peer(self):
        return Engine(self.model, self._connector("peer", "engine", **self.settings), dtype="float32", **self.args)

    def ask(self, prompts, max_tokens):
        kept = [self.kept.of(prompt) for prompt in prompts]
        mine = self.engine.generate(prompts, max_tokens)
        theirs = self._compare("the engine", mine, prompts, max_tokens)
        for prompt, tokens, own, loaded, reached in zip(prompts, mine["tokens"], kept, mine["cached"], theirs["cached"]):
            wanted = min(own, reached)
            self.wanted += wanted
            self.cached += min(loaded, wanted)
            if loaded < wanted:
                say(f"request {self.requests}: {loaded} tokens loaded of {wanted} that were kept")
            self.kept.add(prompt + tokens[:-1], loaded)
        return mine["tokens"]

    def ask_peer(self, prompts, max_tokens):
        """The engine has heard of it: what it computes itself although a peer has it, it does not keep."""
        answers = self.peer.generate(prompts, max_tokens)
        self._compare("the peer", answers, prompts, max_tokens)
        self.engine.await_found(prompts=prompts, counts=[(len(prompt) - 1) // BLOCK * BLOCK for prompt in prompts])
        return answers["tokens"]

    def _compare(self, name, answers, prompts, max_tokens):
        theirs = self.reference.generate(prompts, max_tokens)
        assert answers["tokens"] == theirs["tokens"], (
            f"request {self.requests} to {name}: {[len(one) for one in prompts]} tokens, {answers['cached']} cached "
            f"({theirs['cached']} by vLLM): {answers['tokens']} is not {theirs['tokens']}")
        self.requests += len(prompts)
        return theirs

    def take_figures(self):
        figures = self.engine.figures()
        self.failed += figures["scheduler"]["failed_blocks"]
        self.leased += figures["worker"]["leased"]
        self.preemptions += figures["preemptions"]
        for name, value in figures["seconds"].items():
            if "register" not in name:
                self.seconds[name] = self.seconds.get(name, 0.0) + value
        self.step_seconds += figures["step_seconds"]

    def close(self):
        self.take_figures()
        for engine in (self.engine, self.peer, self.reference):
            engine.stop()

    def restart(self):
        """Every second time bits are flipped."""
        self.engine.sync()
        self.take_figures()
        self.engine.stop()
        self.restarts += 1
        if self.restarts % 2 == 0:
            for _ in range(FLIPS):
                flip_anywhere(self.directory, self.numbers)
            self.flipped += FLIPS
        self.engine = self._start()
        say(f"restart {self.restarts}: {self.cached:,} tokens loaded of {self.wanted:,} that were kept")

    def kill_peer(self, prompt, max_tokens):
        """While the engine is asked for what the peer has; its answer."""
        killer = threading.Timer(self.numbers.uniform(0, KILLED_WITHIN_S), self.peer.kill)
        killer.start()
        answer, = self.ask([prompt], max_tokens)
        killer.join()
        self.kills += 1
        self.peer = self._start_peer()
        say(f"the peer was killed, {self.kills}")
        return answer


def talk(chats, checked):
    """One turn, of one conversation or of some at once."""
    together = checked.requests % TOGETHER_EVERY == 0
    turns = [chats.next() for _ in range(TOGETHER if together else 1)]
    ask = checked.ask_peer if chats.random.randrange(PEER_EVERY) == 0 else checked.ask
    answers = ask([prompt for _, prompt in turns], chats.random.randrange(1, ANSWER_TOGETHER if together else 40))
    for (conversation, _), answer in zip(turns, answers):
        conversation += answer


def kill(chats, checked):
    """The peer has a conversation's beginning and is killed as the engine goes on with it."""
    conversation, prompt = chats.next()
    conversation += checked.ask_peer([prompt], 40)[0]
    conversation += chats.text(5, 150)
    conversation += checked.kill_peer(list(conversation), 40)


def run(model, directory, seed, requests, settings=None, args=None, groups=1):
    """`args`: of all engines. `groups`: of layers that are unlike."""
    chats = Conversations(seed)
    checked = Checked(model, directory, settings or {}, {"max_model_len": LONGEST, **(args or {})}, groups, chats.random)
    restart_at, kill_at = RESTART_EVERY, KILL_EVERY
    while checked.requests < requests:
        if checked.requests >= restart_at:
            restart_at += RESTART_EVERY
            checked.restart()
        if checked.requests >= kill_at:
            kill_at += KILL_EVERY
            kill(chats, checked)
        before = checked.requests
        talk(chats, checked)
        if checked.requests // 25 > before // 25:
            say(f"{checked.requests} requests")
    checked.close()
    return checked
