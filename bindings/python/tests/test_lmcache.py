"""LMCache's adapter, called as LMCache's NativeConnectorL2Adapter calls it. With LMCache itself: ./dev engines -k lmcache."""
import ctypes
import glob
import os
import random
import select
import signal
import threading

import pytest

from towpath import errors
from towpath.errors import InvalidArgument, NotReady, Unavailable
from towpath.lmcache import TowpathL2

CHUNK = 64 << 10


class Client:
    """A batch is submitted, and its completion is drained when the descriptor is readable."""

    def __init__(self, **params):
        self.native = TowpathL2(**params)
        self.completions = {}

    def take(self, number):
        poller = select.poll()
        poller.register(self.native.event_fd(), select.POLLIN)
        while number not in self.completions:
            assert poller.poll(20_000), "nothing has completed"
            for each, ok, why, answers in self.native.drain_completions():
                self.completions[each] = (ok, why, answers)
        return self.completions.pop(number)

    def set(self, keys, views):
        return self.take(self.native.submit_batch_set(keys, views))

    def get(self, keys, views):
        return self.take(self.native.submit_batch_get(keys, views))

    def exists(self, keys):
        return self.take(self.native.submit_batch_exists(keys))

    def delete(self, keys):
        return self.take(self.native.submit_batch_delete(keys))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.native.close()


def key(number, salt=""):
    text = f"meta-llama/Llama-3.1-8B@00000000@0@{number:064x}"
    return f"{text}@{salt}" if salt else text


def chunk(number, length=CHUNK):
    return memoryview((ctypes.c_ubyte * length).from_buffer_copy(random.Random(number).randbytes(length))).cast("B")


def empty(length=CHUNK):
    return memoryview((ctypes.c_ubyte * length)()).cast("B")


def test_chunks_come_back_also_in_the_next_life(tmp_path):
    keys, chunks = [key(i) for i in range(8)], [chunk(i) for i in range(8)]
    with Client(directory=str(tmp_path / "kv")) as first:
        assert first.exists(keys) == (True, "", [False] * 8)
        assert first.set(keys, chunks) == (True, "", [True] * 8)
        assert first.exists([*keys, key(8)]) == (True, "", [True] * 8 + [False])
    with Client(directory=str(tmp_path / "kv"), direct=True, disk="1GiB") as second:
        views = [empty() for _ in range(9)]
        assert second.get([*keys, key(8)], views) == (True, "", [True] * 8 + [False])
        assert views[:8] == chunks
        assert second.delete([keys[0], keys[0], key(8)]) == (True, "", [True] * 3), "what is not there is deleted"
        assert second.exists(keys) == (True, "", [False] + [True] * 7)
        assert second.native.figures()["loaded"] == 8


def test_tenants_and_groups_are_apart(tmp_path):
    with Client(directory=str(tmp_path)) as client:
        client.set([key(1), key(1, "tenant")], [chunk(1), chunk(2)])
        views = [empty(), empty()]
        assert client.get([key(1, "tenant"), key(1)], views)[2] == [True, True]
        assert views == [chunk(2), chunk(1)]
        assert client.exists([key(1, "other")])[2] == [False]


def test_a_flipped_bit_costs_one_chunk(tmp_path):
    with Client(directory=str(tmp_path)) as client:
        client.set([key(i) for i in range(4)], [chunk(i) for i in range(4)])
    segment, = glob.glob(f"{tmp_path}/segment-*")
    with open(segment, "r+b") as file:
        place = file.read().index(bytes(chunk(2)[:64]))
        file.seek(place + 1000)
        byte = file.read(1)[0]
        file.seek(place + 1000)
        file.write(bytes([byte ^ 4]))
    with Client(directory=str(tmp_path)) as client:
        views = [empty() for _ in range(4)]
        ok, why, loaded = client.get([key(i) for i in range(4)], views)
        assert (ok, loaded) == (False, [True, True, False, True])
        assert "match" in why or "corrupt" in why, why
        assert [views[i] == chunk(i) for i in (0, 1, 3)] == [True] * 3
        assert client.exists([key(2)])[2] == [False], "it is stored again by the next who computes it"
        assert client.native.figures()["not_proven"] == 1


