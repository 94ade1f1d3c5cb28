"""Two agents over two pairs of veth: both carry bytes, and one that is cut in mid-transfer costs no byte. Needs root and iproute2."""
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "bench"))  # last: its nixl.py is no package
rails = load("rails", ROOT / "bench" / "rails.py")
reason = load("namespaces", ROOT / "tests" / "process" / "namespaces.py").why_not()
if not reason and shutil.which("tc", path=f"{os.environ['PATH']}:/sbin:/usr/sbin") is None:
    reason = "there is no `tc` (apt-get install iproute2)"
pytestmark = pytest.mark.skipif(bool(reason), reason=str(reason))

SIZE = 48 << 20
MBIT = 400


@pytest.fixture
def network():
    made = rails.Network()
    try:
        for rail in 0, 1:
            made.shape(rail, MBIT)
        yield made
    finally:
        made.close()


@pytest.fixture
def pair(network):
    made = rails.Pair(network, SIZE)
    yield made
    made.close()


@pytest.mark.parametrize("op", ["read", "write"])
def test_both_carry(network, pair, op):
    """How much of a transfer each takes is bench/rails.py's to say: where many processes share the processors, a rail that had none for a
    while is a slow one, and gets less."""
    moves = []
    while len(moves) < 10:
        before = [network.carried(rail) for rail in (0, 1)]
        pair.move(op)
        moves.append([network.carried(rail) - was for rail, was in zip((0, 1), before)])
        assert sum(moves[-1]) > SIZE
        if min(moves[-1]) > SIZE / 20:
            return
    pytest.fail(f"bytes by rail, in each move: {moves}")


def stop_in_the_midst(network, pair, op, rail):
    """The mover stands still, with some of a transfer behind it, over this rail too, and some before it. What has crossed is examined only
    while it does, so that the transfer cannot end meanwhile, however late this process has its turn."""
    for _ in range(30):
        before = [network.carried(each) for each in (0, 1)]
        pair.begin(op)
        end = time.monotonic() + 60
        moved = [0, 0]
        while sum(moved) < SIZE * 3 / 4:
            assert time.monotonic() < end
            time.sleep(0.005)
            pair.mover.stop()
            moved = [network.carried(each) - was for each, was in zip((0, 1), before)]
            if moved[rail] > SIZE / 16 and sum(moved) < SIZE * 3 / 4:
                return
            pair.mover.go_on()
        pair.end()
    pytest.fail(f"30 transfers were over before they could be stopped; bytes by rail, of the last: {moved}")


@pytest.mark.parametrize("rail", [0, 1])
@pytest.mark.parametrize("how", ["link down", "nothing passes"])
@pytest.mark.parametrize("op", ["read", "write"])
def test_cut_in_mid_transfer_loses_nothing(network, pair, op, how, rail):
    pair.move(op)
    stop_in_the_midst(network, pair, op, rail)
    if how == "link down":
        subprocess.run(["ip", "-n", rails.HERE, "link", "set", f"va{rail}", "down"], check=True)
    else:
        network.cut(rail)
    pair.mover.go_on()
    pair.end()  # every byte is compared
    assert any("rail was left" in said["log"] for said in pair.mover.logs), "it was not in the midst"
    pair.move(op)
