"""Two agents over `tcp` in two network namespaces, joined by two pairs of veth that `tc tbf` shapes: what two unequal rails move beside
their sum, what a cut in mid-transfer costs, and how soon a rail that slows is left. Needs root and iproute2.

  bench/rails.py --ours build/release/python [--quick | --full] [--rounds N] [--only TEXT] [--rate MBIT] [--size MIB] [--json FILE]"""
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median

sys.dont_write_bytecode = True
from script_options import common_parser, finish, rounds_of

HERE, THERE = f"tr{os.getpid()}a", f"tr{os.getpid()}b"
WATCHDOG_S = 120


def run(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


class Network:
    """Two namespaces and two pairs: 10.88.0.0/24 and 10.88.1.0/24."""

    def __init__(self):
        for name in HERE, THERE:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for rail in 0, 1:
            run("ip", "link", "add", f"va{rail}", "netns", HERE, "type", "veth", "peer", "name", f"vb{rail}", "netns", THERE)
            for name, device, end in (HERE, "va", 1), (THERE, "vb", 2):
                run("ip", "-n", name, "addr", "add", f"10.88.{rail}.{end}/24", "dev", f"{device}{rail}")
                run("ip", "-n", name, "link", "set", f"{device}{rail}", "up")

    def shape(self, rail, mbit, verb="replace"):
        """To so many megabits a second, both ways; at once go at most what it carries in a millisecond, or two packets."""
        burst = max(4 * 1024, int(mbit * 1e6 / 8 * 0.001))
        for name, device in (HERE, "va"), (THERE, "vb"):
            run("tc", "-n", name, "qdisc", verb, "dev", f"{device}{rail}", "root", "tbf", "rate", f"{mbit}mbit", "burst", str(burst), "latency", "20ms")

    def cut(self, rail):
        """Nothing passes, and neither side is informed."""
        for name, device in (HERE, "va"), (THERE, "vb"):
            run("tc", "-n", name, "qdisc", "replace", "dev", f"{device}{rail}", "root", "tbf", "rate", "8bit", "burst", "1", "latency", "1us")

    def mend(self, rail):
        for name, device in (HERE, "va"), (THERE, "vb"):
            subprocess.run(["tc", "-n", name, "qdisc", "del", "dev", f"{device}{rail}", "root"], capture_output=True)

    def carried(self, rail):
        """Bytes that have crossed, both ways."""
        path = f"/sys/class/net/va{rail}/statistics/"
        read = subprocess.run(["ip", "netns", "exec", HERE, "cat", path + "rx_bytes", path + "tx_bytes"],
                              capture_output=True, text=True, check=True)
        return sum(map(int, read.stdout.split()))

    def close(self):
        for name in HERE, THERE:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Side:
    def __init__(self, namespace, name, size, rails):
        script = Path(__file__).with_name("rails_side.py")
        self._process = subprocess.Popen(["ip", "netns", "exec", namespace, sys.executable, str(script), name, str(size), str(rails)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._answers = queue.Queue()
        self.logs = []
        for reader in self._read_answers, self._read_log:
            threading.Thread(target=reader, daemon=True).start()
        self.known = self.hear()

    def _read_answers(self):
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def _read_log(self):
        for line in self._process.stderr:
            self.logs.append({"log": line.rstrip(), "at": time.monotonic()})

    def ask(self, **what):
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def hear(self):
        said = self._answers.get(timeout=WATCHDOG_S)
        assert said is not None, f"a side has ended; its last words: {self.logs[-3:]}"
        return said

    def call(self, **what):
        self.ask(**what)
        return self.hear()

    def stop(self):
        """It stands still when this returns; its kernel does not."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()


class Pair:
    """`mover` uses the memory of `owner`."""

    def __init__(self, network, size, rails=2):
        self.network, self.size = network, size
        self.owner = Side(HERE, "owner", size, rails)
        self.mover = Side(THERE, "mover", size, rails)
        self.owner.call(what="meet", uses=False, **self.mover.known)
        self.mover.call(what="meet", uses=True, **self.owner.known)
        self._seed = 0

    def begin(self, op):
        """Stamps what is moved; gives the instant at which it began."""
        self._seed += 1
        source, self._target = (self.owner, self.mover) if op == "read" else (self.mover, self.owner)
        self._expected = source.call(what="stamp", seed=self._seed)["checksum"]
        self.mover.ask(what="move", op=op)
        return self.mover.hear()["begun"]

    def end(self):
        """Seconds that it took. What came must be right."""
        done = self.mover.hear()
        assert done["failure"] is None, done["failure"]
        came = self._target.call(what="checksum")["checksum"]
        assert came == self._expected, "wrong bytes"
        return done["end"] - done["begin"]

    def move(self, op):
        self.begin(op)
        return self.end()

    def close(self):
        self.mover.close()
        self.owner.close()


def measure_sum(network, args):
    """Ratio of two rails to the sum of each alone."""
    for slow in 1, 4, 20:
        rates = args.rate, args.rate / slow
        for op in "read", "write":
            case = f"sum: 1:{slow} {op}"
            if args.only not in case:
                continue
            alone = []
            for rail in 0, 1:
                network.shape(rail, rates[rail])
            for rail in 0, 1:  # one rail: the other is down
                other = 1 - rail
                run("ip", "-n", HERE, "link", "set", f"va{other}", "down")
                size = args.size if rail == 0 else max(args.size // slow, 8)
                pair = Pair(network, size << 20, rails=1)
                pair.move(op)
                alone.append(size / median(pair.move(op) for _ in range(args.rounds)))
                pair.close()
                run("ip", "-n", HERE, "link", "set", f"va{other}", "up")
            pair = Pair(network, args.size << 20)
            for _ in range(2):
                pair.move(op)
            both = args.size / median(pair.move(op) for _ in range(args.rounds))
            pair.close()
            print(f"{case}: {both:.0f} MiB/s, alone {alone[0]:.0f} and {alone[1]:.0f}: {both / sum(alone):.3f} of the sum", flush=True)
            yield {"case": case, "mib_per_second": both, "alone_mib_per_second": alone, "ratio": both / sum(alone)}


def in_mid_transfer(network, args, op, share):
    """A pair over two equal rails that has moved `share` of a transfer; what one usually takes, and when this one began."""
    for rail in 0, 1:
        network.shape(rail, args.rate)
    pair = Pair(network, args.size << 20)
    usual = min(pair.move(op) for _ in range(3))
    begun = pair.begin(op)
    time.sleep(max(0, begun + usual * share - time.monotonic()))
    return pair, usual, begun


def measure_cut(network, args):
    """What a cut costs beside the time that the bytes left take over the rail that stays."""
    for op in "read", "write":
        for silent in False, True:
            case = f"cut: {'nothing passes' if silent else 'link down'}, {op}"
            if args.only not in case:
                continue
            extras = []
            for _ in range(args.rounds):
                pair, usual, begun = in_mid_transfer(network, args, op, 1 / 2)
                if silent:
                    network.cut(1)
                else:
                    run("ip", "-n", HERE, "link", "set", "va1", "down")
                cut = time.monotonic()  # last: until then both may have carried bytes
                took = pair.end()
                # Half of it was left, or what was left then, and goes at half the rate.
                extras.append(took - (cut - begun) - 2 * (usual - (cut - begun)))
                pair.close()
                run("ip", "-n", HERE, "link", "set", "va1", "up")
                network.mend(1)
            print(f"{case}: {median(extras) * 1000:.0f} ms more, {max(extras) * 1000:.0f} at most", flush=True)
            yield {"case": case, "more_s": extras}


def measure_slow(network, args):
    """How soon a rail is left that goes on at 1 % of its rate."""
    for op in "read", "write":
        case = f"slow: 1 % of its rate, {op}"
        if args.only not in case:
            continue
        times = []
        for _ in range(args.rounds):
            pair, _, _ = in_mid_transfer(network, args, op, 1 / 3)
            slowed = time.monotonic()  # first: it may be left before `tc` has returned
            network.shape(1, args.rate / 100, "change")
            pair.end()
            left = [said["at"] for said in pair.mover.logs if "rail was left" in said["log"] and said["at"] > slowed]
            times.append(left[0] - slowed if left else float("inf"))  # a miss, which the most below shows
            pair.close()
        print(f"{case}: left after {median(times) * 1000:.0f} ms, {max(times) * 1000:.0f} at most", flush=True)
        yield {"case": case, "left_after_s": [seconds if seconds != float("inf") else None for seconds in times]}


def arguments(words=None):
    parser = common_parser(__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="the folder that holds towpath/")
    parser.add_argument("--rate", type=float, default=2000, help="of the faster rail, megabits a second")
    parser.add_argument("--size", type=int, help="of a transfer, MiB (default: 256, quick: 64)")
    args = parser.parse_args(words)
    args.rounds = rounds_of(args, 2, 5, 15)
    args.size = args.size or (64 if args.quick else 256)
    return args


def main():
    args = arguments()
    os.environ["PYTHONPATH"] = str(args.ours.resolve())
    network = Network()
    try:
        rows = [row for measure in (measure_sum, measure_cut, measure_slow) for row in measure(network, args)]
    finally:
        network.close()
    return finish(args, rows)


if __name__ == "__main__":
    sys.exit(main())
