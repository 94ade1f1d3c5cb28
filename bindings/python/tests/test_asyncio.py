"""await transfer, await agent.notifications(): in loops of asyncio, without a thread and without a poll."""
import asyncio
import contextlib
import gc
import itertools
import pathlib
import select
import threading
import time

import numpy
import pytest

import towpath
from towpath import _awaiting

try:
    import uvloop
except ImportError:
    uvloop = None

KIB = 1024
_numbers = itertools.count()


def watched(work, limit=60):
    return asyncio.wait_for(work, limit)


def with_asyncio(work):
    asyncio.run(watched(work()))


def with_uvloop(work):
    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(watched(work()))
    finally:
        loop.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    if request.param == "uvloop" and uvloop is None:
        pytest.skip("uvloop is not installed")
    yield with_asyncio if request.param == "asyncio" else with_uvloop
    assert not _awaiting._readers, "a reader outlived its awaiters"


@pytest.fixture(params=[True, False], ids=["thread", "no_thread"])
def two(request):
    """Two agents that know each other over tcp; with and without threads of their own."""
    number = next(_numbers)
    agents = [towpath.Agent(f"{name}-{number}", ["tcp", "shm"], progress_thread=request.param)
              for name in ("left", "right")]
    for agent, other in (agents, reversed(agents)):
        agent.load_metadata(other.metadata())
    yield agents
    for agent in agents:
        agent.close()


class Moving:
    """Memory of two agents, and transfers between them over `backend`."""

    def __init__(self, backend, size=64 * KIB, left_thread=True, right_thread=True):
        number = next(_numbers)
        self.backend = backend
        self.left = towpath.Agent(f"left-{number}", [backend], progress_thread=left_thread)
        self.right = towpath.Agent(f"right-{number}", [backend], progress_thread=right_thread)
        self.here, self.there = numpy.zeros(size, numpy.uint8), numpy.full(size, 42, numpy.uint8)
        self.mine, self.theirs = self.left.register(self.here), self.right.register(self.there)
        self.left.load_metadata(self.right.metadata())
        self.right.load_metadata(self.left.metadata())

    def pull(self, **options):
        return self.left.create_transfer("read", self.mine, self.right.name, self.theirs, **options)

    async def awaited(self):
        """A transfer that was posted, and a task that awaits it."""
        pull = self.pull().post()
        task = asyncio.ensure_future(pull)
        await asyncio.sleep(0)
        return pull, task

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.left.close()
        self.right.close()


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_a_transfer_is_awaited(run, backend):
    async def work():
        with Moving(backend, 4 * KIB * KIB) as moving:
            pull = moving.pull().post()
            assert await pull is True and pull.outcome == "done" and (moving.here == 42).all()
            assert await pull is True, "an ended one is awaited at once"
            assert await asyncio.gather(*[moving.pull().post() for _ in range(20)]) == [True] * 20
    run(work)


def test_what_was_not_posted_or_was_released_is_not_awaited(run):
    async def work():
        with Moving("shm") as moving:
            pull = moving.pull()
            with pytest.raises(towpath.NotReady, match="not posted"):
                await pull
            pull.release()
            with pytest.raises(towpath.NotReady, match="released"):
                await pull
    run(work)


def test_a_deadline_ends_it_as_wait_does(run):
    async def work():
        with Moving("tcp", right_thread=False) as moving:
            pull = moving.pull().post(timeout=0.1)
            with pytest.raises(towpath.TimedOut):
                await pull
            assert pull.outcome == "timed_out" and pull.ended
    run(work)


def test_a_lost_peer_ends_it(run):
    async def work():
        with Moving("tcp", right_thread=False) as moving:
            pull, task = await moving.awaited()
            moving.right.close()
            with pytest.raises(towpath.PeerLost):
                await task
    run(work)


def test_a_cancelled_task_cancels_the_transfer_and_ends_when_it_is_quiesced(run):
    async def work():
        with Moving("tcp", right_thread=False) as moving:
            pull, task = await moving.awaited()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert pull.ended and pull.outcome == "cancelled"
            with pytest.raises(towpath.Cancelled):
                await pull
            again = moving.pull().post()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(again, 0.01)
            assert again.ended and again.outcome == "cancelled"
    run(work)


class Draining:
    """A transfer that goes on draining after cancel(), and the reader of its agent."""

    def __init__(self):
        self.ended, self.outcome, self.awaiters = False, "none", []

    def another_handle(self):
        return self

    def wait(self, _):
        return False

    def cancel(self):
        self.outcome = "cancelled"

    async def until_ended(self, _):
        self.awaiters.append(asyncio.get_running_loop().create_future())
        await self.awaiters[-1]


