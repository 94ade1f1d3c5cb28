"""What NIXL's users get by default: two agents over UCX."""
import time

import numpy
import pytest

import towpath
from towpath.nixl import nixl_agent


def why_not():
    """What this build or machine lacks, with the remedy."""
    try:
        with towpath.Agent("probe", ["ucx"]):
            return ""
    except towpath.Unsupported as refusal:
        return str(refusal)


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def test_agents_with_the_default_configuration_move_bytes_and_tell():
    mine, theirs = nixl_agent("ucx-mine"), nixl_agent("ucx-theirs")
    assert list(mine.backends) == ["UCX"]
    here, there = numpy.zeros(1 << 16, numpy.uint8), numpy.full(1 << 16, 9, numpy.uint8)
    local, remote = mine.register_memory(here).trim(), theirs.register_memory(there).trim()
    theirs.add_remote_agent(mine.get_agent_metadata())
    peer = mine.add_remote_agent(theirs.get_agent_metadata())
    pull = mine.initialize_xfer("READ", local, remote, peer, b"got")
    state, deadline = mine.transfer(pull), time.monotonic() + 60
    while state == "PROC" and time.monotonic() < deadline:
        state = mine.check_xfer_state(pull)
    assert state == "DONE" and (here == 9).all() and mine.query_xfer_backend(pull) == "UCX"
    while not theirs.check_remote_xfer_done("ucx-mine", b"got"):
        assert time.monotonic() < deadline
