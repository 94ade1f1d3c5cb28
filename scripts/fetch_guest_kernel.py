#!/usr/bin/env python3
"""Fetches a Linux kernel that tests/qemu boots: fetch_guest_kernel.py PATTERN NAME [MODULE ...]

The newest package of Debian whose name matches PATTERN (a regular expression) is downloaded and
unpacked, not installed. Kept of it, in ~/.cache/towpath/kernels/NAME (XDG_CACHE_HOME is honoured), are
its kernel, its configuration, and of the modules these and what they need: NN-name.ko, in the order in
which they can be loaded. Does nothing when all that is there.
"""
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def capture(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def newest(pattern):
    names = [line.split()[0] for line in capture("apt-cache", "search", "--names-only", pattern).splitlines()]
    names = [name for name in names if re.fullmatch(pattern, name)]
    return max(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], default=None)


def in_order(wanted, files, done):
    """Adds to `done`, by name, what is wanted, each behind those that it needs. What is no file is
    built into the kernel."""
    for name in wanted:
        if name in done or name not in files:
            continue
        content = lzma.decompress(files[name].read_bytes())
        needs = re.search(rb"\0depends=([^\0]*)\0", content)  # as modinfo prints it
        in_order(needs[1].decode().replace("-", "_").split(",") if needs else [], files, done)
        done[name] = content
    return done


def keep_modules(wanted, unpacked, into):
    files = {path.name.removesuffix(".ko.xz").replace("-", "_"): path for path in unpacked.rglob("*.ko.xz")}
    if absent := [name for name in wanted if name not in files]:
        raise SystemExit(f"this kernel has no module {', '.join(absent)}")
    into.mkdir()
    for number, (name, content) in enumerate(in_order(wanted, files, {}).items()):
        (into / f"{number:02}-{name}.ko").write_bytes(content)


def fetch(name, modules, into):
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["apt-get", "-qq", "-o=APT::Sandbox::User=root", "download", name],
                       cwd=work, check=True)
        package, = Path(work).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), f"{work}/unpacked"], check=True)
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        kernel, = Path(work, "unpacked/boot").glob("vmlinuz-*")
        config, = Path(work, "unpacked/boot").glob("config-*")
        keep_modules(modules, Path(work, "unpacked/lib/modules"), into / "modules")
        shutil.copy(config, into / "config")
        shutil.copy(kernel, into / "vmlinuz")


def main(pattern, name, *modules):
    into = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/kernels" / name
    package = newest(pattern)
    if package is None:
        return f"no package of Debian is called {pattern}"
    made_of = " ".join([package, *modules]) + "\n"
    mark = into / "package"  # written last
    if mark.is_file() and mark.read_text() == made_of:
        return 0
    fetch(package, modules, into)
    mark.write_text(made_of)
    print(f"{package}: {into / 'vmlinuz'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
