"""What both of TensorRT-LLM's halves work on: a Scheduler and a Worker of towpath.connector, over staging memory.

TensorRT-LLM asks once how many tokens of a prompt can be loaded, and what was promised then cannot be taken back: no call says
that a load failed, and an error in a step ends the engine. So blocks are brought into staging memory, and proven there, before
they are promised; what is left to do afterwards is a copy from one memory to another. What is saved goes the same way back.

Thread: the engine's, which makes all of its calls.
"""
import dataclasses
import logging
import threading
from typing import Dict, List

from towpath.connector import Scheduler, Worker
from towpath.errors import Error
from towpath.trtllm import geometry, naming, settings

_logger = logging.getLogger("tensorrt_llm.towpath")

_AXES = "block head token dim"  # a block is its bytes


class NotPromised(RuntimeError):
    """The engine's calls are not those of the interface this was written against: going on could serve wrong bytes."""


@dataclasses.dataclass
class Staged:
    """Blocks of a prompt that are proven, and promised."""
    first: int = 0  # of the request's blocks
    slots: List[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Save:
    """Blocks of a request that a step completes."""
    request: str
    first: int  # of the request's blocks
    blocks: List[int]  # the engine's


class Keeper:

    def __init__(self, llm_args):
        self._llm_args = llm_args
        self.per_block = geometry.check_engine(llm_args)
        self._settings = settings.read()
        self._folder = geometry.model_folder(llm_args, self._settings)
        geometry.expected_shape(self._folder, self.per_block)  # before weights are loaded, not after
        self._scheduler = self._worker = self._pool = None
        self._failures: Dict[str, str] = {}
        if getattr(llm_args.kv_cache_config, "enable_partial_reuse", False):
            _logger.warning("towpath: kv_cache_config.enable_partial_reuse is on: of a prompt that the engine has up to the middle of a "
                            "block, nothing is loaded; with False more is")

    def register(self, tensor):
        self.close()
        self._pool = pool = geometry.prove(tensor, self._folder, self.per_block)
        staged, kept = self._settings.blocks(pool.block_bytes)
        self._slots = self._staging(pool, staged)
        self._free = list(range(staged))
        name = naming.name_of_cache(self._llm_args, self.per_block, self._folder, tensor.dtype, pool.device, self._settings.model)
        self._worker = Worker([self._memory_of_slots().reshape(staged, 1, 1, -1)], name_space=name, axes=_AXES, host_blocks=kept,
                              driven=True, **self._settings.for_worker())
        self._scheduler = Scheduler(tokens_per_block=self.per_block, name_space=name)
        self._collect()
        _logger.info("towpath: blocks of %d bytes are kept in %s, through %d of staging memory", pool.block_bytes,
                     self._worker.folder or self._settings.server or "memory alone", staged)

    @staticmethod
    def _staging(pool, count):
        if hasattr(pool.rows, "new_empty"):
            return pool.rows.new_empty((count, pool.block_bytes), device="cpu", pin_memory=pool.device is not None)
        import numpy  # whose array the engine's is
        return numpy.zeros((count, pool.block_bytes), numpy.uint8)

    def _memory_of_slots(self):
        return self._slots.numpy() if hasattr(self._slots, "numpy") else self._slots

    # Promises ---------------------------------------------------------------------------------

    def begin(self, request, tokens, computed, room) -> Staged:
        """What the prompt has behind `computed` tokens, brought and proven: blocks up to the first that is not."""
        found, _ = self._scheduler.match(request, tokens, computed, room)
        first, slots, proven = computed // self.per_block, [], 0
        try:
            slots = self._take(found // self.per_block)
            if slots:
                self._scheduler.allocate(request, [0] * first + slots, len(slots) * self.per_block)
                failed = self._step()
                proven = next((i for i, slot in enumerate(slots) if slot in failed), len(slots))
        except Error as failure:
            self._warn("loading", str(failure))
        self.give_back(slots[proven:])
        self._warn_of_failures()
        return Staged(first, slots[:proven])

    def bring(self, slots, blocks, stream):
        """Into the engine's blocks, and the slots are free again."""
        for slot, block in zip(slots, blocks):
            _copy(self._pool.rows[block], self._slots[slot])
        self._await(stream)
        self.give_back(slots)

    def learn(self, request, new_tokens):
        """Behind those that are known. They make the names of blocks, and come to be known whatever becomes of a save."""
        self._scheduler.advance(request, 0, 0, new_tokens)

    def end(self, request):
        self._scheduler.finish(request)

    # Saves ------------------------------------------------------------------------------------

    def save(self, saves: List[Save], stream):
        """What the step has computed: as many blocks at once as there is staging memory for."""
        for save in saves:
            try:
                while save.blocks:
                    save = self._save_some(save, stream)
            except Error as failure:
                self._warn("saving", str(failure))

    def _save_some(self, save, stream) -> Save:
        """What is left to save."""
        slots = self._take(len(save.blocks))
        if not slots:
            self._warn("saving", "all staging memory is promised to requests that have not come")
            return dataclasses.replace(save, blocks=[])
        for slot, block in zip(slots, save.blocks):
            _copy(self._slots[slot], self._pool.rows[block])
        self._await(stream)
        end = save.first + len(slots)
        try:
            self._scheduler.allocate(save.request, [0] * save.first + slots, 0)
            self._scheduler.advance(save.request, save.first * self.per_block, end * self.per_block)
            if self._scheduler.has_orders:
                self._step()
        finally:
            self.give_back(slots)
        return dataclasses.replace(save, first=end, blocks=save.blocks[len(slots):])

    # Both -------------------------------------------------------------------------------------

    def _await(self, stream):
        """All that was sent to the engine's device is done: its layers, and then our copies, since its current stream is this one."""
        if self._pool.device is not None:
            stream.synchronize()

    def _take(self, count):
        """As many slots, or those that there are."""
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def give_back(self, slots):
        self._free += slots

    def _step(self):
        """What the scheduler's half ordered, done by the worker's; the slots that failed."""
        self._worker.start_step(self._scheduler.build())
        try:
            self._worker.wait_for_layer_load(0)
            self._worker.save_layer(0)
        finally:
            self._worker.wait_for_save()
        return self._collect()

    def _collect(self):
        _, _, failed, _, reports = self._worker.take_news(True)
        for report in reports:
            self._scheduler.update(report)
        return set(failed)

    def figures(self):
        """Of both halves."""
        return {**self._scheduler.figures(), **self._worker.figures()}

    def _warn(self, of, failure):
        if self._failures.get(of) != failure:
            self._failures[of] = failure
            _logger.warning("towpath: %s: %s", of, failure)

    def _warn_of_failures(self):
        """A full disk or a flipped bit costs misses, and would not be seen."""
        for name, failure in self._worker.figures().items():
            if failure is not None and "failure" in name:
                self._warn(name.replace("_", " "), str(failure))

    def close(self):
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _copy(into, source):
    if hasattr(into, "copy_"):
        into.copy_(source, non_blocking=True)
    else:
        into[...] = source


_half_met: Dict[int, Keeper] = {}  # by the arguments of the engine whose other half is still to come
_meeting = threading.Lock()  # TensorRT-LLM makes both halves at once, in two threads


def keeper_of(llm_args) -> Keeper:
    """One for both halves of an engine, which are of one process and get the same arguments."""
    with _meeting:
        keeper = _half_met.pop(id(llm_args), None)
        if keeper is None:
            keeper = _half_met[id(llm_args)] = Keeper(llm_args)
        return keeper
