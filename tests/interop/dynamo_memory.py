#!/usr/bin/env python3
"""Runs the test-suite of Dynamo's unmodified crate dynamo-memory, those of its tests that need NIXL among them, against
our libnixl_capi.so, without a GPU.

  dynamo_memory.py --library build/release/bindings/nixl --work build/interop

The crate comes from the crate registry that cargo is set up for. Exits with 0 when all passed, 1 when some failed, 3
when nothing could be run, and says why.
"""
import argparse
import sys
from pathlib import Path

from crates import CannotRun, fetch, run_suite, without_nixl

CRATE = "dynamo-memory"
# Its tests that need a GPU are of another feature, testing-cuda.
OPTIONS = ("--features", "testing-nixl")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=lambda path: Path(path).resolve(), required=True,
                        help="the folder of libnixl_capi.so")
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    args = parser.parse_args()
    try:
        version, folder = fetch(CRATE, "*", args.work)
        print(f"{CRATE} {version}: building, then its tests", flush=True)
        return 0 if run_suite(f"{CRATE}-{version}", folder, args.work, env=without_nixl(args), options=OPTIONS) else 1
    except CannotRun as why:
        print(f"interop: not run: {why}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