def test_a_cancelled_task_ends_when_its_draining_transfer_is_quiesced(monkeypatch):
    transfer = Draining()
    monkeypatch.setattr(_awaiting._Reader, "of", lambda _: transfer)

    async def work(cancels):
        transfer.__init__()
        task = asyncio.ensure_future(_awaiting.wait(transfer))
        await asyncio.sleep(0)
        for _ in range(cancels):
            assert not task.done()
            task.cancel()
            for _ in range(3):
                await asyncio.sleep(0)
        assert transfer.outcome == "cancelled"
        assert task.done() == (cancels == 2), "bytes may still land, unless it must not wait for that"
        transfer.ended = True
        transfer.awaiters[-1].done() or transfer.awaiters[-1].set_result(None)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(watched(work(1)))
    asyncio.run(watched(work(2)))


def test_what_ends_before_the_loop_watches_is_seen(run, monkeypatch):
    async def work():
        with Moving("shm", 4 * KIB * KIB, left_thread=False) as moving:
            pull = moving.pull().post()
            assert not pull.ended
            events = _awaiting.AgentEvents

            def late(awaited):
                while not pull.ended:
                    moving.left.progress()
                while select.select([moving.left.fileno()], [], [], 0)[0]:
                    moving.left.progress()  # so that nothing else wakes the loop
                return events(awaited)

            monkeypatch.setattr(_awaiting, "AgentEvents", late)
            assert await pull is True
    run(work)


def test_shield_keeps_the_transfer_from_its_awaiters_cancellation(run):
    async def work():
        with Moving("tcp", right_thread=False) as moving:
            pull = moving.pull().post()
            inner = asyncio.ensure_future(pull)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(inner), 0.01)
            assert not pull.ended
            while not inner.done():
                moving.right.progress()
                await asyncio.sleep(0)
            assert pull.outcome == "done"
    run(work)


def test_an_agent_that_is_closed_ends_its_awaiters(run):
    async def work():
        with Moving("tcp", right_thread=False) as moving:
            pull = moving.pull().post()
            tasks = [asyncio.ensure_future(one) for one in (pull, pull, moving.left.notifications())]
            await asyncio.sleep(0)
            moving.left.close()
            errors = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(error) for error in errors] == [towpath.Cancelled] * 2 + [towpath.NotReady]
            with pytest.raises(towpath.Cancelled):
                await pull
    run(work)


def test_an_agent_that_another_thread_closes_ends_its_awaiters(run):
    async def work():
        for _ in range(50):
            with Moving("tcp", right_thread=False) as moving:
                tasks = [asyncio.ensure_future(one) for one in (moving.pull().post(), moving.left.notifications())]
                await asyncio.sleep(0)
                closing = threading.Thread(target=moving.left.close)
                closing.start()
                errors = await asyncio.gather(*tasks, return_exceptions=True)
                closing.join()
                assert [type(error) for error in errors] == [towpath.Cancelled, towpath.NotReady]
    run(work)


def test_a_transfer_released_by_others_ends_for_its_awaiter(run):
    async def work():
        with Moving("tcp") as moving:
            pull, task = await moving.awaited()
            pull.release()
            del pull
            gc.collect()
            assert await task is True
    run(work)


def test_notifications_are_taken_at_once_or_awaited(run, two):
    left, right = two

    async def work():
        assert left.notifications() == []
        waiting = asyncio.ensure_future(left.notifications())
        await asyncio.sleep(0)
        assert not waiting.done()
        right.notify(left.name, b"first")
        assert await waiting == [(right.name, b"first")]
        right.notify(left.name, b"second")
        right.notify(left.name, b"third")
        got = []
        while len(got) < 2:
            got += await left.notifications()
        assert got == [(right.name, b"second"), (right.name, b"third")]
    run(work)


def test_a_cancelled_awaiter_loses_no_notification(run, two):
    left, right = two

    async def work():
        for number in range(200):
            waiting = asyncio.ensure_future(left.notifications())
            await asyncio.sleep(0)
            right.notify(left.name, str(number))
            while number % 2 and not waiting.done() and not any(
                    future.done() for reader in _awaiting._readers.values() for future in reader.listeners):
                await asyncio.sleep(0)
            waiting.cancel()
            got = (await asyncio.gather(waiting, return_exceptions=True))[0]
            if isinstance(got, asyncio.CancelledError):
                got = await left.notifications()
            assert got == [(right.name, str(number).encode())]
    run(work)


