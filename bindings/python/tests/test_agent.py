"""The package's own interface: agents, transfers, notifications, errors, the interpreter's lock."""
import pickle
import signal
import threading
import time
import types

import numpy
import pytest

import towpath

KIB = 1024


def meet_with_memory(pair, size=64 * KIB):
    theirs, mine = numpy.arange(size, dtype=numpy.uint8), numpy.zeros(size, numpy.uint8)
    registered = pair.theirs.register(theirs), pair.mine.register(mine)
    pair.meet()
    return theirs, mine, *registered


def test_pulls_every_other_block(pair):
    theirs, mine, there, here = meet_with_memory(pair)
    pull = pair.mine.create_transfer("read", here.blocks(4 * KIB, 8), pair.theirs.name,
                                     there.blocks(4 * KIB, 8, stride=8 * KIB))
    assert pull.state == "prepared"
    assert pull.post(timeout=30).wait() is True
    expected = theirs.reshape(8, 2, 4 * KIB)[:, 0].reshape(-1)
    assert (mine[:32 * KIB] == expected).all() and not mine[32 * KIB:].any()
    assert (pull.outcome, pull.error, pull.errors) == ("done", None, [])
    assert pull.report().bytes == 32 * KIB and pull.report().descriptors == 8
    assert pull.backend == "shm" and "shm" in str(pull.explain())


def test_pushes_and_reports(pair):
    theirs, mine, there, here = meet_with_memory(pair)
    mine[:] = 7
    push = pair.mine.create_transfer("write", here, pair.theirs.name, there, notification=b"first")
    push.post().wait()
    assert (theirs == 7).all()
    push.post(notification=b"second").wait()
    got = []
    while len(got) < 2:
        got += pair.theirs.notifications(timeout=30)
    assert got == [(pair.mine.name, b"first"), (pair.mine.name, b"second")]


@pytest.mark.parametrize("indices", [
    ([3, 0], [0, 3]),
    (numpy.array([3, 0]), numpy.array([0, 3], numpy.uint32)),
    (range(0, 2), range(2, 4)),
    (range(0, 4, 2), numpy.array([1, 3], numpy.int16)),
])
def test_prepared_lists_are_selected_by_index(pair, indices):
    theirs, mine, there, here = meet_with_memory(pair, 4 * KIB)
    local = pair.mine.prepare(here.blocks(KIB))
    remote = pair.mine.prepare_remote(pair.theirs.name, there.blocks(KIB))
    theirs.reshape(4, KIB)[:] = numpy.arange(1, 5, dtype=numpy.uint8)[:, None]
    pair.mine.make_transfer("read", local, remote, local_indices=indices[0],
                            remote_indices=indices[1]).post().wait()
    expected = [0, 0, 0, 0]
    for ours, other in zip(*indices):
        expected[int(ours)] = int(other) + 1
    assert mine.reshape(4, KIB)[:, 0].tolist() == expected


@pytest.mark.parametrize("indices, error", [
    ([4], towpath.OutOfRange),
    ([-1], OverflowError),
    ([1 << 32], OverflowError),
    (numpy.array([-1]), ValueError),
    (numpy.array([1 << 40]), OverflowError),
    (numpy.array([0.5]), TypeError),
    (["a"], TypeError),
    (7, TypeError),
])
def test_wrong_indices_are_errors(pair, indices, error):
    _, _, there, here = meet_with_memory(pair, 4 * KIB)
    local = pair.mine.prepare(here.blocks(KIB))
    remote = pair.mine.prepare_remote(pair.theirs.name, there.blocks(KIB))
    with pytest.raises(error):
        pair.mine.make_transfer("read", local, remote, local_indices=indices, remote_indices=[0])


def test_an_error_has_code_hint_and_builtin_class(pair):
    _, _, there, here = meet_with_memory(pair)
    with pytest.raises(towpath.NotFound) as raised:
        pair.mine.create_transfer("read", here, "nobody", there)
    assert raised.value.code == "not_found" and "nobody" in raised.value.message
    assert raised.value.hint and raised.value.hint in str(raised.value)
    assert isinstance(raised.value, LookupError)
    with pytest.raises(towpath.Corrupt):
        pair.mine.load_metadata(b"no metadata")
    with pytest.raises(towpath.InvalidArgument):
        pair.mine.create_transfer("copy", here, pair.theirs.name, there)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is towpath.NotFound and str(again) == str(raised.value)


