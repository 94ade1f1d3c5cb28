#!/usr/bin/env python3
"""Runs for long what a suite runs briefly, over the programs of build/release.

    conformance    nothing lands once a transfer has ended or memory was released, whatever the peer, another process, is in
    disk tier      killed with many writes under way, on files and on a drive; what was there for good is there
    simulation     a thousand agents that meet, talk, move bytes, leave and come back
    bench/peers    299 processes join one agent
    soak/serve     engines and their `towpath serve` are killed and stopped; every loaded byte is verified

The first runs to its end, or until it is interrupted, and prints how often each cell of its table came: a way of ending x extent x
peer, for each pair of memories over each backend. A round mostly waits: several jobs share a processor. The others stop at the first
failure.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

PROGRAMS = "build/release"
BACKENDS = ["shm", "tcp", "tcp_tls", "ucx"]
KILLS = 10  # of a disk tier in each way, in one run of its test
CELLS = 126  # of late_bytes_test.cc
PART = 2 * CELLS  # rounds of one process
LATE_BYTES = "Backend/LateBytesConformance."


def run(*words, **environment):
    start = time.monotonic()
    status = subprocess.run(words, env={**os.environ, **environment}).returncode
    print(f"{time.monotonic() - start:7.1f} s  {' '.join(words)}", flush=True)
    if status != 0:
        sys.exit(f"{words[0]}: status {status}")


class LateBytes:
    """The rounds of all pairings, some at a time."""

    def __init__(self):
        self.cells = collections.defaultdict(lambda: [0] * CELLS)
        self.ends = collections.defaultdict(collections.Counter)
        self.failures = []

    @staticmethod
    def pairings(program):
        listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={LATE_BYTES}*"], capture_output=True, text=True, check=True)
        return [line.split("#")[0].strip() for line in listed.stdout.splitlines() if line.startswith("  ")]

    def run_part(self, program, case, first, rounds):
        words = [program, "--gtest_brief=1", f"--gtest_filter={LATE_BYTES}{case}", f"--soak-seed={first}", f"--soak-rounds={rounds}"]
        done = subprocess.run(words, capture_output=True, text=True)
        for label, counts in re.findall(r"^cells of (\S+): ([\d ]+)$", done.stdout, re.MULTILINE):
            self.cells[label] = [a + int(b) for a, b in zip(self.cells[label], counts.split())]
        for label, ends in re.findall(r"^ends of (\S+): (.*)$", done.stdout, re.MULTILINE):
            for count, outcome in re.findall(r"(\d+) ([^,]+)", ends):
                self.ends[label][outcome] += int(count)
        if done.returncode != 0:
            self.failures.append(" ".join(words))
            print(f"FAILED ({done.returncode}): {' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}", flush=True)

    def run(self, backends, seed, rounds, jobs):
        programs = [f"{PROGRAMS}/tests/conformance/conformance_{name}" for name in backends]
        cases = [(program, case) for program in programs for case in self.pairings(program)]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for first in range(seed, seed + rounds, PART):
                for program, case in cases:
                    pool.submit(self.run_part, program, case, first, min(PART, seed + rounds - first))
            try:
                pool.shutdown(wait=True)
            except KeyboardInterrupt:
                pool.shutdown(wait=True, cancel_futures=True)
        self.report()

    def report(self):
        for label, cells in sorted(self.cells.items()):
            ends = ", ".join(f"{count:,} {outcome}" for outcome, count in self.ends[label].most_common())
            print(f"{label:36} {sum(cells):7,} rounds, {min(cells):4} to {max(cells):4} of each cell: {ends}", flush=True)
        if self.failures:
            sys.exit(f"{len(self.failures)} parts failed: " + "; ".join(self.failures))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=2 * CELLS, help="over each pair of memories of each backend; 126 are one of each cell")
    options.add_argument("--seed", type=int, default=1, help="of the first round")
    options.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="processes with rounds at a time")
    options.add_argument("--kills", type=int, default=1000, help="of a disk tier, in each of three ways")
    options.add_argument("--transfers", type=int, default=1_000_000, help="of the thousand agents, for each of two seeds")
    options.add_argument("--serving", type=int, default=300, help="seconds of towpath serve")
    options.add_argument("--backend", action="append", choices=BACKENDS, help="only this one; may be repeated")
    options.add_argument("--only", choices=["conformance"], help="leave the others out")
    args = options.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    LateBytes().run(args.backend or BACKENDS, args.seed, args.rounds, args.jobs)
    if args.only:
        return
    run(f"{PROGRAMS}/towpath/kv/kv_blocks_test", "--gtest_brief=1", "--gtest_filter=DiskTierCrashTest.*",
        f"--gtest_repeat={max(1, args.kills // KILLS)}", "--gtest_fail_fast")
    run(f"{PROGRAMS}/tests/conformance/simulation_test", "--gtest_filter=CrowdTest.*",
        TOWPATH_CROWD_TRANSFERS=str(args.transfers))
    run(f"{PROGRAMS}/bench/peers", "--quick")
    run("/usr/bin/python3", "tests/soak/serve.py", "--seconds", str(args.serving), "--seed", str(args.seed))


if __name__ == "__main__":
    main()
