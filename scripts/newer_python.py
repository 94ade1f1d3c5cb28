"""An interpreter that this machine has no package of: from a root of a newer Debian, run here by that root's loader with
that root's libraries. What is compiled for it is compiled by this machine's compiler, against its headers alone. Used
by scripts/package.py. Takes root, and a mirror of Debian."""
import os
import subprocess
import sys
from pathlib import Path

import debian_roots

SUITES = {"3.14": "forky"}  # which Debian has which
PREFIX = "newer-"


def new_environment(python, folder):
    """The commands that make a virtual environment with pip, of such an interpreter or another. The root's own pip is
    of the root's file system, so such a one gets a pip from the package index."""
    if not Path(python).name.startswith(PREFIX):
        return [[python, "-m", "venv", folder]]
    return [[python, "-m", "venv", "--without-pip", folder],
            [sys.executable, "-m", "pip", "--python", Path(folder) / "bin/python", "install", "--quiet", "pip"]]


def python(version):
    """The program, which a virtual environment may be made of; Missing when there is none."""
    if version not in SUITES:
        raise debian_roots.Missing(f"no Debian is known to have Python {version}")
    root = debian_roots.kept(f"python{version}", SUITES[version], [f"python{version}-dev", f"python{version}-venv"],
                             may_lag=True)
    triplet = subprocess.run(["gcc", "-print-multiarch"], check=True, capture_output=True, text=True).stdout.strip()
    loader, = (root / "lib64").glob("ld-linux-*")
    # Debian's own header names this one by the triplet, in a folder with those of the root's C library.
    config = root / f"usr/include/python{version}/{triplet}/python{version}"
    config.mkdir(parents=True, exist_ok=True)
    if not (config / "pyconfig.h").exists():
        os.link(root / f"usr/include/{triplet}/python{version}/pyconfig.h", config / "pyconfig.h")
    # Beside the real one, so that it finds its library; by the name that it was called with, so that an environment is one.
    program = root / f"usr/bin/{PREFIX}python{version}"
    program.write_text(f'#!/bin/sh\nexec {loader} --argv0 "$0" --library-path {root}/usr/lib/{triplet} '
                       f'{root}/usr/bin/python{version} "$@"\n')
    program.chmod(0o755)
    return program
