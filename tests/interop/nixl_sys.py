#!/usr/bin/env python3
"""Runs the test-suite of the unmodified nixl-sys crate against our libnixl_capi.so.

The crate comes from the crate registry that cargo is set up for. It is built on its stub path, as
Dynamo builds it where no NIXL is installed: its functions look for libnixl_capi.so at run time and
find ours. Where Debian's etcd is installed, the crate's test of it runs too.

  nixl_sys.py --library build/release/bindings/nixl --work build/interop [VERSION ...]

VERSION is `newest` or a number; three are run unless set otherwise. Exits with 0 when all tests
passed but those named under EXCLUDED, 1 when some failed, 3 when nothing could be run, and says why.
"""
import argparse
import contextlib
import sys
from pathlib import Path

from crates import CannotRun, fetch, run_suite, without_nixl

sys.path.append(str(Path(__file__).resolve().parents[1] / "process"))
import etcd

CRATE = "nixl-sys"
VERSIONS = ["newest", "1.3.2", "1.0.1"]  # what Dynamo's crates name: 1.3.2 since its 1.6, 1.0.1 before

# Test -> why it is left out, for all versions or for one.
NEEDS_GPU = "memory views are made for transfers that a GPU starts; it allocates with CUDA"
ANOTHER_ERROR = {"test_make_xfer_req_invalid_indices":
                 "wants BackendError for an index that is none; newer versions want InvalidParam, and get it"}
EXCLUDED = {
    None: {name: NEEDS_GPU for name in ("prep_mem_view_local", "prep_mem_view_remote")},
    "1.3.2": ANOTHER_ERROR,
    "1.0.1": {**ANOTHER_ERROR, "test_etcd_metadata_exchange":
              "fetch_remote_md of this version takes its own lock twice when it succeeds, and waits for itself"},
}


def run(args, wanted):
    """True when the suite of this version passed."""
    version, folder = fetch(CRATE, "*" if wanted == "newest" else f"={wanted}", args.work)
    with etcd.running_etcd() if etcd.BINARY else contextlib.nullcontext() as store:
        print(f"{CRATE} {version}: building on its stub path, then its tests, {'with' if store else 'without'} an etcd",
              flush=True)
        return run_suite(f"{CRATE}-{version}", folder, args.work, env=without_nixl(args, store),
                         left_out={**EXCLUDED[None], **EXCLUDED.get(version, {})})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=lambda path: Path(path).resolve(), required=True,
                        help="the folder of libnixl_capi.so")
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    args = parser.parse_args()
    try:
        return 0 if all([run(args, version) for version in args.versions]) else 1
    except CannotRun as why:
        print(f"interop: not run: {why}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