def test_a_peer_that_goes_away_is_lost(pair):
    _, _, there, here = meet_with_memory(pair)
    pull = pair.mine.create_transfer("read", here, pair.theirs.name, there)
    pair.theirs.close()
    with pytest.raises(towpath.PeerLost) as raised:
        while True:  # until the loss has come through
            pull.post(timeout=30).wait()
    assert isinstance(raised.value, ConnectionError) and pair.theirs.closed


def test_handles_outlive_their_agent(pair):
    _, _, there, here = meet_with_memory(pair)
    pull = pair.mine.create_transfer("read", here, pair.theirs.name, there)
    prepared = pair.mine.prepare(here)
    pair.mine.close()
    with pytest.raises(towpath.NotReady):
        pull.post()
    assert len(prepared) == 1
    here.release()
    for late in (pull.cancel, pull.release, prepared.release, pair.mine.close):
        late()
    assert repr(pull) == "<towpath.Transfer released>", "a debugger shows it"
    with pytest.raises(towpath.NotReady):
        pair.mine.metadata()
    with pytest.raises(towpath.NotReady):
        pull.wait(0)


def test_post_and_look_is_one_call(pair):
    theirs, mine, there, here = meet_with_memory(pair)
    pull = pair.mine.create_transfer("read", here, pair.theirs.name, there)
    assert pair.mine.look(pull) is None, "it was never posted"
    done = pair.mine.post_and_look(pull)
    deadline = time.monotonic() + 60
    while not done and time.monotonic() < deadline:
        done = pair.mine.look(pull)
    assert done is True and (mine == theirs).all()
    pair.mine.post_and_look(pull, b"told")
    assert pair.theirs.notifications(timeout=30) == [(pair.mine.name, b"told")]
    there.release()
    pair.mine.load_metadata(pair.theirs.metadata())
    with pytest.raises(towpath.NotFound):
        pair.mine.post_and_look(pull)


def test_waiting_for_what_was_not_posted_is_refused(pair):
    _, _, there, here = meet_with_memory(pair)
    pull = pair.mine.create_transfer("read", here, pair.theirs.name, there)
    assert pull.poll() is False
    with pytest.raises(towpath.NotReady):
        pull.wait()
    with pytest.raises(ValueError):
        pull.post(timeout=-1.0)


@pytest.fixture
def polite_threads(switch_interval):
    """Nobody is made to give up the interpreter's lock: another thread runs only when it is given."""
    switch_interval(1000)


def test_waiting_lets_other_threads_run(alone, polite_threads):
    may_count, counted = threading.Lock(), []

    def count_and_report():
        with may_count:
            counted.extend(range(1000))
            alone.notify(alone.name, b"counted")

    may_count.acquire()
    other = threading.Thread(target=count_and_report)
    other.start()
    may_count.release()
    assert not counted
    # Held, the lock would keep the other thread from counting, and nothing would come in time.
    assert alone.notifications(timeout=20) == [(alone.name, b"counted")]
    assert len(counted) == 1000
    other.join()


def test_close_comes_back_when_all_is_closed(polite_threads):
    agent, is_called, ends = towpath.Agent("closes", ["shm"]), threading.Event(), []
    known = agent.register(bytearray(KIB))

    def wait():
        is_called.set()
        try:
            agent.notifications(timeout=3600)
        except towpath.NotReady as why:
            ends.append(why)

    other = threading.Thread(target=wait)
    other.start()
    assert is_called.wait(60)
    agent.close()  # the other one is in the midst of its call: before, it did not give up the lock
    assert not known.registered
    other.join()
    assert len(ends) == 1


