"""What a scheduler's events say to routers, in the words of vLLM's `KVCacheEvent`s, which Dynamo's router reads.

    self.scheduler = Scheduler(16, name_space=model, events_with_tokens=True)
    ...
    def take_events(self):  # of vLLM's KVConnectorBase_V1; the engine publishes what it gives
        return kv_events.for_router(self.scheduler.take_events(), 16, types=vllm.distributed.kv_events)

Without `types` the events are dataclasses of this module, which `dataclasses.asdict()` and json take.
"""
import dataclasses
import sys
from typing import Any, List, Mapping, Optional

__all__ = ["BlockRemoved", "BlockStored", "for_router"]


@dataclasses.dataclass
class BlockStored:
    """Blocks of one prompt, each standing on the one before it; the first stands on the parent."""
    block_hashes: List[int]
    parent_block_hash: Optional[int]
    token_ids: List[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]


@dataclasses.dataclass
class BlockRemoved:
    block_hashes: List[int]
    medium: Optional[str]


def _make(of_type, **fields):
    """Of the fields those that the type has: vLLM's differ from release to release."""
    known = getattr(of_type, "__struct_fields__", None) or of_type.__annotations__
    return of_type(**{name: value for name, value in fields.items() if name in known})


def _lasts(event):
    return getattr(event, "is_lasting", False)


def _chains(events):
    """Events that one of the router's can say: blocks that stand on each other, or are removed."""
    chain = []
    for event in events:
        follows = chain and event.kind == chain[-1].kind and _lasts(event) == _lasts(chain[-1]) and (
            event.kind == "removed" or (event.parent == chain[-1].hash and event.room == chain[-1].room))
        if chain and not follows:
            yield chain
            chain = []
        chain.append(event)
    if chain:
        yield chain


def for_router(events, block_size, *, types=None, medium="CPU", lasting_medium="DISK",
               lora_ids: Optional[Mapping[str, int]] = None) -> List[Any]:
    """`events` as a list of `types.BlockStored` and `types.BlockRemoved`. `lora_ids` says which rooms are
    adapters, and their ids; all others, tenants say, are reported to nobody. Of blocks that came to where no engine's end
    reaches (Scheduler(lasting_events=True)), or are there no more, the medium is `lasting_medium`.
    """
    types = types or sys.modules[__name__]
    lora_ids = lora_ids or {}
    reported = []
    for chain in _chains(events):
        first, hashes = chain[0], [event.hash for event in chain]
        where = lasting_medium if _lasts(first) else medium
        if first.kind == "removed":
            reported.append(_make(types.BlockRemoved, block_hashes=hashes, medium=where))
            continue
        if not all(len(event.tokens) == block_size for event in chain):
            raise ValueError(f"events of {block_size} tokens are wanted: Scheduler(events_with_tokens=True)")
        reported.append(_make(types.BlockStored, block_hashes=hashes, parent_block_hash=first.parent,
                          token_ids=[token for event in chain for token in event.tokens],
                          block_size=block_size, lora_id=lora_ids.get(first.room), medium=where,
                          lora_name=first.room if first.room in lora_ids else None))
    return reported
