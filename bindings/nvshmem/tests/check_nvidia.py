#!/usr/bin/env python3
"""libnvshmem_host.so.3 beside NVIDIA's: every name of theirs is shown, and a program on their header runs.

Their header and library are looked for in ~/.cache/towpath/nvidia (XDG_CACHE_HOME is honoured), where --fetch puts
them, once, from the package index that pip is set up for: 520 MB. `./dev interop` does. Without them there is nothing
to compare: status 77.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

NOTHING_TO_COMPARE = 77
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "towpath" / "nvidia"
NVIDIA = HOME / "nvidia"
THEIRS = NVIDIA / "nvshmem" / "lib" / "libnvshmem_host.so.3"
PACKAGES = ["nvidia-nvshmem-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-cccl-cu12"]


def fetch():
    if THEIRS.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--target", str(HOME), *PACKAGES], check=True)


def names(nm, library):
    listing = subprocess.run([nm, "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()} - {"NVSHMEM"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "nm", "compiler", "program", "run"):
        parser.add_argument(f"--{name}", required=True)
    if sys.argv[1:] == ["--fetch"]:
        return fetch()
    args = parser.parse_args()
    if not THEIRS.exists():
        print(f"no {THEIRS}: nothing to compare with (./dev interop fetches it)")
        return NOTHING_TO_COMPARE
    missing = sorted(names(args.nm, THEIRS) - names(args.nm, args.library))
    if missing:
        print("\n".join(f"{name} is not there" for name in missing))
        return 1
    library = Path(args.library)
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "program"
        headers = [word for include in sorted(NVIDIA.glob("*/include")) for word in ("-isystem", str(include))]
        subprocess.run([args.compiler, "-std=c++17", "-Wall", "-Werror", *headers, args.program, str(library),
                        f"-Wl,-rpath,{library.parent}", "-o", str(built)], check=True)
        for pes in (1, 2, 4):
            subprocess.run([args.run, "run", "-n", str(pes), "--heap", "4M", "--", str(built)], check=True, timeout=60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
