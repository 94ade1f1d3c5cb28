#!/usr/bin/env python3
"""Runs for long what a suite runs briefly, over the programs of build/release; stops at the first failure.

    conformance    memory is released, and reads end, while a peer in another process runs, stops or dies; by backend
    disk tier      killed with many writes under way, on files and on a drive; what was there for good is there
    simulation     a thousand agents that meet, talk, move bytes, leave and come back
    bench/peers    299 processes join one agent
    soak/serve     engines and their `towpath serve` are killed and stopped; every loaded byte is verified
"""
import argparse
import os
import subprocess
import sys
import time

PROGRAMS = "build/release"
BACKENDS = ["shm", "tcp", "tcp_tls", "ucx"]
KILLS = 10  # of a disk tier in each way, in one run of its test
PART = 100  # rounds: a peer's process ends by itself after some minutes


def run(*words, **environment):
    start = time.monotonic()
    status = subprocess.run(words, env={**os.environ, **environment}).returncode
    print(f"{time.monotonic() - start:7.1f} s  {' '.join(words)}", flush=True)
    if status != 0:
        sys.exit(f"{words[0]}: status {status}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=200, help="of each case, over each backend")
    options.add_argument("--seed", type=int, default=1, help="of the first round")
    options.add_argument("--kills", type=int, default=1000, help="of a disk tier, in each of three ways")
    options.add_argument("--transfers", type=int, default=1_000_000, help="of the thousand agents, for each of two seeds")
    options.add_argument("--serving", type=int, default=300, help="seconds of towpath serve")
    options.add_argument("--backend", action="append", choices=BACKENDS, help="only this one; may be repeated")
    args = options.parse_args()
    for first in range(args.seed, args.seed + args.rounds, PART):
        rounds = min(PART, args.seed + args.rounds - first)
        for name in args.backend or BACKENDS:
            run(f"{PROGRAMS}/tests/conformance/conformance_{name}", "--gtest_brief=1",
                "--gtest_filter=*ReleaseConformance*", f"--soak-seed={first}", f"--soak-rounds={rounds}")
    run(f"{PROGRAMS}/towpath/kv/kv_blocks_test", "--gtest_brief=1", "--gtest_filter=DiskTierCrashTest.*",
        f"--gtest_repeat={max(1, args.kills // KILLS)}", "--gtest_fail_fast")
    run(f"{PROGRAMS}/tests/conformance/simulation_test", "--gtest_filter=CrowdTest.*",
        TOWPATH_CROWD_TRANSFERS=str(args.transfers))
    run(f"{PROGRAMS}/bench/peers", "--quick")
    run("/usr/bin/python3", "tests/soak/serve.py", "--seconds", str(args.serving), "--seed", str(args.seed))


if __name__ == "__main__":
    main()