def test_an_agent_is_closed_by_a_signal_s_handler_while_it_is_waited_for():
    agent = towpath.Agent("closes", ["shm"])
    before = signal.signal(signal.SIGALRM, lambda *_: agent.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(towpath.NotReady):
            agent.notifications(timeout=3600)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_wait_is_interrupted_by_a_signal(alone):
    class Rang(Exception):
        pass

    def ring(*_):
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Rang):
            alone.notifications(timeout=3600)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_without_the_thread_progress_is_made_by_hand():
    with towpath.Agent("by-hand", ["shm"], progress_thread=False) as agent:
        agent.notify("by-hand", b"to myself")
        got = []
        while not got:
            agent.progress()
            got = agent.notifications()
        assert got == [("by-hand", b"to myself")] and agent.fileno() >= 0


def test_names_are_any_bytes():
    with towpath.Agent(b"\xff/x", ["shm"]) as odd, towpath.Agent("ä:1", ["shm"]) as other:
        assert other.load_metadata(odd.metadata()) == b"\xff/x".decode("utf-8", "surrogateescape")
        assert odd.load_metadata(other.metadata()) == "ä:1"
        other.notify(b"\xff/x", "ü")
        assert odd.notifications(timeout=30) == [("ä:1", "ü".encode())]
        assert [peer["name"] for peer in odd.peers()] == ["ä:1"] and odd.knows("ä:1")
        odd.forget_peer("ä:1")
        assert not odd.knows("ä:1")


def test_backends_are_chosen_by_name_and_refused_by_name():
    with towpath.Agent("a", {"posix": {}}) as agent:
        assert agent.backends == ["posix"]
        assert "disk" in agent.capabilities("posix")["kinds"]
        with pytest.raises(towpath.AlreadyExists):
            agent.add_backend("POSIX")
        with pytest.raises(towpath.InvalidArgument):
            agent.add_backend("shm", {"no such parameter": "1"})
        for wrong in ({"path": 1}, {1: "path"}, None):
            with pytest.raises(TypeError):
                agent.add_backend("shm", wrong)
    unknown = types.MappingProxyType({"no such parameter": "1"})
    with pytest.raises(towpath.InvalidArgument, match="no such parameter"):
        towpath.Agent("a", types.MappingProxyType({"shm": unknown}))  # no dict, and a mapping all the same
    with pytest.raises(towpath.NotFound, match="shm"):
        towpath.Agent("a", ["no such backend"])
    with pytest.raises(TypeError):
        towpath.Agent("a", "shm")
    assert {"loopback", "shm", "posix"} <= {known["name"] for known in towpath.backend_types()}


def test_telemetry_goes_where_the_environment_says(monkeypatch, tmp_path):
    with towpath.Agent("quiet") as quiesced:
        assert quiesced.telemetry is None
    with towpath.Agent("asked", telemetry=True) as asked:
        assert asked.telemetry == {"flight_path": "", "prometheus_url": ""}
    monkeypatch.setenv("NIXL_TELEMETRY_ENABLE", "no")
    with towpath.Agent("overruled", telemetry=True) as overruled:
        assert overruled.telemetry is None
    monkeypatch.setenv("NIXL_TELEMETRY_ENABLE", "yes")
    monkeypatch.setenv("NIXL_TELEMETRY_DIR", str(tmp_path))
    with towpath.Agent("recorded") as recorded:
        recorded.add_backend("shm")
        recorded.register(bytearray(KIB)).release()
        path = recorded.telemetry["flight_path"]
        assert path.startswith(str(tmp_path)) and b"recorded" in open(path, "rb").read()
    monkeypatch.setenv("NIXL_TELEMETRY_BUFFER_SIZE", "many")
    with pytest.raises(towpath.InvalidArgument, match="NIXL_TELEMETRY_BUFFER_SIZE='many'"):
        towpath.Agent("confused")
    monkeypatch.delenv("NIXL_TELEMETRY_BUFFER_SIZE")
    monkeypatch.setenv("NIXL_TELEMETRY_ENABEL", "1")
    with pytest.warns(RuntimeWarning, match="NIXL_TELEMETRY_ENABEL is not known"):
        towpath.Agent("warned").close()
