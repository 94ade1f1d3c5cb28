#!/usr/bin/env python3
"""Runs the test suites of Dynamo's unmodified crates dynamo-memory and kvbm-physical, those of their tests that need
NIXL among them, against our libnixl_capi.so, without a GPU.

  dynamo_crates.py --library build/release/bindings/nixl --work build/interop

The crates come from the crate registry that cargo is set up for. Exits with 0 when all passed, 1 when some failed, 3
when nothing could be run, and says why.
"""
import argparse
import sys
from pathlib import Path

from crates import CannotRun, fetch, run_suite, without_nixl

# By crate: cargo's options for its tests, and whether each has a process of its own.
CRATES = {
    "dynamo-memory": (("--features", "testing-nixl"), False),  # those that need a GPU are of another feature, testing-cuda
    "kvbm-physical": (("--features", "testing-kvbm"), True),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=lambda path: Path(path).resolve(), required=True,
                        help="the folder of libnixl_capi.so")
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    args = parser.parse_args()
    passed = True
    try:
        for crate, (options, apart) in CRATES.items():
            version, folder = fetch(crate, "*", args.work)
            print(f"{crate} {version}: building, then its tests", flush=True)
            passed &= run_suite(f"{crate}-{version}", folder, args.work, env=without_nixl(args), options=options, apart=apart)
    except CannotRun as why:
        print(f"interop: not run: {why}", file=sys.stderr)
        return 3
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
