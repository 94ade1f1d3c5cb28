#!/usr/bin/env python3
"""Fetches a UCX that was built with CUDA, for the tests of the backend `ucx_device`: its wheel from PyPI,
whose libraries go to ~/.cache/towpath/ucx-cuda (XDG_CACHE_HOME is honoured). Nothing is installed.
Does nothing when they are there; remove the folder to have newer ones.
"""
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

WHEEL = "libucx-cu12"


def main():
    into = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/ucx-cuda"
    mark = into / "package"  # written last
    if mark.is_file():
        print(f"{mark.read_text().strip()}: {into}")
        return 0
    with tempfile.TemporaryDirectory() as work:
        venv.create(f"{work}/venv", with_pip=True)
        subprocess.run([f"{work}/venv/bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                        "--retries=1", "--no-deps", "--dest", work, WHEEL], check=True)
        wheel, = Path(work).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            libraries = [name for name in packed.namelist() if name.endswith(".so.0") or ".libs/" in name]
            packed.extractall(into, libraries)
        mark.write_text(wheel.name + "\n")
    print(f"{wheel.name}: {into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
