"""What NIXL's users get by default: two agents over UCX."""
import time

import numpy
import pytest

import towpath
from towpath.nixl import _bindings as nixlBind
from towpath.nixl import nixl_agent, nixl_agent_config


def why_not():
    """What this build or machine lacks, with the hint."""
    try:
        with towpath.Agent("probe", ["ucx"]):
            return ""
    except towpath.Unsupported as refusal:
        return str(refusal)


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def way_of(handle, agent):
    """What moves the bytes, in the library's own word."""
    return agent.agent.transfer_of(int(handle)).backend


@pytest.mark.parametrize("transports, way", [("", "shm"), ("tcp", "tcp")])
def test_agents_with_the_default_configuration_move_bytes_and_report(monkeypatch, transports, way):
    if transports:
        monkeypatch.setenv("UCX_TLS", transports)
    mine, theirs = nixl_agent(f"mine-{way}"), nixl_agent(f"theirs-{way}")
    assert list(mine.backends) == ["UCX"] and mine.get_backend_mem_types("UCX") == ["DRAM_SEG", "VRAM_SEG"]
    assert "heartbeat_ms" in mine.get_backend_params("UCX")
    here, there = numpy.zeros(1 << 16, numpy.uint8), numpy.full(1 << 16, 9, numpy.uint8)
    local = mine.register_memory(here, backends=["UCX"])
    remote = theirs.register_memory(there, backends=["UCX"])
    theirs.add_remote_agent(mine.get_agent_metadata())
    peer = mine.add_remote_agent(theirs.get_agent_metadata())
    pull = mine.initialize_xfer("READ", local.trim(), remote.trim(), peer, b"got", ["UCX"])
    assert way_of(pull, mine) == way
    state, deadline = mine.transfer(pull), time.monotonic() + 60
    while state == "PROC" and time.monotonic() < deadline:
        state = mine.check_xfer_state(pull)
    assert state == "DONE" and (here == 9).all() and mine.query_xfer_backend(pull) == "UCX"
    while not theirs.check_remote_xfer_done(mine.name, b"got"):
        assert time.monotonic() < deadline
    pull.release()
    mine.deregister_memory(local, backends=["UCX"])


def test_shm_may_be_created_besides_and_is_reported_when_it_was_asked_for():
    agent = nixl_agent("both")
    agent.create_backend("SHM")
    data = numpy.zeros(4096, numpy.uint8)
    blocks = agent.get_xfer_descs([(data.ctypes.data, 64, 0)], "DRAM")
    others = agent.get_xfer_descs([(data.ctypes.data + 64, 64, 0)], "DRAM")
    agent.register_memory(data)
    for asked, reported in (["UCX"], "UCX"), (["SHM"], "SHM"), ([], "SHM"):
        copy = agent.initialize_xfer("WRITE", blocks, others, "both", b"", asked)
        assert agent.query_xfer_backend(copy) == reported and way_of(copy, agent) == "shm"


def test_parameters_of_nixls_plugin_are_no_mistakes():
    agent = nixl_agent("params", nixl_agent_config(backends=[]))
    agent.create_backend("UCX", {"num_workers": "4"})
    with pytest.raises(nixlBind.nixlInvalidParamError):
        nixl_agent("wrong", nixl_agent_config(backends=[])).create_backend("UCX", {"speed": "high"})
