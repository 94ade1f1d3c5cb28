#!/usr/bin/env python3
"""Towpath's shmem.h beside Open MPI's OSHMEM: one program in C (oshmem_side.c), compiled for both, on this host, turn by turn.

  oshmem.py --ours build/release --work build/oshmem [--quick | --full] [--rounds N] [--only TEXT] [--pes 2,4,8] [--starts 16,32] [--json FILE]

A round runs the program once with each, in changing order; the ratio (their time / ours) is taken per round. A table shows
medians. With the PEs of --starts only jobs are started and ended. With PEs that share cores, what waits for another PE is as the scheduler pleases. Says so when there is no
`oshcc`, and measures nothing.
"""
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from script_options import common_parser, finish, rounds_of

SIDE = Path(__file__).with_name("oshmem_side.c")
TIMEOUT_S = 300
AT_START = "start and end of a job"


class Library:
    """One of the two, with the program compiled for it."""

    def __init__(self, name, compiler, launcher, work):
        self.name, self._program, self._launcher = name, work / name, launcher
        subprocess.run([compiler, "-O2", "-std=c11", SIDE, "-o", self._program], check=True)

    def run(self, pes, *words):
        environment = {**os.environ, "SHMEM_SYMMETRIC_SIZE": "64M", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run([*self._launcher, "-n", str(pes), self._program, *words], env=environment, text=True,
                              capture_output=True, timeout=TIMEOUT_S)
        if done.returncode != 0:
            raise SystemExit(f"{self.name}, {pes} PEs: {done.stderr}")
        return done.stdout

    def start(self, pes):
        """Nanoseconds by the name of what was measured."""
        begin = time.monotonic()
        self.run(pes, "start")
        return {AT_START: 1e9 * (time.monotonic() - begin)}

    def figures(self, pes):
        lines = self.run(pes).splitlines()
        return self.start(pes) | {name: float(value) for name, value in (line.split("\t") for line in lines)}


def measure(ours, theirs, pes, args, figures):
    """The rows of a table: what both take with `pes` PEs; none where no case of it is wanted."""
    samples = {}
    for turn in range(args.rounds):
        print(f"{pes} PEs, round {turn + 1} of {args.rounds}", file=sys.stderr)
        for library in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
            wanted = {name: value for name, value in figures(library, pes).items() if args.only in f"{pes} PEs: {name}"}
            if not wanted:
                return []
            for name, value in wanted.items():
                samples.setdefault(name, {}).setdefault(library.name, []).append(value)
    median = statistics.median
    return [{"pes": pes, "name": name, "ours_ns": median(both["ours"]), "theirs_ns": median(both["theirs"]),
             "ratio": median(b / a for a, b in zip(both["ours"], both["theirs"]))} for name, both in samples.items()]


def shown(ns):
    for unit, size in ("s", 1e9), ("ms", 1e6), ("us", 1e3):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def show(rows):
    print(f"\n{rows[0]['pes']} PEs{'':36}ours      OSHMEM   ratio")
    for row in rows:
        print(f"{row['name']:36} {shown(row['ours_ns']):>9}  {shown(row['theirs_ns']):>9}  {row['ratio']:6.2f}")


def arguments(words=None):
    parser = common_parser(__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="where Towpath was built")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the programs")
    numbers = {"type": lambda text: [int(word) for word in text.split(",") if word]}
    parser.add_argument("--pes", default="2,4,8", **numbers)
    parser.add_argument("--starts", default="16,32", **numbers)
    args = parser.parse_args(words)
    args.rounds = rounds_of(args, 2, 5, 15)
    if args.quick:
        args.pes, args.starts = args.pes[:1], []
    return args


def main():
    args = arguments()
    if shutil.which("oshcc") is None or shutil.which("oshrun") is None:
        print("oshmem: nothing to measure against: there is no oshcc (apt-get install openmpi-bin libopenmpi-dev)")
        return 0
    args.work.mkdir(parents=True, exist_ok=True)
    ours = Library("ours", args.ours / "bindings/openshmem/towpath-shmcc", [args.ours / "tools/towpath", "run"], args.work)
    # Debian's 4.1.4 crashes at the end of every program unless its memory patcher stays out (ompi issue 11604).
    theirs = Library("theirs", "oshcc", ["oshrun", "--oversubscribe", "--mca", "memory", "^patcher"], args.work)
    rows = []
    for pes, figures in [(pes, Library.figures) for pes in args.pes] + [(pes, Library.start) for pes in args.starts]:
        table = measure(ours, theirs, pes, args, figures)
        if table:
            show(table)
        rows += table
    return finish(args, rows)


if __name__ == "__main__":
    sys.exit(main())