def test_many_batches_under_way_from_two_threads(tmp_path):
    with Client(directory=str(tmp_path), disk="1GiB") as client:
        numbers, lock = {}, threading.Lock()

        def submit(first):
            for i in range(first, first + 40):
                number = client.native.submit_batch_set([key(4 * i + j) for j in range(4)],
                                                        [chunk(4 * i + j) for j in range(4)])  # held until it is drained
                with lock:
                    numbers[number] = i

        threads = [threading.Thread(target=submit, args=(first,)) for first in (0, 40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in numbers:
            assert client.take(number)[0]
        views = [empty() for _ in range(320)]
        assert all(client.get([key(i) for i in range(320)], views)[2])
        assert all(views[i] == chunk(i) for i in range(320))


def test_closed_in_the_middle(tmp_path):
    for _ in range(5):
        client = Client(directory=str(tmp_path))
        client.native.submit_batch_set([key(i) for i in range(64)], [chunk(i) for i in range(64)])
        client.native.close()
        client.native.close()
        with pytest.raises(NotReady):
            client.native.submit_batch_exists([key(0)])


def test_close_ends_the_store_though_another_thread_makes_answers_of_what_came(tmp_path, monkeypatch):
    makes_one, goes_on, from_status = threading.Event(), threading.Event(), errors.from_status

    def slowly(*status):
        makes_one.set()
        goes_on.wait(20)
        return from_status(*status)

    client = Client(directory=str(tmp_path))
    client.native.submit_batch_exists([key(0)])
    poller = select.poll()
    poller.register(client.native.event_fd(), select.POLLIN)
    assert poller.poll(20_000)
    monkeypatch.setattr(errors, "from_status", slowly)
    drained = []
    draining = threading.Thread(target=lambda: drained.extend(client.native.drain_completions()), daemon=True)
    draining.start()
    assert makes_one.wait(20)
    monkeypatch.undo()
    client.native.close()
    with Client(directory=str(tmp_path)):  # which is one's at a time
        goes_on.set()
        draining.join()
        assert [answers for *_, answers in drained] == [[False]]


def test_a_drained_batch_gives_its_buffers_back_also_while_the_main_thread_waits(tmp_path):
    refused = []

    def work(client):
        buffer = bytearray(chunk(1))
        assert client.set([key(1)], [buffer])[0]
        try:
            buffer.append(0)
        except BufferError as why:
            refused.append(why)

    with Client(directory=str(tmp_path)) as client:
        thread = threading.Thread(target=work, args=(client,))
        thread.start()
        thread.join()
    assert not refused


def test_a_forked_child_is_answered_although_its_parent_was_deleting(tmp_path):
    children = []

    class Keys:

        def __len__(self):
            return 1

        def __getitem__(self, index):
            children.append(os.fork())  # in the midst of the parent's call
            if children[0] == 0:
                signal.alarm(60)
                try:
                    client.native.submit_batch_delete([key(0)])
                except NotReady:
                    os._exit(0)
                os._exit(1)
            return key(index)

    with Client(directory=str(tmp_path)) as client:
        assert client.delete(Keys()) == (True, "", [True])
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0]


@pytest.mark.parametrize("params, said", [
    ({"directory": "/x", "dsk": 1}, "adapter_params has no key 'dsk'; the nearest is 'disk'"),
    ({"disk": 1}, "adapter_params need a directory"),
    ({"directory": 7}, "directory is 7, and should be a text"),
    ({"directory": "/x", "disk": "much"}, "disk is 'much', and a size is"),
])
def test_wrong_parameters_are_refused(params, said):
    with pytest.raises(ValueError, match=said):
        TowpathL2(**params)


def test_wrong_calls_are_refused_and_nothing_is_lost(tmp_path):
    with Client(directory=str(tmp_path)) as client:
        with pytest.raises(Unavailable, match="process"):
            TowpathL2(directory=str(tmp_path))
        with pytest.raises(InvalidArgument, match="2 keys and 1 buffers"):
            client.native.submit_batch_set([key(1), key(2)], [chunk(1)])
        with pytest.raises(InvalidArgument, match="read-only"):
            client.native.submit_batch_get([key(1)], [b"some bytes"])
        with pytest.raises(InvalidArgument, match="one piece"):
            client.native.submit_batch_set([key(1)], [chunk(1)[::2]])
        ok, why, stored = client.set([key(1), key(2)], [chunk(1), empty(0)])
        assert (ok, stored) == (False, [True, False]) and "0 bytes" in why
        ok, why, loaded = client.get([key(1)], [empty(CHUNK - 1)])
        assert (ok, loaded) == (False, [False]) and str(CHUNK) in why
