"""Metadata by address and port, and by a store; what is accepted, and what came of it."""
import itertools
import time

import numpy
import pytest

import towpath
from towpath.nixl import _bindings as bind
from towpath.nixl import _metadata, nixl_agent, nixl_agent_config

numbers = itertools.count()
TIMEOUT = 60


def eventually(holds):
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if holds():
            return True
    return False


@pytest.fixture
def pair():
    number = next(numbers)
    with towpath.Agent(f"left-{number}", ["shm"]) as left:
        with towpath.Agent(f"right-{number}", ["shm"]) as right:
            yield left, right


def test_metadata_go_to_an_address_and_come_from_one(pair):
    left, right = pair
    right.exchange_metadata(listen="127.0.0.1:0")
    left.exchange_metadata()
    where = right.listening_at
    left.fetch_metadata(right.name, where)
    assert eventually(lambda: left.knows(right.name))
    reported = []
    left.send_metadata(where)
    assert eventually(lambda: right.knows(left.name))
    left.withdraw_metadata(where)
    assert eventually(lambda: not right.knows(left.name))
    assert eventually(lambda: reported.extend(left.metadata_outcomes()) or len(reported) == 3)
    assert [one["what"] for one in reported] == ["fetched", "sent", "invalidated"]
    assert [one["error"] for one in reported] == [None] * 3


def test_what_came_of_it_is_reported(pair):
    left, _ = pair
    left.exchange_metadata(timeout=0.2)
    left.fetch_metadata("nobody", "127.0.0.1:1")
    reported = []
    assert eventually(lambda: reported.extend(left.metadata_outcomes()) or reported)
    assert reported[0]["what"] == "fetched" and reported[0]["agent"] == "nobody"
    assert isinstance(reported[0]["error"], towpath.Error)


def test_a_store_in_trouble_is_reported(pair):
    left, right = pair
    right.exchange_metadata()
    assert right.store_standing == {"pending": 0, "error": None}
    left.exchange_metadata(store="etcd://127.0.0.1:1/nobody/there")
    left.send_metadata()
    assert left.store_standing["pending"] == 1
    assert eventually(lambda: isinstance(left.store_standing["error"], towpath.Unavailable))


def test_misuse_is_an_error(pair):
    left, right = pair
    with pytest.raises(towpath.NotReady):
        left.fetch_metadata(right.name, "127.0.0.1:1")
    with pytest.raises(towpath.InvalidArgument):
        left.exchange_metadata(listen="nowhere at all")
    with pytest.raises(towpath.InvalidArgument):
        left.exchange_metadata(token=b"short")
    left.exchange_metadata()
    assert left.listening_at is None
    with pytest.raises(towpath.AlreadyExists):
        left.exchange_metadata()
    with pytest.raises(towpath.InvalidArgument):
        left.send_metadata()


def test_an_agent_with_an_open_exchange_closes():
    agent = towpath.Agent("closing", ["shm"])
    agent.exchange_metadata(listen="127.0.0.1:0")
    agent.close()
    with pytest.raises(towpath.NotReady):
        agent.listening_at


def test_nixls_users_fetch_and_send_by_port():
    def make(name, listens):
        return nixl_agent(f"{name}-{next(numbers)}", nixl_agent_config(
            backends=["SHM"], enable_listen_thread=listens, listen_port=0))
    listener, caller = make("listener", True), make("caller", False)
    memory = numpy.zeros(4096, numpy.uint8)
    known = listener.register_memory(memory)
    port = int(listener.agent._agent.listening_at.rpartition(":")[2])
    caller.fetch_remote_metadata(listener.name, "127.0.0.1", port)
    assert eventually(lambda: caller.check_remote_metadata(listener.name, known.trim()))
    caller.send_local_metadata("127.0.0.1", port)
    assert eventually(lambda: listener.check_remote_metadata(caller.name))
    caller.invalidate_local_metadata("127.0.0.1", port)
    assert eventually(lambda: not listener.check_remote_metadata(caller.name))
    with pytest.raises(bind.nixlInvalidParamError, match="NIXL_ETCD_ENDPOINTS"):
        caller.send_local_metadata()


@pytest.mark.parametrize("variables, url", [
    ({}, None),
    ({"NIXL_ETCD_ENDPOINTS": ""}, None),
    ({"NIXL_ETCD_ENDPOINTS": "http://localhost:2379"}, "etcd://localhost:2379/nixl/agents"),
    ({"NIXL_ETCD_ENDPOINTS": "http://a:1, http://b:2/", "NIXL_ETCD_NAMESPACE": "/mine/"},
     "etcd://a:1,b:2/mine"),
    ({"NIXL_ETCD_ENDPOINTS": "a:1", "TOWPATH_ETCD_ENDPOINTS": "https://b:1",
      "TOWPATH_ETCD_USER": "me", "TOWPATH_ETCD_PASSWORD_FILE": "/p", "TOWPATH_ETCD_CA_FILE": "/c"},
     "etcds://me@b:1/nixl/agents?password-file=/p&ca=/c"),
    ({"NIXL_ETCD_ENDPOINTS": "http://a:1", "TOWPATH_TOKEN_FILE": "/t"},
     "etcd://a:1/nixl/agents?token-file=/t"),
])
def test_variables_name_a_store(monkeypatch, variables, url):
    for name in ("NIXL_ETCD_ENDPOINTS", "NIXL_ETCD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _metadata.store_url(towpath._towpath.settings()) == url


def test_a_file_says_what_no_variable_does(monkeypatch, tmp_path):
    file = tmp_path / "nixl.cfg"
    monkeypatch.setenv("NIXL_CONFIG_FILE", str(file))
    monkeypatch.setenv("NIXL_ETCD_NAMESPACE", "/mine/")
    file.write_text('NIXL_ETCD_ENDPOINTS = "http://a:1"\nNIXL_ETCD_NAMESPACE = "/theirs/"\n')
    assert _metadata.store_url(towpath._towpath.settings()) == "etcd://a:1/mine"
    file.write_text("\nNIXL_ETCD_ENDPOINTS = http\n")
    with pytest.raises(bind.nixlInvalidParamError, match="nixl.cfg:2 cannot be read"):
        bind.nixlAgent("confused")


def test_addresses_of_both_families(monkeypatch):
    assert _metadata.address("10.0.0.7", 8888) == "tcp://10.0.0.7:8888"
    assert _metadata.address("::1", 8888) == "tcp://[::1]:8888"
    monkeypatch.setenv("NIXL_ETCD_ENDPOINTS", "http://a:1,https://b:2")
    with pytest.raises(towpath.InvalidArgument):
        _metadata.store_url(towpath._towpath.settings())