def test_several_awaiters_share_one_reader_and_each_message_comes_once(run, two):
    left, right = two

    async def work():
        got = []

        async def take():
            while len(got) < 100:
                got.extend(await left.notifications())

        tasks = [asyncio.ensure_future(take()) for _ in range(5)]
        await asyncio.sleep(0)
        assert len(_awaiting._readers) == 1
        for number in range(100):
            right.notify(left.name, str(number))
            if number % 10 == 0:
                await asyncio.sleep(0)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [int(text) for _, text in got] == list(range(100))
    run(work)


def test_no_wake_up_is_missed_in_ten_thousand_rounds(run, two):
    left, right = two

    async def answer():
        for _ in range(10_000):
            for sender, text in await right.notifications():
                right.notify(sender, text)

    async def work():
        answering = asyncio.ensure_future(answer())
        for number in range(10_000):
            left.notify(right.name, str(number))
            assert await left.notifications() == [(right.name, str(number).encode())]
        await answering
    run(work)


def test_two_loops_in_two_threads_share_one_agent(run):
    rounds = 1000

    with Moving("tcp") as moving:
        taken, lock = [0], threading.Lock()

        def take_all():
            async def work():
                while taken[0] < 2 * rounds:
                    done, left = await asyncio.wait([asyncio.ensure_future(moving.left.notifications())], timeout=0.2)
                    for task in left:
                        task.cancel()
                    for task in done:
                        with lock:
                            taken[0] += len(task.result())
            asyncio.run(watched(work()))

        def move():
            async def work():
                for _ in range(rounds):
                    await moving.pull(notification=b"").post()
                    moving.right.notify(moving.left.name, b"one")
            asyncio.run(watched(work()))

        threads = [threading.Thread(target=target) for target in (take_all, take_all, move, move)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken[0] == 2 * rounds


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_waiting_costs_no_turns(run, backend):
    async def work():
        with Moving(backend, right_thread=False) as moving:
            waiting = [asyncio.ensure_future(moving.left.notifications())]
            if backend == "tcp":  # whose peer does not move
                waiting.append(asyncio.ensure_future(moving.pull().post(timeout=30)))
            await asyncio.sleep(0.05)
            (reader,) = _awaiting._readers.values()
            before = reader.events.turns
            await asyncio.sleep(0.5)
            assert reader.events.turns - before <= (3 if backend == "shm" else 20), "more than heartbeats"
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
    run(work)


def test_the_guide_s_program_runs(capsys):
    guide = pathlib.Path(__file__).parents[3] / "docs/guides/python.md"
    section = guide.read_text().split("## asyncio", 1)[1]
    exec(compile(section.split("```python\n")[1].split("```")[0], str(guide), "exec"), {})
    assert capsys.readouterr().out == "[('decode', b'got them')]\n"


def test_close_comes_back_when_the_turn_of_a_loop_has_ended(switch_interval):
    def turn_until_over(events):
        while not events.turn()[2]:
            pass

    switch_interval(1e-6)  # a turn that gives up the interpreter's lock gives it to close()
    for _ in range(100):
        agent = towpath.Agent(f"closes-{next(_numbers)}", ["shm"], progress_thread=False)
        known = agent.register(bytearray(KIB))
        events = _awaiting.AgentEvents(agent)
        looping = threading.Thread(target=turn_until_over, args=(events,))
        looping.start()
        time.sleep(0)
        agent.close()
        assert not known.registered, "a turn kept the agent open"
        looping.join()
        events.close()


def test_close_comes_back_when_a_loop_that_begins_to_watch_has_done_so(switch_interval):
    def begin_until_closed(agent):
        with contextlib.suppress(towpath.NotReady):
            while True:
                _awaiting.AgentEvents(agent).close()

    switch_interval(1e-6)
    for _ in range(100):
        agent = towpath.Agent(f"closes-{next(_numbers)}", ["shm"], progress_thread=False)
        known = agent.register(bytearray(KIB))
        beginning = threading.Thread(target=begin_until_closed, args=(agent,))
        beginning.start()
        time.sleep(0)
        agent.close()
        assert not known.registered, "who began to watch kept the agent open"
        beginning.join()


def test_a_loop_that_was_closed_under_its_awaiters_leaves_nothing(two):
    left, right = two
    loop = asyncio.new_event_loop()
    task = loop.create_task(_awaiting._first([], left))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    async def work():
        waiting = asyncio.ensure_future(left.notifications())
        await asyncio.sleep(0)
        right.notify(left.name, b"later")
        assert await waiting == [(right.name, b"later")]
    asyncio.run(watched(work()))
    assert not _awaiting._readers
    task._log_destroy_pending = False
    del task
    gc.collect()
