"""`await` for transfers and notifications, in any loop of asyncio that has add_reader().

An agent has one reader for each loop in which something of it is awaited, from the first awaiter to the last. It makes the
agent's progress where there is some to make, and looks after everything that is awaited there, whichever thread ended it.
Nothing here polls, and nothing has a thread.
"""
import contextlib
from typing import Any, Generator, List, Tuple

from towpath import errors
from towpath._towpath import AgentEvents, agent_key

_readers = {}  # (loop, agent_key) -> _Reader; used by its loop's thread, and taken away by others when that is closed


class Notifications(List[Tuple[str, bytes]]):
    """What Agent.notifications() returns: those that are there. Awaited, and empty: the first that come."""
    __slots__ = ("_agent",)  # set and filled by the binding

    def __await__(self) -> Generator[Any, None, List[Tuple[str, bytes]]]:
        return _first(self, self._agent).__await__()


async def _first(messages, agent):
    # Between the wake-up and taking them nothing is awaited: a cancelled task leaves them to the next.
    while not messages:
        await _Reader.of(agent).until_notified()
        messages = agent.notifications()
    return list(messages)


async def wait(transfer):
    """Transfer.__await__: as wait(). Cancelling the task cancels the transfer, and ends when that is quiesced."""
    import asyncio
    transfer = transfer.another_handle()
    if transfer.wait(0):
        return True
    try:
        await _Reader.of(transfer).until_ended(transfer)
    except asyncio.CancelledError:
        transfer.cancel()
        if not transfer.ended:
            with contextlib.suppress(errors.NotReady):  # closed: it ends with the agent
                await _Reader.of(transfer).until_ended(transfer)
        raise
    if not transfer.poll():
        raise errors.NotReady("the agent was closed, and its transfer has not come to rest")
    return True


class _Reader:

    @classmethod
    def of(cls, awaited):
        import asyncio  # here: a program that never awaits does without it
        loop = asyncio.get_running_loop()
        place = loop, agent_key(awaited)
        reader = _readers.get(place)
        if reader is None:
            for other in list(_readers):  # of other threads too, which add theirs and take them away
                if other[0].is_closed() and (gone := _readers.pop(other, None)):
                    gone.events.close()
            reader = _readers[place] = cls(place, AgentEvents(awaited))
        return reader

    def __init__(self, place, events):
        self.place, self.events = place, events
        self.transfers = {}  # number -> future
        self.listeners = set()  # futures of those that wait for notifications
        place[0].add_reader(events.fileno(), self.turn)

    async def until_ended(self, transfer):
        future = self.place[0].create_future()
        number = self.events.add(transfer)
        self.transfers[number] = future
        try:
            self.events.wake()  # the first look
            await future
        finally:
            del self.transfers[number]
            self.events.remove(number)
            self.leave()

    async def until_notified(self):
        future = self.place[0].create_future()
        self.listeners.add(future)
        try:
            self.events.wake()
            await future
        finally:
            self.listeners.remove(future)
            self.leave()

    def leave(self):
        loop = self.place[0]
        if self.transfers or self.listeners or _readers.pop(self.place, None) is None:
            return
        if not loop.is_closed():
            loop.remove_reader(self.events.fileno())
        self.events.close()

    def turn(self):
        ended, has_notifications, is_over = self.events.turn()
        woken = [self.transfers[number] for number in ended]
        if has_notifications or is_over:
            woken += self.listeners
        if is_over:
            woken += self.transfers.values()
        for future in woken:
            if not future.done():
                future.set_result(None)
