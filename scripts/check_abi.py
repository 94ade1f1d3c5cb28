#!/usr/bin/env python3
"""Compares the libraries with an interface in C, libtowpath_c and libnixl_capi, with what the release before promised
(tests/abi): a function that is gone, or whose types changed, fails. `./dev package` calls it.

    check_abi.py [--record]        --record: what is built becomes the promise; at a release

Takes abidiff (Debian: abigail-tools). Libraries and their types come from a build of their own, in build/abi, with
what a debugger needs to know of the interface.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/abi"  # as deep as the presets: ccache gives what they compiled
PROMISED = ROOT / "tests/abi"
# By target: its header, whose types alone are its interface.
LIBRARIES = {"towpath_c": "bindings/c/towpath.h", "nixl_capi": "bindings/nixl/nixl_capi.h"}
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DTOWPATH_UNITY=ON", "-DTOWPATH_WERROR=ON",
           "-DTOWPATH_ABI=ON", "-DBUILD_TESTING=OFF", "-DTOWPATH_BENCH=OFF", "-DTOWPATH_TOOLS=OFF", "-DTOWPATH_PYTHON=OFF"]
INTERFACE_ALONE = ["--drop-private-types", "--exported-interfaces-only", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path",
                   "--no-elf-needed"]


def run(command, **options):
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    return done.returncode, done.stdout


def must(command):
    status, said = run(command)
    if status != 0:
        sys.exit(f"abi: status {status}: {' '.join(map(str, command))}\n{said[-4000:]}")


def describe(target, header):
    """Writes what the library offers, in abidw's words; answers the file."""
    written, public = WORK / f"{target}.abi", WORK / "public" / target
    public.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / header, public)  # there are private ones beside it
    must(["abidw", "--headers-dir", str(public), *INTERFACE_ALONE, "--out-file", str(written),
          str((WORK / header).parent / f"lib{target}.so")])
    return written


def compare(target, built):
    """What of the promise is broken, as abidiff reports it; new functions, and new fields (growth.ini), are no break."""
    promised = PROMISED / f"{target}.abi"
    if not promised.is_file():
        return f"no promise: {promised.relative_to(ROOT)} is missing (hint: scripts/check_abi.py --record)"
    status, said = run(["abidiff", "--no-added-syms", "--suppressions", str(PROMISED / "growth.ini"), str(promised), str(built)])
    return f"{said}(hint: before the first release with it, scripts/check_abi.py --record)\n" if status != 0 else ""


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--record", action="store_true", help="what is built becomes the promise")
    args = arguments.parse_args()
    if not shutil.which("abidiff"):
        sys.exit("abi: abidiff is missing: apt-get install abigail-tools")
    must(["cmake", "-S", ".", "-B", str(WORK), "-G", "Ninja", *OPTIONS])
    must(["cmake", "--build", str(WORK), "-j", str(len(os.sched_getaffinity(0))), "--target", *LIBRARIES])
    broken = 0
    for target, header in LIBRARIES.items():
        built = describe(target, header)
        if args.record:
            PROMISED.mkdir(exist_ok=True)
            shutil.copy(built, PROMISED)
            continue
        said = compare(target, built)
        print(f"abi: lib{target}: {'the promise is broken' if said else 'as promised'}\n{said}".rstrip(), flush=True)
        broken += bool(said)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
