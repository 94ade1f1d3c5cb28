#!/usr/bin/env python3
"""Towpath beside NIXL itself: its wheel, on this host, in the same run, turn by turn.

  nixl.py --ours build/release/python --work build/nixl [--quick | --full] [--rounds N] [--only TEXT] [--json FILE]

`towpath.nixl` has the interface of NIXL's Python package, so the same lines measure both. Each
library gets two processes: one owns the memory, the other moves the bytes. A round takes one sample
of ours and one of theirs, in changing order, while the other's processes stand still (SIGSTOP); the ratio
(their time / our time) is taken per round.

Bytes are moved with both as they come (backend UCX, nothing set), and with both over TCP (UCX_TLS=tcp).
On stderr stands what is measured just now. After --limit-s seconds no further case begins. The wheel is installed with pip into WORK/venv, with numpy, which it needs, and
without torch, which it needs for tensors only. Exits with 3 when no wheel can be had.
"""
import contextlib
import dataclasses
import itertools
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import zlib
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True
from nixl_side import PAGE, POOL
from script_options import common_parser, rounds_of

SIDE = Path(__file__).with_name("nixl_side.py")
DEBIANS = Path("/usr/bin/python3")
PYTHON = DEBIANS if DEBIANS.exists() else sys.executable  # as bindings/python/CMakeLists.txt chooses
WHEEL = "nixl-cu12"  # of the wheels, the one whose host part asks nothing of the machine
KIB, MIB = 1 << 10, 1 << 20
MANY = ("16384", "65536", "100000", "16 MiB", "64 MiB")  # left out of a quick run
SETTLE_S = 0.05  # for threads that were stopped until now to find their processors
REST_S = 0.5  # asleep, in one sample of what that costs
TIMEOUT_S = 120  # for one answer of a process; what hangs is not waited for


class CannotRun(Exception):
    """Nothing could be measured; the text says why."""


class SideFailed(Exception):
    """One process of a pair failed, died or hung."""


# The pairs ----------------------------------------------------------------------------------------

class Process:
    """One process, asked and answering (nixl_side.py)."""

    def __init__(self, args, library, name, backend, env):
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [args.work / "venv/bin/python", SIDE, library, name, backend, str(there.fileno())],
                pass_fds=[there.fileno()], env=env)
        self._pipe = Connection(here.detach())
        self._who = f"{library} ({name})"

    def ask(self, method, *args):
        try:
            self._pipe.send((method, args))
        except OSError:
            raise self._died() from None

    def answer(self):
        if not self._pipe.poll(TIMEOUT_S):
            raise SideFailed(f"{self._who}: no answer within {TIMEOUT_S} s")
        try:
            good, value = self._pipe.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if not good:
            raise SideFailed(f"{self._who}: {value}")
        return value

    def call(self, method, *args):
        self.ask(method, *args)
        return self.answer()

    def _died(self):
        return SideFailed(f"{self._who}: died with status {self._process.wait(TIMEOUT_S)}")

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()

    def close(self):
        self._pipe.close()
        self._process.wait()


class Pair:
    """The two processes of one library, knowing each other. Opened when first used, and anew after
    a failure."""

    def __init__(self, args, library, backend, env):
        self.library, self.backend = library, backend
        self._start = lambda name: Process(args, library, name, backend, env)
        self.mover = self.owner = None

    def open(self):
        if self.mover:
            return
        self.mover, self.owner = self._start("mover"), self._start("owner")
        for process in (self.mover, self.owner):
            process.answer()
        self.mover.call("connect", *self.owner.call("metadata"))
        self.owner.call("connect", *self.mover.call("metadata"))

    def processes(self):
        return [process for process in (self.mover, self.owner) if process]

    @contextlib.contextmanager
    def alone(self, pairs):
        """The other library stands still: its threads, and NIXL's never rest, would take part in what is measured."""
        others = [process for pair in pairs if pair is not self for process in pair.processes()]
        for process in others:
            process.pause()
        time.sleep(SETTLE_S)
        try:
            yield
        finally:
            for process in others:
                process.go_on()

    def close(self):
        open_ones = self.processes()
        for process in open_ones:  # all first: else one reports that it lost the other
            process.kill()
        for process in open_ones:
            process.close()
        self.mover = self.owner = None


