"""The scheduler's half: what vLLM says of requests and steps, as calls of towpath.connector.Scheduler.

Two rules keep wrong bytes out of the store. A block is saved only when its tokens are known, and were
computed in a step that is known to be good: while a step with loads is not confirmed, nothing is saved,
since a load that fails makes everything that was computed upon it wrong. And no report of a worker that
was made before the last reset is listened to.

A model with unlike layers has several groups of them, and a request a table of blocks for each. What a window has
passed, or a state was carried on from, is another's with the next step: so saves end before that writes.
"""
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import time
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Set, Tuple

from towpath import kv_events
from towpath._weights import digest_of_weights
from towpath.connector import Scheduler
from towpath.vllm.hints import Hints


_NULL_BLOCK = 0  # vLLM's, in the place of a block that a window has passed
_LONGEST_NAME = 1024  # bytes of a request's (kMaxRequestId)
_LASTING_S = 2  # that steps are asked for, until what was saved is in files


@dataclasses.dataclass
class Orders:
    """What the workers do in a step."""
    step: int
    data: Optional[bytes] = None  # for towpath.connector.Worker; None: nothing
    loads: bool = False  # something for this very step
    others_load: bool = False  # the same, of another child of a MultiConnector
    awaited: int = 0  # requests that wait for loads which begin now
    settle: bool = False  # saves end before any block is written
    epoch: int = 0  # raised by reset(): everything that was kept before is forgotten


@dataclasses.dataclass
class Reports:
    """What workers say after a step: their reports, and which steps with loads have ended."""
    epoch: int = 0
    data: List[bytes] = dataclasses.field(default_factory=list)
    steps: List[int] = dataclasses.field(default_factory=list)

    def aggregate(self, other):
        epoch = max(self.epoch, other.epoch)
        both = [one for one in (self, other) if one.epoch == epoch]
        return type(self)(epoch, [data for one in both for data in one.data],
                          [step for one in both for step in one.steps])


@dataclasses.dataclass
class _Request:
    request: Any
    tokens: int = 0  # that the scheduler's half knows
    blocks: List[int] = dataclasses.field(default_factory=list)  # by group, how many it has
    new_blocks: List[List[int]] = dataclasses.field(default_factory=list)  # by group, that it has not said
    saved_to: int = 0  # tokens up to which blocks were ordered to be saved, or are kept
    preemptions: int = 0
    computed: int = 0  # tokens, as it was matched last
    loaded_to: int = 0  # tokens up to which its last load was to bring it; 0: there was none since it was preempted


def room_of(request, adapter: str) -> str:
    """What makes equal tokens unequal, for this request: adapter (adapter_of()), salt, images. Empty: nothing."""
    salt = getattr(request, "cache_salt", None)
    features = [[feature.identifier, feature.mm_position.offset]
                for feature in getattr(request, "mm_features", None) or ()]
    if salt is None and not features:
        return adapter
    text = json.dumps([adapter, salt, features])
    return hashlib.sha256(text.encode()).hexdigest()  # it is kept for each block, and clients choose its length


def tenant_of(request) -> str:
    """Whose blocks they are, for a server's quotas: those of one salt are of one tenant."""
    return getattr(request, "cache_salt", None) or ""


def adapter_of(request) -> str:
    """A name may be another adapter's in the next life of the engine, and a path another's weights. Empty: none."""
    lora = getattr(request, "lora_request", None)
    if lora is None:
        return ""
    path, weights = getattr(lora, "lora_path", ""), ""
    if os.path.isdir(path):  # else a name in an index
        with contextlib.suppress(OSError):  # it has just gone
            weights = digest_of_weights(path)
    return json.dumps({"lora": lora.lora_name, "path": path, "weights": weights})


def is_kept(request) -> bool:
    """Prompts of embeddings have no tokens to be known by, and sessions take tokens back. Clients choose a request's name and
    salt: nothing they send may end the engine."""
    if getattr(request, "prompt_embeds", None) is not None or getattr(request, "resumable", False):
        return False
    try:
        tenant_of(request).encode()
        return len(request.request_id.encode()) <= _LONGEST_NAME
    except UnicodeEncodeError:
        return False


