"""As much of TensorRT-LLM as towpath.trtllm imports, and an engine that calls it as pyexecutor does: an emulation, of the release
candidates of 1.3 and 1.4 as they could be read. Read were tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py (commits
5a06f334 and 035ab91c), py_executor.py, and tests/integration/defs/llmapi/test_llm_api_connector.py, which says what is called when.
The real engine wants a GPU, and has not run here.
"""
import abc
import concurrent.futures
import hashlib
import pickle
import sys
import types
from dataclasses import dataclass, field
from typing import List, Optional

import numpy

VERSION = "1.4.0rc1, emulated"
LAYERS, HEADS, DIM, PER_BLOCK = 3, 2, 8, 4


class _Worker:

    def __init__(self, llm_args):
        self._llm_args, self._metadata = llm_args, None

    def bind_connector_meta(self, metadata):
        self._metadata = metadata


class _Scheduler:

    def __init__(self, llm_args):
        self._llm_args = llm_args


def _interface(name, base, methods):
    return abc.ABCMeta(name, (base,), {method: abc.abstractmethod(lambda self: None) for method in methods.split()})


KvCacheConnectorWorker = _interface(
    "KvCacheConnectorWorker", _Worker,
    "register_kv_caches start_load_kv wait_for_layer_load save_kv_layer wait_for_save get_finished")
KvCacheConnectorScheduler = _interface(
    "KvCacheConnectorScheduler", _Scheduler,
    "build_connector_meta get_num_new_matched_tokens request_finished update_state_after_alloc")


@dataclass
class RequestData:
    request_id: int
    new_tokens: List[int]
    new_block_ids: List[int]
    computed_position: int
    num_scheduled_tokens: int
    block_hashes: List[int] = field(default_factory=list)
    priorities: Optional[List[int]] = None
    cache_salt: Optional[str] = None


@dataclass
class SchedulerOutput:
    new_requests: List[RequestData] = field(default_factory=list)
    cached_requests: List[RequestData] = field(default_factory=list)


def install(parts=("", "._torch", ".pyexecutor", ".connectors", ".kv_cache_connector")):
    """Once, before towpath.trtllm is imported. Where the real one is there, it is used. Without ".connectors" the interface is where it
    was in earlier releases."""
    try:
        import tensorrt_llm  # noqa: F401
        return
    except ImportError:
        pass
    name = "tensorrt_llm"
    for part in parts:
        name += part
        module = types.ModuleType(name)
        module.__path__, module.__version__ = [], VERSION
        sys.modules[name] = module
    module.__dict__.update({each.__name__: each for each in (KvCacheConnectorWorker, KvCacheConnectorScheduler)})


# Memory ------------------------------------------------------------------------------------------

class Stream:
    """As torch.cuda.Stream: what is sent is done in order, and here not before somebody waits for it."""

    def __init__(self):
        self.sent, self.waits = [], 0

    def send(self, work):
        self.sent.append(work)

    def synchronize(self):
        self.waits += 1
        work, self.sent = self.sent, []
        for each in work:
            each()


class Tensor(numpy.ndarray):
    """A GPU's memory, or pinned memory, as far as torch.Tensor's calls are used: copies go by the current stream."""
    current = Stream()
    device = types.SimpleNamespace(type="cuda")

    def __array_finalize__(self, source):
        self.device = source.device if isinstance(source, Tensor) else Tensor.device

    def copy_(self, source, non_blocking=False):
        Tensor.current.send(lambda: numpy.copyto(self, source))

    def new_empty(self, shape, device, pin_memory):
        made = numpy.full(shape, 0xEE, self.dtype).view(Tensor)
        made.device = types.SimpleNamespace(type=device, pinned=pin_memory)
        return made

    def numpy(self):
        return self.view(numpy.ndarray)


# The engine --------------------------------------------------------------------------------------

class LlmRequest:

    def __init__(self, number, tokens, more=4, **said):
        self.request_id, self.tokens, self.prompt, self.more = number, list(tokens), len(tokens), more
        self.seen = len(tokens)  # behind an iteration that still runs, the engine knows fewer than there are
        self.position, self.chunk, self.promised, self.local = 0, 0, 0, 0
        self.blocks = []
        self.said_tokens = self.said_blocks = 0
        self.cache_salt = self.lora_task_id = self.multimodal_hashes = None
        self.__dict__.update(said)

    def get_tokens(self, beam):
        assert beam == 0
        return self.tokens[:self.seen]


