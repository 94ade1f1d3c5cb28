#!/usr/bin/env python3
"""Runs for long what a suite runs briefly, over the programs of build/release.

    conformance    nothing lands once a transfer has ended or memory was released, whatever the peer, another process, is in
    disk tier      killed with many writes under way, on files and on a drive; what was there for good is there
    block store    killed, and cut off from power, over disks that fail; held against a model, by seed
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
SUITES = {backend: f"tests/conformance/conformance_{backend}" for backend in BACKENDS}
CRASHES, CROWD, PEERS = "towpath/kv/kv_blocks_test", "tests/conformance/simulation_test", "bench/peers"
TARGETS = [*SUITES.values(), CRASHES, CROWD, PEERS, "tools/towpath", "towpath_python_package"]  # that ./dev builds before
KILLS = 100  # of a disk tier in each way, in ten runs of its test
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
        self.failed, self.not_run = [], set()

    @staticmethod
    def pairings(program):
        listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={LATE_BYTES}*"], capture_output=True, text=True, check=True)
        return [line.split("#")[0].strip() for line in listed.stdout.splitlines() if line.startswith("  ")]

    @staticmethod
    def run_part(words):
        """In a group of its own: an interrupt is for this program, which lets those that run end."""
        return subprocess.run(words, capture_output=True, text=True, errors="replace", start_new_session=True)

    def add(self, words, done):
        cells = re.findall(r"^cells of (\S+): ([\d ]+)$", done.stdout, re.MULTILINE)
        for label, counts in cells:
            self.cells[label] = [a + int(b) for a, b in zip(self.cells[label], counts.split(), strict=True)]
        for label, ends in re.findall(r"^ends of (\S+): (.*)$", done.stdout, re.MULTILINE):
            for count, outcome in re.findall(r"(\d+) ([^,]+)", ends):
                self.ends[label][outcome] += int(count)
        if done.returncode != 0:
            self.failed.append(" ".join(words))
            print(f"FAILED ({done.returncode}): {' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}", flush=True)
        elif not cells:
            self.not_run.add(words[2].split(LATE_BYTES)[1])

    def run(self, backends, seed, rounds, jobs):
        programs = [f"{PROGRAMS}/{SUITES[name]}" for name in backends]
        cases = [(program, case) for program in programs for case in self.pairings(program)]
        parts = [[program, "--gtest_brief=1", f"--gtest_filter={LATE_BYTES}{case}", f"--soak-seed={first}",
                  f"--soak-rounds={min(PART, seed + rounds - first)}"]
                 for first in range(seed, seed + rounds, PART) for program, case in cases]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            under_way = {pool.submit(self.run_part, words): words for words in parts}
            try:
                for part in concurrent.futures.as_completed(under_way):
                    self.add(under_way[part], part.result())
            except KeyboardInterrupt:
                pool.shutdown(wait=True, cancel_futures=True)
                self.report()
                sys.exit(130)
        self.report()

    def report(self):
        for label, cells in sorted(self.cells.items()):
            ends = ", ".join(f"{count:,} {outcome}" for outcome, count in self.ends[label].most_common())
            print(f"{label:36} {sum(cells):7,} rounds, {min(cells):4} to {max(cells):4} of each cell: {ends}", flush=True)
        for case in sorted(self.not_run):
            print(f"not run: {case}: this machine lacks something", flush=True)
        if self.failed:
            sys.exit(f"{len(self.failed)} parts failed: " + "; ".join(self.failed))
        if not self.cells:
            sys.exit("no rounds were run")


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
    for _ in range(0, args.kills, KILLS):
        run(f"{PROGRAMS}/{CRASHES}", "--gtest_brief=1", "--gtest_filter=DiskTierCrashTest.*", "--gtest_repeat=10")
    run(f"{PROGRAMS}/{CRASHES}", "--gtest_brief=1", "--gtest_filter=BlockStoreModelTest.*", "--gtest_repeat=100")
    run(f"{PROGRAMS}/{CROWD}", "--gtest_filter=CrowdTest.*",
        TOWPATH_CROWD_TRANSFERS=str(args.transfers))
    run(f"{PROGRAMS}/{PEERS}", "--quick")
    run("/usr/bin/python3", "tests/soak/serve.py", "--seconds", str(args.serving), "--seed", str(args.seed))


if __name__ == "__main__":
    main()