class SchedulerSide:

    def __init__(self, *, tokens_per_block, workers, name_space, settings, events=False, groups=(("whole", 0),), keeps_images=True):
        self._frees_early = any(kind != "whole" for kind, _ in groups)
        self._make = lambda: Scheduler(
            tokens_per_block, workers=workers, name_space=name_space,
            background_from_tokens=1 if settings.loads_in_background else None,  # all, or none: engines load less
            saves_in_background=settings.saves_in_background, events_with_tokens=events,
            lasting_events=events and settings.lasting_events, groups=list(groups),
            null_block=_NULL_BLOCK if self._frees_early else None)
        self._scheduler = self._make()
        self._per_block, self._workers, self._settings = tokens_per_block, workers, settings
        self._keeps_images = keeps_images
        self._requests: Dict[str, _Request] = {}
        self._unconfirmed: Dict[int, int] = {}  # step with loads: workers that have not done it
        self._leaving: Set[str] = set()  # ended, and blocks of theirs stay
        self._loading: Set[str] = set()  # wait for what comes in the background
        self._loras: Dict[str, Tuple[str, int]] = {}  # by room: name and number
        self._adapters: Dict[int, str] = {}  # by the engine's number, as it was seen first
        self._loads = self._settle = False
        self._awaited = 0
        self._changed = False  # there may be orders
        self._step = self._epoch = 0
        self._hints = Hints()
        self._reset_is_due = False
        self._lasting_until = 0.0

    # Requests ---------------------------------------------------------------------------------

    def match(self, request, computed):
        """(tokens, whether they come in the background)."""
        if not is_kept(request) or (not self._keeps_images and getattr(request, "mm_features", None)):
            self._hints.refuse(request)
            return 0, False
        state = self._requests.get(request.request_id)
        if state is not None:
            self._preempt_if_it_was(state)
        total = len(request.all_token_ids)
        if computed > total:
            return 0, False
        if state is not None and state.tokens == total and not state.blocks:  # the head of the queue, again
            found, background = self._scheduler.match_again(request.request_id, computed)
        else:
            adapter = adapter_of(request)
            if adapter and not self._is_loaded(adapter, request.lora_request):
                self._leave_alone(request)
                return 0, False
            if adapter:
                self._loras[adapter] = (request.lora_request.lora_name, request.lora_request.lora_int_id)
            found, background = self._scheduler.match(request.request_id, request.all_token_ids[:], computed,
                                                      room_of(request, adapter), tenant_of(request))
        loaded_to = state.loaded_to if state is not None else 0
        self._requests[request.request_id] = _Request(request, tokens=total, preemptions=_preemptions(request),
                                                      computed=computed, loaded_to=loaded_to)
        self._changed = self._hints.hear(self._scheduler, request) or self._changed
        if loaded_to and computed + found >= loaded_to:
            return 0, False  # that load has failed, and would again: nothing of it was lost
        return found, background

    def _is_loaded(self, adapter, lora):
        """Whether the engine computes with these weights. It reads a number's folder once, and again when it has let go of the
        adapter: where that has changed since, nobody knows which it has. `load_inplace`: it reads them before each step."""
        if getattr(lora, "load_inplace", False):
            self._adapters[lora.lora_int_id] = adapter
        return self._adapters.setdefault(lora.lora_int_id, adapter) == adapter

    def _leave_alone(self, request):
        """A request that has no blocks is not kept any more."""
        if self._requests.pop(request.request_id, None) is not None:
            self._scheduler.finish(request.request_id)
        self._hints.refuse(request)

    def allocate(self, request, blocks, loaded):
        state = self._requests.get(request.request_id)
        if state is None:
            return
        state.blocks, state.new_blocks = [len(table) for table in blocks], [[] for _ in blocks]
        self._scheduler.allocate(request.request_id, list(blocks), loaded)
        self._changed = self._changed or loaded > 0
        state.loaded_to = state.computed + loaded if loaded else state.loaded_to
        if loaded and self._settings.loads_in_background:
            self._loading.add(request.request_id)
            self._awaited += 1
        elif loaded:
            self._loads = True

    def _preempt_if_it_was(self, state):
        preemptions = _preemptions(state.request)
        if preemptions == state.preemptions:
            return
        state.preemptions = preemptions
        self._scheduler.preempt(state.request.request_id)
        self._changed = True
        state.blocks, state.new_blocks, state.saved_to, state.loaded_to = [], [], 0, 0
        self._settle = True

    def finish(self, request):
        """(whether the request's blocks must stay until its workers have sent it, what became of its hints or None)"""
        state = self._requests.pop(request.request_id, None)
        if state is None:
            return False, self._hints.finish(self._scheduler, request.request_id)
        self._preempt_if_it_was(state)  # its blocks may be another's in the next step already
        # What is computed and was not saved, for want of a confirmation or of its tokens: only where the
        # engine ended the request itself, which it does not after a load that failed.
        if self._settings.saves_in_background and _ended_by_itself(request):
            done = request.num_computed_tokens - getattr(request, "num_in_flight_tokens", 0)
            self._advance(state, done, (request.num_computed_tokens, 0))  # whatever states there were, they are gone
        hints = self._hints.finish(self._scheduler, request.request_id)
        stays = self._scheduler.finish(request.request_id)
        self._changed = True
        if stays:
            self._leaving.add(request.request_id)
        else:
            self._loading.discard(request.request_id)  # of what is withdrawn, or was an earlier life's, nobody hears
        return stays, hints

    # Steps ------------------------------------------------------------------------------------

    def build(self, output) -> Orders:
        if self._settings.load == "cheaper":
            self._scheduler.step_begins(sum(output.num_scheduled_tokens.values()))
        for name in output.preempted_req_ids or ():
            if name in self._requests:
                self._preempt_if_it_was(self._requests[name])
        others_load = not self._loads and getattr(output, "has_sync_kv_loads", False)
        if self._loads or others_load:
            self._unconfirmed[self._step] = self._workers
        self._note_blocks(output.scheduled_cached_reqs)
        if not self._unconfirmed:
            self._save(output)
        orders = Orders(self._step, None, self._loads, others_load, self._awaited, self._settle, self._epoch)
        if self._changed and self._scheduler.has_orders:
            orders.data = self._scheduler.build()
            if self._settings.lasting_events:
                self._lasting_until = time.monotonic() + _LASTING_S
        self._changed = self._loads = self._reset_is_due = False
        self._settle = self._frees_early and orders.data is not None
        self._awaited = 0
        self._step += 1
        return orders

    def _note_blocks(self, cached):
        for name, new in zip(cached.req_ids, cached.new_block_ids):
            if new is None:
                continue
            state = self._requests.get(name)
            if state is None or name in cached.resumed_req_ids:
                continue  # of a resumed request allocate() has said all
            for group, more in enumerate(new):
                state.blocks[group] += len(more)
                state.new_blocks[group] += more

    def _save(self, output):
        """Most requests complete no block in a step, and cost a look."""
        cached, counts, per_block = output.scheduled_cached_reqs, output.num_scheduled_tokens, self._per_block
        new = ((one.req_id, one.num_computed_tokens) for one in output.scheduled_new_reqs)
        for name, computed in itertools.chain(new, zip(cached.req_ids, cached.num_computed_tokens)):
            state, end = self._requests.get(name), computed + counts.get(name, 0)
            if state is None or end // per_block * per_block <= state.saved_to or name not in counts:
                continue
            drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
            self._advance(state, end - drafts, (computed, end))

    def _advance(self, state, computed, step):
        """Orders that what is complete with `computed` tokens is saved, as far as the tokens are known. `step`: the
        tokens that the engine has when its step begins, and when it ends."""
        known = state.request.all_token_ids
        end = min(computed, len(known)) // self._per_block * self._per_block
        end = min(end, min(state.blocks, default=0) * self._per_block)
        if end <= state.saved_to:
            return
        self._scheduler.advance(state.request.request_id, state.saved_to, end, known[state.tokens:],
                                state.new_blocks, step=step)
        self._changed = True
        state.tokens, state.new_blocks, state.saved_to = len(known), [[] for _ in state.blocks], end

    def update(self, reports: Reports):
        if reports.epoch != self._epoch:
            return
        for data in reports.data:
            self._scheduler.update(data)
        self._hints.take_answers(self._scheduler)
        for step in reports.steps:
            left = self._unconfirmed.get(step, 0) - 1
            if left > 0:
                self._unconfirmed[step] = left
            else:
                self._unconfirmed.pop(step, None)

    def step_ends(self):
        if self._settings.load == "cheaper":
            self._scheduler.step_ends()

    def ended(self, requests):
        """Their blocks were sent, or received."""
        self._leaving.difference_update(requests)
        self._loading.difference_update(requests)

    # The rest ---------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether the workers should be given a step though nothing is to be computed."""
        return bool(self._leaving) or self._reset_is_due or (self._changed and self._scheduler.has_orders) or self._awaits_files()

    def _awaits_files(self) -> bool:
        """Routers wait to hear that what was saved lately outlives the engine: workers say it in a step."""
        return time.monotonic() < self._lasting_until and self._scheduler.figures()["not_lasting"] > 0

    def reset(self) -> bool:
        """Nothing that was kept so far is matched again, and the workers throw it away in the next step.
        False: something is on its way to a request, or from one that has ended; later it will do."""
        if self._leaving or self._loading:
            return False
        self._scheduler = self._make()
        self._epoch += 1
        self._reset_is_due = True
        self._requests.clear()  # what is still computed is not kept
        self._hints.forget()
        self._unconfirmed.clear()
        self._loads, self._awaited = False, 0
        return True

    def events(self, types):
        """As the engine's classes. Blocks of tenants and of images are not for routers."""
        taken = []
        for event in self._scheduler.take_events():
            lora = self._loras.get(event.room)
            if event.kind == "removed" or not event.room or lora:
                taken.append(SimpleNamespace(kind=event.kind, hash=event.hash, parent=event.parent,
                                             tokens=event.tokens, room=lora[0] if lora else "", is_lasting=event.is_lasting))
        return kv_events.for_router(taken, self._per_block, types=types, lora_ids=dict(self._loras.values()))

    def figures(self):
        return {**self._scheduler.figures(), **self._hints.counts}


def _preemptions(request) -> int:
    return getattr(request, "num_preemptions", 0)


def _ended_by_itself(request) -> bool:
    return getattr(request.status, "name", "") in ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED", "FINISHED_REPETITION")
