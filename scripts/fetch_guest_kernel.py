#!/usr/bin/env python3
"""Fetches the Linux kernel that tests/qemu boots: fetch_guest_kernel.py PATTERN

The newest package of Debian whose name matches PATTERN (a regular expression) is downloaded and
unpacked, not installed; only its kernel, its configuration and a few modules are kept, in
~/.cache/towpath/kernels/debian (XDG_CACHE_HOME is honoured). Does nothing when that one is there.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


# NVMe over a network, both ends, and what they need.
MODULES = ["configfs", "nvme-fabrics", "nvmet", "nvme-loop", "nvmet-tcp", "nvme-tcp"]


def capture(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def newest(pattern):
    names = [line.split()[0] for line in capture("apt-cache", "search", "--names-only", pattern).splitlines()]
    names = [name for name in names if re.fullmatch(pattern, name)]
    return max(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], default=None)


def fetch(name, into):
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["apt-get", "-qq", "-o=APT::Sandbox::User=root", "download", name],
                       cwd=work, check=True)
        package, = Path(work).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), f"{work}/unpacked"], check=True)
        into.mkdir(parents=True, exist_ok=True)
        kernel, = Path(work, "unpacked/boot").glob("vmlinuz-*")
        config, = Path(work, "unpacked/boot").glob("config-*")
        shutil.copy(config, into / "config")
        (into / "modules").mkdir(exist_ok=True)
        for module in MODULES:
            found, = Path(work, "unpacked/lib/modules").rglob(f"{module}.ko.xz")
            shutil.copy(found, into / "modules")
        shutil.copy(kernel, into / "vmlinuz.new")
        (into / "package").write_text(name + "\n")
        (into / "vmlinuz.new").rename(into / "vmlinuz")


def main(pattern):
    into = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/kernels/debian"
    name = newest(pattern)
    if name is None:
        return f"no package of Debian is called {pattern}"
    mark = into / "package"
    if (into / "vmlinuz").is_file() and (into / "modules").is_dir() and mark.is_file() and mark.read_text().strip() == name:
        return 0
    fetch(name, into)
    print(f"{name}: {into / 'vmlinuz'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