# The cases ----------------------------------------------------------------------------------------

@dataclasses.dataclass
class Case:
    name: str
    unit: str  # "ns", "GB/s" (of nanoseconds per byte) or "B"
    aim: float  # ratio, their time / ours
    begin: Callable
    sample: Callable
    end: Callable


def of_mover(method, name, unit, aim, *args):
    return Case(name, unit, aim, lambda pair: pair.mover.call(method, *args),
                lambda pair, at_least: pair.mover.call("sample", at_least),
                lambda pair: pair.mover.call("end"))


def transfer(name, unit, aim, operation, count, length):
    """A transfer between `count` blocks at random places, which is checked before it is measured."""
    places = range(0, POOL, length)
    local, remote = (random.Random(seed).sample(places, count) for seed in (1, 2))
    case = of_mover("begin_transfer", name, unit, aim, operation, local, remote, length)
    begin = case.begin

    def checked(pair):
        source = pair.mover if operation == "WRITE" else pair.owner
        source.call("stamp", zlib.crc32(f"{name} {operation}".encode()))
        begin(pair)
        if pair.mover.call("checksum", local, length) != pair.owner.call("checksum", remote, length):
            raise SideFailed(f"{pair.library}: {name}: the bytes that arrived are not those that were sent")

    case.begin = checked
    return case


def moving(scattered_aim):
    for length, said in ((8, "8 B"), (4 * KIB, "4 KiB")):
        yield transfer(f"write {said}, posted again and waited for", "ns", 2, "WRITE", 1, length)
    for operation, count in itertools.product(("WRITE", "READ"), (1024, 16384)):
        yield transfer(f"{operation.lower()} {count} x 16 KiB, scattered", "GB/s", scattered_aim,
                       operation, count, 16 * KIB)
    for operation, length in itertools.product(("WRITE", "READ"), (64 * KIB, MIB, 16 * MIB, 64 * MIB)):
        said = f"{length // MIB} MiB" if length >= MIB else f"{length // KIB} KiB"
        yield transfer(f"{operation.lower()} one block of {said}", "GB/s", 1, operation, 1, length)
    yield ping()


def ping():
    def sample(pair, at_least):
        pair.owner.ask("echo")
        value = pair.mover.call("sample_ping", at_least)
        pair.owner.answer()
        return value

    return Case("notification, there and back", "ns", 1, lambda pair: pair.mover.call("begin_ping"),
                sample, lambda pair: pair.mover.call("end"))


def making():
    """Per descriptor, shuffled on both sides, in one region each."""
    kinds = (("begin_describe", "get_xfer_descs"), ("begin_prepare", "prep_xfer_dlist"),
             ("begin_make", "make_prepped_xfer"), ("begin_initialize", "initialize_xfer"))
    for (method, said), count in itertools.product(kinds, (64, 1024, 16384, 65536)):
        local, remote = (random.Random(seed).sample(range(0, POOL, PAGE), count) for seed in (1, 2))
        yield of_mover(method, f"{said} of {count}, each", "ns", 5, local, remote, PAGE)


def registering():
    """Blocks of a pool, a region each; registered and taken back."""
    for regions, (said, shuffled) in itertools.product((64, 1024, 8192, 65536),
                                                       (("in order", False), ("shuffled", True))):
        yield of_mover("begin_register", f"a list of {regions} regions, {said}, each", "ns", 1, regions, shuffled)


def metadata():
    for regions in (1, 1024, 8192, 100_000):
        yield from metadata_of(regions, "regions" if regions > 1 else "region")


