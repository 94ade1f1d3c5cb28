#!/usr/bin/env python3
"""libnvshmem_host.so.3 beside NVIDIA's: every name of theirs is shown, and a program on their header runs.

Their header and library are looked for in ~/.cache/towpath/nvidia (XDG_CACHE_HOME is honoured), where

    pip install --target ~/.cache/towpath/nvidia --no-deps nvidia-nvshmem-cu12 nvidia-cuda-runtime-cu12 \\
        nvidia-cuda-nvcc-cu12 nvidia-cuda-cccl-cu12

puts them. Without them there is nothing to compare: status 77.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NOTHING_TO_COMPARE = 77


def names(nm, library):
    listing = subprocess.run([nm, "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()} - {"NVSHMEM"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "nm", "compiler", "program", "run"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    nvidia = cache / "towpath" / "nvidia" / "nvidia"
    theirs = nvidia / "nvshmem" / "lib" / "libnvshmem_host.so.3"
    if not theirs.exists():
        print(f"no {theirs}: nothing to compare with (--help says how to get it)")
        return NOTHING_TO_COMPARE
    missing = sorted(names(args.nm, theirs) - names(args.nm, args.library))
    if missing:
        print("\n".join(f"{name} is not there" for name in missing))
        return 1
    library = Path(args.library)
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "program"
        headers = [word for include in sorted(nvidia.glob("*/include")) for word in ("-isystem", str(include))]
        subprocess.run([args.compiler, "-std=c++17", "-Wall", "-Werror", *headers, args.program, str(library),
                        f"-Wl,-rpath,{library.parent}", "-o", str(built)], check=True)
        for pes in (1, 2, 4):
            subprocess.run([args.run, "run", "-n", str(pes), "--heap", "4M", "--", str(built)], check=True, timeout=60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