class Engine:
    """A model of a few layers whose keys and values at a token come of those of the token before, as they are in the cache: what
    is loaded wrong is generated wrong. `overlap`: an iteration is prepared before the tokens of the last one are known."""

    def __init__(self, llm_args, connector, blocks=64, gpu=False, overlap=False, max_num_tokens=8192, reuse=False,
                 registered=lambda pool: pool):
        self.pool = numpy.zeros((blocks, LAYERS, 2, HEADS * PER_BLOCK * DIM), numpy.float16)
        self.pool[...] = 7
        self.stream = Stream()
        if gpu:
            self.pool, Tensor.current = self.pool.view(Tensor), self.stream
        self.gpu, self.overlap, self.max_num_tokens, self.reuse = gpu, overlap, max_num_tokens, reuse
        self.free, self.tree = list(range(blocks)), {}  # `tree`: the engine's own prefix cache, of whole blocks
        self.active, self.loaded = [], {}
        self.scheduler = self.worker = None
        if connector is not None:
            with concurrent.futures.ThreadPoolExecutor(max_workers=2) as threads:  # as py_executor_creator does
                worker = threads.submit(connector.TowpathWorker, llm_args)
                scheduler = threads.submit(connector.TowpathScheduler, llm_args)
                self.scheduler, self.worker = scheduler.result(), worker.result()
            self.worker.register_kv_caches(registered(self.pool))

    def generate(self, *requests):
        """The tokens of each."""
        self.active += requests
        while self.active:
            self._iterate()
        return [request.tokens for request in requests]

    def close(self):
        if self.worker is not None:
            self.worker.shutdown()

    def _iterate(self):
        left, batch = self.max_num_tokens, []
        for request in self.active:
            of_prompt = request.prompt - request.position
            if left > 0:
                if not request.blocks:
                    self._add_sequence(request)
                    of_prompt = request.prompt - request.position
                request.chunk = min(of_prompt, left) if of_prompt > 0 else 1
                left -= request.chunk
                batch.append(request)
        for request in batch:
            while len(request.blocks) * PER_BLOCK < request.position + request.chunk:
                request.blocks.append(self.free.pop())
        if self.worker is not None:
            self._start_batch(batch)
        for layer in range(LAYERS):
            if self.worker is not None:
                self.worker.wait_for_layer_load(layer, self.stream)
            self._send(lambda layer=layer: self._compute(batch, layer))
            if self.worker is not None:
                self.worker.save_kv_layer(layer, self.stream)
        if self.worker is not None:
            self.worker.wait_for_save(self.stream)
        if self.gpu:
            self.stream.synchronize()
        for request in batch:
            self._update(request)
        if self.worker is not None:
            assert self.worker.get_finished([], []) == ([], [])

    def _send(self, work):
        if self.gpu:
            self.stream.send(work)
        else:
            work()

    def _add_sequence(self, request):
        """Once for each request: its own matches, what the connector promises, and blocks for the whole prompt."""
        keys = [tuple(request.tokens[:end]) for end in range(PER_BLOCK, request.prompt, PER_BLOCK)]
        while self.reuse and len(request.blocks) < len(keys) and keys[len(request.blocks)] in self.tree:
            request.blocks.append(self.tree[keys[len(request.blocks)]])
        request.local = len(request.blocks) * PER_BLOCK
        while len(request.blocks) * PER_BLOCK < request.prompt:
            request.blocks.append(self.free.pop())
        if self.scheduler is not None:
            request.promised, in_background = self.scheduler.get_num_new_matched_tokens(request, request.local)
            assert not in_background and request.local + request.promised < request.prompt
            self.scheduler.update_state_after_alloc(request, list(request.blocks))
            self.loaded[request.request_id] = request.promised
        request.position = request.local + request.promised

    def _start_batch(self, batch):
        output = SchedulerOutput()
        for request in batch:
            is_new, tokens = request.said_blocks == 0, request.get_tokens(0)
            of_prompt = request.position < request.prompt
            data = RequestData(request.request_id, tokens[request.said_tokens:], request.blocks[request.said_blocks:],
                               request.position - (request.promised if is_new else 0) if of_prompt else len(tokens) - 1,
                               request.chunk if of_prompt else 1, cache_salt=request.cache_salt)
            request.said_tokens, request.said_blocks = len(tokens), len(request.blocks)
            (output.new_requests if is_new else output.cached_requests).append(data)
        metadata = pickle.loads(pickle.dumps(self.scheduler.build_connector_meta(output)))  # as it is broadcast
        self.worker.bind_connector_meta(metadata)
        self.worker.start_load_kv(self.stream)

    def _compute(self, batch, layer):
        cache = self.pool.view(numpy.ndarray).reshape(-1, LAYERS, 2, HEADS, PER_BLOCK, DIM)
        for request in batch:
            for place in range(request.position, request.position + request.chunk):
                before = b""
                if place > 0:
                    block, slot = request.blocks[(place - 1) // PER_BLOCK], (place - 1) % PER_BLOCK
                    before = cache[block, layer, :, :, slot].tobytes()
                seed = before + f"{layer} {request.tokens[place]} {request.cache_salt}".encode()
                made = hashlib.shake_128(seed).digest(2 * HEADS * DIM)
                values = numpy.frombuffer(made, numpy.uint8).astype(numpy.float16).reshape(2, HEADS, DIM)
                cache[request.blocks[place // PER_BLOCK], layer, :, :, place % PER_BLOCK] = values

    def _update(self, request):
        request.position += request.chunk
        if request.position < request.prompt:
            return
        place, cache = request.position - 1, self.pool.view(numpy.ndarray).reshape(-1, LAYERS, 2, HEADS, PER_BLOCK, DIM)
        last = cache[request.blocks[place // PER_BLOCK], :, :, :, place % PER_BLOCK]
        request.tokens.append(int(last.sum(dtype=numpy.float64) * 31) % 1000)
        request.seen = len(request.tokens) - (1 if self.overlap else 0)
        if len(request.tokens) == request.prompt + request.more:
            self._finish(request)

    def _finish(self, request):
        self.active.remove(request)
        if self.scheduler is not None:
            assert self.scheduler.request_finished(request, list(request.blocks)) is False
        for number, block in enumerate(request.blocks):
            key = tuple(request.tokens[:(number + 1) * PER_BLOCK])
            if self.reuse and (number + 1) * PER_BLOCK <= request.position:
                if self.tree.setdefault(key, block) == block:
                    continue
            self.pool.view(numpy.ndarray)[block] = 7
            self.free.insert(0, block)
