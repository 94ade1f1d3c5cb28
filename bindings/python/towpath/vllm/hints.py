"""KV hints: what an orchestrator knows of a request's blocks, in the envelope that vLLM carries with the request (`kv_hints`).

vLLM defines the envelope and no action. Ours are `prefetch`, `pin`, `retain`, `demote` and `share`, version "1", each answered
with `accepted`, `clipped`, `deferred` or `rejected`, and why: docs/guides/hints.md.
"""
import dataclasses
import logging
from typing import Any, Dict, List, Tuple

from towpath._settings import checked, read_fields

_logger = logging.getLogger("vllm.towpath")

ACTIONS = ("prefetch", "pin", "retain", "demote", "share")
_VERSIONS = ("1", "1.0")
_KEEPING = ("pin", "retain", "share")
_WHEN_FINISHED = ("retain", "demote", "share")  # unless the payload says otherwise
OUTCOMES = ("accepted", "clipped", "deferred", "rejected")


@dataclasses.dataclass
class Payload:
    """`ttl_s`: how long blocks are kept (pin, retain, share, which need it; 0: no longer). `after_s`: how long to wait with it. `tokens`:
    [first, end] of the request's, else all; `when`: "now" or "finished"; `session`: who holds them, else the request's session_id."""
    ttl_s: float = 0
    after_s: float = 0
    tokens: List[int] = dataclasses.field(default_factory=list)
    when: str = ""
    session: str = ""


def _tokens(value, key):
    if not (isinstance(value, list) and len(value) == 2 and all(type(one) is int and 0 <= one < 2**64 for one in value)):
        raise ValueError(f"towpath: {key} is {value!r}, and should be the first token and the end, as [0, 4096]")
    return value


def _seconds(value, key):
    """Clients choose it: a number that no double holds is too long, or negative, all the same."""
    return max(min(checked(key, value, (int, float)), 1e18), -1.0)


def _when(value, key):
    if value not in ("now", "finished"):
        raise ValueError(f"towpath: {key} is {value!r}, and should be 'now' or 'finished'")
    return value


_READERS = {"ttl_s": _seconds, "after_s": _seconds, "tokens": _tokens, "when": _when}


def read(action) -> Payload:
    """Raises ValueError, with the value and what is meant instead."""
    if action.action_type not in ACTIONS:
        raise ValueError(f"towpath: no hint is called {action.action_type!r}; there are {', '.join(ACTIONS)}")
    if action.action_version not in _VERSIONS:
        raise ValueError(f"towpath: version {action.action_version!r} of {action.action_type}; this release knows 1")
    payload = read_fields(Payload, action.payload, "payload", _READERS, prefix="payload.")
    if action.action_type in _KEEPING and "ttl_s" not in action.payload:
        raise ValueError(f"towpath: {action.action_type} needs payload.ttl_s, the seconds that blocks are kept; 0 lets them go")
    payload.when = payload.when or ("finished" if action.action_type in _WHEN_FINISHED else "now")
    return payload


@dataclasses.dataclass
class _Message:
    """Of one request."""
    id: str
    session: str = ""
    answers: Dict[str, Dict[str, Any]] = dataclasses.field(default_factory=dict)  # by action_id
    later: list = dataclasses.field(default_factory=list)  # actions and payloads, for when it has finished


class Hints:
    """Of a SchedulerSide, whose `scheduler` is a towpath.connector.Scheduler."""

    def __init__(self):
        self._messages: Dict[str, _Message] = {}
        self._ordered: Dict[str, Tuple[str, str]] = {}  # by a number of ours: request and action
        self._next = 0
        self.counts = {f"hints_{outcome}": 0 for outcome in OUTCOMES}

    def hear(self, scheduler, request) -> bool:
        """Of a request that was matched: what is to be done now is ordered. Whether something was."""
        envelope = getattr(request, "kv_hints", None)
        if envelope is None or request.request_id in self._messages:
            return False
        session = getattr(request, "session_id", None) or ""
        message = self._messages[request.request_id] = _Message(envelope.message_id, session)
        for action in envelope.actions:
            try:
                payload = read(action)
            except ValueError as wrong:
                self._answer(message, action.action_id, "rejected", why=str(wrong))
                continue
            if payload.when == "finished":
                message.later.append((action, payload))
                self._answer(message, action.action_id, "deferred", why="until the request has finished")
            else:
                self._order(scheduler, request.request_id, action, payload)
        return True

    def finish(self, scheduler, request_id) -> Any:
        """Of a request that ends: what waited for that is ordered. What is known of its hints, for its answer; None: it had
        none."""
        message = self._messages.get(request_id)
        if message is None:
            return None
        for action, payload in message.later:
            self._order(scheduler, request_id, action, payload)
        del self._messages[request_id]
        return {"kv_hints": {"message_id": message.id, "answers": list(message.answers.values())}}

    def refuse(self, request):
        """What was not done yet, of a request that is not kept."""
        envelope = getattr(request, "kv_hints", None)
        if envelope is None:
            return
        message = self._messages.get(request.request_id)
        undone = envelope.actions if message is None else [action for action, _ in message.later]
        message = self._messages.setdefault(request.request_id, _Message(envelope.message_id))
        message.later = []
        for action in undone:
            self._answer(message, action.action_id, "rejected", why="its blocks are not kept")

    def forget(self):
        self._messages.clear()
        self._ordered.clear()

    def take_answers(self, scheduler):
        for number, action, outcome, blocks, left, why in scheduler.take_answered_hints():
            request_id, action_id = self._ordered.pop(number)
            message = self._messages.get(request_id, _Message(""))
            self._answer(message, action_id, outcome, blocks, left, why)
            _logger.debug("towpath: hint %s of %s: %s for %d blocks, %d left %s", action, request_id, outcome, blocks, left, why)

    def _order(self, scheduler, request_id, action, payload):
        first, end = payload.tokens or (0, None)
        number, session = str(self._next), payload.session or self._messages[request_id].session
        try:
            scheduler.hint(request_id, action.action_type, id=number, first_token=first, end_token=end,
                           after=payload.after_s, keep=payload.ttl_s, session=session.encode(errors="surrogatepass"))
        except ValueError as wrong:
            self._answer(self._messages[request_id], action.action_id, "rejected", why=str(wrong))
            return
        self._ordered[number], self._next = (request_id, action.action_id), self._next + 1

    def _answer(self, message, action_id, outcome, blocks=0, left=0, why=""):
        self.counts[f"hints_{outcome}"] += 1
        message.answers[action_id] = {"action_id": action_id, "outcome": outcome, "blocks": blocks, "left": left, "why": why}
