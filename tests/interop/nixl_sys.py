#!/usr/bin/env python3
"""Runs the test-suite of the unmodified nixl-sys crate against our libnixl_capi.so.

The crate comes from the crate registry that cargo is set up for. It is built on its stub path, as
Dynamo builds it where no NIXL is installed: its functions look for libnixl_capi.so at run time and
find ours. Where Debian's etcd is installed, the crate's test of it runs too.

  nixl_sys.py --library build/release/bindings/nixl --work build/interop [VERSION ...]

VERSION is `newest` or a number; both are run unless set otherwise. Exits with 0 when all tests
passed but those named under EXCLUDED, 1 when some failed, 3 when nothing could be run, and says why.
"""
import argparse
import contextlib
import os
import re
import sys
from pathlib import Path

from crates import CannotRun, cargo, fetch

sys.path.append(str(Path(__file__).resolve().parents[1] / "process"))
import etcd

CRATE = "nixl-sys"
VERSIONS = ["newest", "1.0.1"]  # 1.0.1 is what Dynamo pins

# Test -> why it is left out, for all versions or for one.
NEEDS_GPU = "memory views are made for transfers that a GPU starts; it allocates with CUDA"
EXCLUDED = {
    None: {name: NEEDS_GPU for name in ("prep_mem_view_local", "prep_mem_view_remote")},
    "1.0.1": {"test_make_xfer_req_invalid_indices":
              "wants BackendError for an index that is none; newer versions want InvalidParam, and get it",
              "test_etcd_metadata_exchange":
              "fetch_remote_md of this version takes its own lock twice when it succeeds, and waits for itself"},
}


def environment(args, version, store):
    """What the crate's build and tests see: no NIXL to link, no CUDA, our library on the loader's path."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("NIXL_", "TOWPATH_", "CUDA_"))}
    env.update(NIXL_PREFIX=str(args.work / "no-nixl-here"), NIXL_LOG_LEVEL="FATAL",
               LD_LIBRARY_PATH=str(args.library), CARGO_TARGET_DIR=str(args.work / f"target-{version}"))
    if store:
        env["NIXL_ETCD_ENDPOINTS"] = f"http://{store}"
    return env


def run_suite(args, wanted):
    """True when the suite of this version passed; prints what it came to."""
    version, crate = fetch(CRATE, "*" if wanted == "newest" else f"={wanted}", args.work)
    left_out = {**EXCLUDED[None], **EXCLUDED.get(version, {})}
    skips = [word for name in left_out for word in ("--skip", name)]
    print(f"{CRATE} {version}: building on its stub path, then its tests", flush=True)
    with etcd.running_etcd() if etcd.BINARY else contextlib.nullcontext() as store:
        # Not in the crate's folder: it names a toolchain there that need not be installed.
        done = cargo("test", "--manifest-path", str(crate / "Cargo.toml"), "--no-fail-fast", "--tests", "--lib",
                     "--", "--test-threads=1", *skips, cwd=args.work, env=environment(args, version, store),
                     check=False)
    log = args.work / f"{CRATE}-{version}.log"
    log.write_text(done.stdout)
    counts = re.findall(r"test result: \w+\. (\d+) passed; (\d+) failed", done.stdout)
    passed, failed = (sum(int(pair[i]) for pair in counts) for i in (0, 1))
    good = done.returncode == 0 and passed > 0
    for name in sorted(set(re.findall(r"^    (\w[\w:]*)$", done.stdout, re.M))):
        print(f"  FAILED {name}")
    if not counts:
        print(done.stdout[-3000:])
    print(f"  {passed} passed, {failed} failed, {'with' if store else 'without'} an etcd; all of it: {log}")
    for name, why in left_out.items():
        print(f"  left out: {name}: {why}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=lambda path: Path(path).resolve(), required=True,
                        help="the folder of libnixl_capi.so")
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    args = parser.parse_args()
    try:
        if not (args.library / "libnixl_capi.so").exists():
            raise CannotRun(f"no libnixl_capi.so in {args.library}")
        return 0 if all([run_suite(args, version) for version in args.versions]) else 1
    except CannotRun as why:
        print(f"interop: not run: {why}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