def metadata_of(regions, noun):
    def begin_metadata(pair):
        return pair.owner.call("begin_metadata", regions)

    def begin_load(pair):
        pair.mover.call("begin_load", begin_metadata(pair))

    def begin_use(pair):
        pair.mover.call("begin_use", begin_metadata(pair), regions)

    def of_owner(pair, at_least):
        return pair.owner.call("sample", at_least)

    def of_reader(pair, at_least):
        return pair.mover.call("sample", at_least)

    def end(pair):
        pair.mover.call("end")
        pair.owner.call("end")

    def case(said, begin, sample, unit="ns"):
        return Case(f"metadata of {regions} {noun}, {said}", unit, 1, begin, sample, end)

    yield case("bytes", begin_metadata, lambda pair, at_least: pair.owner.call("sample_bytes"), "B")
    yield case("made for the first time", lambda pair: None,
               lambda pair, at_least: pair.owner.call("sample_first_metadata", regions))
    yield case("made again", begin_metadata, of_owner)
    yield case("made after a change", lambda pair: pair.owner.call("begin_change", regions), of_owner)
    yield case("loaded and let go", begin_load, of_reader)
    yield case("loaded, each region used once, let go", begin_use, of_reader)


def resting():
    """Of both processes of a pair that has moved bytes and is asked for nothing: what a second of it costs of a processor."""
    def sample(pair, at_least):
        return sum(side.call("sample_rest", max(at_least, REST_S)) for side in (pair.mover, pair.owner))

    moved = transfer("a second of two agents at rest, both processes", "ns", 1, "WRITE", 1, 64 * KIB)
    return dataclasses.replace(moved, sample=sample)


def tables():
    """(title, our backend, UCX_TLS, cases)."""
    yield "bytes, both as they come", "UCX", None, list(moving(scattered_aim=5))
    yield "bytes, both over TCP", "UCX", "tcp", list(moving(scattered_aim=1))
    asked = [*making(), *registering(), *metadata()]
    yield "lists, transfers and metadata, CPU time of the thread that asks", "UCX", None, asked
    yield "CPU time of all threads", "UCX", None, [resting()]


# Measuring and reporting ------------------------------------------------------------------------------

def spread_of(values):
    """The median, and between which values the middle half lies."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {"median": statistics.median(ordered), "low": ordered[last // 4],
            "high": ordered[last - last // 4]}


def measure(case, pairs, args):
    """A row: what both were, or why one failed."""
    samples, failed = {pair.library: [] for pair in pairs}, {}
    for index in range(-1, args.rounds + 1):  # the first begins, the last ends
        for pair in pairs if index % 2 == 0 else reversed(pairs):
            if pair.library in failed:
                continue
            try:
                with pair.alone(pairs):
                    if index < 0:
                        pair.open()
                        case.begin(pair)
                    elif index < args.rounds:
                        samples[pair.library].append(case.sample(pair, args.sample_s))
                    else:
                        case.end(pair)
            except SideFailed as failure:
                failed[pair.library] = str(failure)
                pair.close()
    row = {"name": case.name, "unit": case.unit, "aim": case.aim}
    for library in failed:
        row.setdefault("failed", []).append(failed[library])
    ours, theirs = samples["towpath"], samples["nixl"]
    for key, library in (("ours", "towpath"), ("reference", "nixl")):
        if library not in failed:
            row[key] = spread_of(samples[library])
    if not failed:
        row["ratio"] = spread_of([b / a for a, b in zip(ours, theirs)])
        row["met"] = row["ratio"]["median"] >= case.aim
    return row


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def reported(spread, unit):
    if spread is None:
        return "failed"
    low, median, high = spread["low"], spread["median"], spread["high"]
    if unit == "GB/s":
        low, median, high = 1 / high, 1 / median, 1 / low
    if unit == "ns":
        scale, unit = next((pair for pair in ((1e6, "ms"), (1e3, "us")) if median >= 10 * pair[0]),
                           (1, "ns"))
        low, median, high = low / scale, median / scale, high / scale
    if low == high:
        return f"{number(median)} {unit}".strip()
    return f"{number(median)} {unit}".rstrip() + f" ({number(low)} .. {number(high)})"


def print_table(title, ours, theirs, rows):
    """As Markdown, so that it can stand in a README; worst first."""
    print(f"\n### {title}\n\nOurs: {ours}. Theirs: {theirs}.\n")
    print("| case | ours | theirs | ratio | aim | |\n|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: row["ratio"]["median"] / row["aim"] if "ratio" in row else 0):
        verdict = {True: "met", False: "MISSED", None: "-"}[row.get("met")]
        print(f"| {row['name']} | {reported(row.get('ours'), row['unit'])} "
              f"| {reported(row.get('reference'), row['unit'])} | {reported(row['ratio'], '') if 'ratio' in row else '-'} "
              f"| {row['aim']} | {verdict} |")
    for row in rows:
        for reason in row.get("failed", []):
            print(f"\n{row['name']}: {reason}")
    sys.stdout.flush()


def environment(args, tls):
    """What both libraries see: nothing that a shell says to one of them, but what the table says."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("NIXL_", "TOWPATH_", "UCX_"))}
    env |= {"NIXL_LOG_LEVEL": "ERROR", "UCX_LOG_LEVEL": "fatal", "PYTHONPATH": str(args.ours.resolve()),
            "PYTHONDONTWRITEBYTECODE": "1"}
    return env | ({"UCX_TLS": tls} if tls else {})


