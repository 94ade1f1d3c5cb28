"""A KV connector for an engine of your own: both halves of Towpath's, and the order in which an engine
calls them. vLLM needs none of this: its connector is `towpath.vllm` (docs/guides/vllm.md).

The "model" of the engine below fills a block with numbers that follow from the tokens up to there, so that
every block that is loaded can be held against what computing it would have given.

Run by the tests: python3 examples/kv_connector.py, with the package `towpath` in PYTHONPATH.
"""
import glob
import os
import subprocess
import sys
import tempfile
import time

import numpy

from towpath.connector import Peers, Scheduler, Worker

BLOCK, LAYERS, HEADS, DIM, BLOCKS = 16, 4, 2, 32, 64


class Connector:
    """Both halves in one object; an engine of several processes has one in each."""

    def __init__(self, model, directory="", load_async_from=None, peers=None):
        self.model, self.directory, self.peers = model, directory, peers
        self.scheduler = Scheduler(BLOCK, name_space=model, background_from_tokens=load_async_from)

    # ---- scheduler side

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return self.scheduler.match(request.id, request.tokens, num_computed_tokens)

    def update_state_after_alloc(self, request, num_external_tokens):
        self.scheduler.allocate(request.id, request.blocks, num_external_tokens)

    def build_connector_meta(self, scheduled):
        for request, before, after in scheduled:
            self.scheduler.advance(request.id, before, after)
        return self.scheduler.build()

    def update_connector_output(self, report):
        self.scheduler.update(report)

    def request_finished(self, request):
        return self.scheduler.finish(request.id), None

    # ---- worker side

    def register_kv_caches(self, kv_caches):
        self.worker = Worker(kv_caches, name_space=self.model, directory=self.directory,
                             axes="outer block token head dim", peers=self.peers)

    def start_load_kv(self, meta):
        self.worker.start_step(meta)

    def wait_for_layer_load(self, layer_name):
        self.worker.wait_for_layer_load(layer_name)

    def save_kv_layer(self, layer_name):
        self.worker.save_layer(layer_name)

    def wait_for_save(self):
        self.worker.wait_for_save()

    def get_finished(self):
        sending, recving = self.worker.take_finished()
        return set(sending), set(recving)

    def get_block_ids_with_load_errors(self):
        return set(self.worker.take_failed_blocks())


class Request:

    def __init__(self, name, tokens, blocks):
        self.id, self.tokens, self.blocks = name, tokens, blocks