def run_table(args, version, table):
    title, backend, tls, cases = table
    cases = [case for case in cases if args.only in f"{title}: {case.name}"
             and not (args.quick and any(many in case.name for many in MANY))]
    if not cases:
        return None
    env = environment(args, tls)
    pairs = [Pair(args, "towpath", backend, env), Pair(args, "nixl", "UCX", env)]
    rows = []
    try:
        for index, case in enumerate(cases):
            if time.monotonic() > args.deadline:
                print(f"\n{len(cases) - index} of {len(cases)} cases were not begun: {args.limit_s:.0f} s "
                      f"were over (--limit-s): {title}")
                break
            print(f"  {time.monotonic() - args.began:4.0f} s  {title}: {case.name}", file=sys.stderr)
            rows.append(measure(case, pairs, args))
    finally:
        for pair in pairs:
            pair.close()
    said = f", UCX_TLS={tls}" if tls else ""
    ours, theirs = f"towpath.nixl, backend {backend}{said}", f"{WHEEL} {version}, backend UCX{said}"
    print_table(title, ours, theirs, rows)
    return {"title": title, "ours": ours, "reference": theirs, "cases": rows}


def install(args):
    """The wheel's version. It is fetched once; to have a newer one, remove WORK/venv."""
    venv = args.work / "venv"
    python = str(venv / "bin/python")
    ask = [python, "-c", f"from importlib.metadata import version; print(version('{WHEEL}'))"]
    try:
        if not venv.exists():
            subprocess.run([str(args.python), "-m", "venv", str(venv)], check=True)
        if subprocess.run(ask, capture_output=True).returncode != 0:
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1"]
            subprocess.run([*pip, "numpy"], check=True)
            subprocess.run([*pip, "--no-deps", WHEEL], check=True)
        return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as failure:
        shutil.rmtree(venv, ignore_errors=True)
        raise CannotRun(f"no wheel of NIXL: {failure} (hint: a package index that pip can reach and "
                        f"that has {WHEEL} for this Python)") from None


def arguments(words=None):
    parser = common_parser(__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="the folder that holds towpath/")
    parser.add_argument("--work", type=Path, required=True, help="where the wheel is installed")
    parser.add_argument("--python", default=PYTHON, help="the interpreter that ours was built for")
    parser.add_argument("--limit-s", type=float, default=400, metavar="SECONDS", help="(default: %(default)s)")
    parser.add_argument("--sample-s", type=float, default=0.01, help="seconds of one sample, at least")
    args = parser.parse_args(words)
    args.rounds = rounds_of(args, 3, 7, 21)
    args.began = time.monotonic()
    args.deadline = args.began + args.limit_s
    return args


def main():
    args = arguments()
    try:
        version = install(args)
    except CannotRun as reason:
        print(f"nixl.py: {reason}", file=sys.stderr)
        return 3
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}, {args.rounds} rounds. Ratio: their time / our time.")
    done = [table for table in (run_table(args, version, table) for table in tables()) if table]
    if not done:
        print(f"nixl.py: no case has {args.only!r} in its name", file=sys.stderr)
        return 1
    if args.json:
        args.json.write_text(json.dumps({"command": sys.argv, "load": load, "tables": done}, indent=1) + "\n")
    rows = [row for table in done for row in table["cases"]]
    print(f"\n{sum(bool(row.get('met')) for row in rows)} of {len(rows)} aims met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