class Engine:
    """What of an engine matters here: paged caches, a forward pass layer by layer, and recomputing of what
    could not be loaded."""

    def __init__(self, connector):
        self.kv_caches = {
            f"model.layers.{i}.self_attn": numpy.zeros((2, BLOCKS, BLOCK, HEADS, DIM), numpy.float16)
            for i in range(LAYERS)
        }
        self.connector = connector
        connector.register_kv_caches(self.kv_caches)
        connector.update_connector_output(connector.worker.take_report())
        self.free = list(range(BLOCKS))
        self.received = set()

    @staticmethod
    def key_values(tokens, block, layer):
        """What the model computes for a block of a prompt."""
        seed = hash((tuple(tokens[:(block + 1) * BLOCK]), layer)) & 0xffffffff
        return numpy.random.default_rng(seed).random((2, BLOCK, HEADS, DIM)).astype(numpy.float16)

    def serve(self, name, tokens):
        """A request from its arrival to its end: (tokens loaded, blocks whose load failed)."""
        request = Request(name, tokens, self.take_blocks(-(-len(tokens) // BLOCK)))
        loaded, is_async = self.connector.get_num_new_matched_tokens(request, 0)
        self.connector.update_state_after_alloc(request, loaded)
        if is_async:
            failed = self.receive(request)
            self.step([(request, loaded, len(tokens))])
        else:
            failed = self.step([(request, loaded, len(tokens))])
        if failed:  # from the first one on, what was loaded is not to be relied on
            first = min(request.blocks.index(block) for block in failed)
            self.step([(request, first * BLOCK, len(tokens))])
        self.check(request)
        delay_free, _ = self.connector.request_finished(request)
        assert not delay_free
        self.free += request.blocks
        return loaded, len(failed)

    def step(self, scheduled):
        """A forward pass, layer by layer."""
        connector = self.connector
        connector.start_load_kv(connector.build_connector_meta(scheduled))
        for layer, (layer_name, cache) in enumerate(self.kv_caches.items()):
            connector.wait_for_layer_load(layer_name)
            for request, before, after in scheduled:
                for i in range(before // BLOCK, after // BLOCK):
                    cache[:, request.blocks[i]] = self.key_values(request.tokens, i, layer)
            connector.save_kv_layer(layer_name)
        connector.wait_for_save()
        failed = connector.get_block_ids_with_load_errors()
        self.received |= connector.get_finished()[1]
        connector.update_connector_output(connector.worker.take_report())
        return failed

    def receive(self, request):
        """Steps of other requests, until this one has been received."""
        failed = set()
        while request.id not in self.received:
            failed |= self.step([])
        return failed

    def finds(self, tokens):
        """How many tokens of a prompt could be loaded now."""
        self.step([])
        found, _ = self.connector.scheduler.match("a question", tokens)
        self.connector.scheduler.finish("a question")
        return found

    def take_blocks(self, count):
        taken, self.free = self.free[:count], self.free[count:]
        for cache in self.kv_caches.values():
            cache[:, taken] = -1
        return taken

    def check(self, request):
        for layer, cache in enumerate(self.kv_caches.values()):
            for i in range(len(request.tokens) // BLOCK):
                wanted = self.key_values(request.tokens, i, layer)
                assert numpy.array_equal(cache[:, request.blocks[i]], wanted), "a wrong block"


def flip_a_bit(directory):
    """In the first block of the newest file."""
    path = sorted(glob.glob(os.path.join(directory, "*", "segment-*")))[-1]
    with open(path, "r+b") as file:
        file.seek(2 * 4096 + 123)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))


MODEL = "example, float16"
SYSTEM_PROMPT = list(range(128))
FIRST, SECOND = SYSTEM_PROMPT + [7] * 32, list(range(500, 660))


def report(what, served):
    print("{:20} {} tokens loaded, {} blocks failed".format(what + ":", *served))


def with_files():
    with tempfile.TemporaryDirectory() as directory:
        engine = Engine(Connector(MODEL, directory))
        report("first prompt", engine.serve("first", FIRST))
        report("same beginning", engine.serve("second", SYSTEM_PROMPT + [8] * 32))
        engine.connector.worker.close()

        flip_a_bit(directory)
        engine = Engine(Connector(MODEL, directory))
        report("restart, a bit flipped in a file", engine.serve("third", FIRST))
        report("once more", engine.serve("fourth", FIRST))
        engine.connector.worker.close()

        engine = Engine(Connector(MODEL, directory, load_async_from=1))
        report("restart, async load", engine.serve("fifth", SYSTEM_PROMPT + [8] * 32))
        engine.connector.worker.close()


def grant(place):
    """Another engine: serves two prompts. Then it is busy, and its blocks are granted all the same, until it
    is killed."""
    engine = Engine(Connector(MODEL, peers=Peers(place, "prefill", others=["decode"])))
    engine.serve("first", FIRST)
    engine.serve("second", SECOND)
    while os.getppid() != 1:
        time.sleep(1)


def with_peers():
    place = f"scope:example-{os.getpid()}"
    with subprocess.Popen([sys.executable, __file__, "grant", place]) as prefill:
        engine = Engine(Connector(MODEL, peers=Peers(place, "decode", others=["prefill"])))
        while not (engine.finds(FIRST) and engine.finds(SECOND)):
            if prefill.poll() is not None:
                raise SystemExit("the other engine has ended")
            time.sleep(0.001)
        report("of another process", engine.serve("first", FIRST))
        prefill.kill()
        prefill.wait()
        report("which is killed", engine.serve("second", SECOND))
        engine.connector.worker.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["grant"]:
        grant(sys.argv[2])
    else:
        with_files()
        with_peers()
        print("every block that was used holds what computing it gives")
