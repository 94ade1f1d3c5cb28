#!/usr/bin/env python3
"""Fetches the Linux kernels that tests/qemu boots (GUEST_KERNELS in packages.py).

Of each the newest package of Debian whose name matches its pattern (a regular expression) is downloaded
and unpacked, not installed. Kept of it, in ~/.cache/towpath/kernels/NAME (XDG_CACHE_HOME is honoured),
are its kernel, its configuration, and of the modules those that are named and what they need: NN-name.ko,
in the order in which they can be loaded. Does nothing when all that is there. Without a kernel its tests
are skipped, so that is printed and no more.
"""
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from packages import GUEST_KERNELS


class CannotFetch(Exception):
    pass


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
        raise CannotFetch(f"this kernel has no module {', '.join(absent)}")
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


def fetch_newest(name, pattern, modules):
    into = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/kernels" / name
    package = newest(pattern)
    if package is None:
        raise CannotFetch(f"no package of Debian is called {pattern}")
    made_of = " ".join([package, *modules]) + "\n"
    mark = into / "package"  # written last
    if mark.is_file() and mark.read_text() == made_of:
        return
    fetch(package, modules, into)
    mark.write_text(made_of)
    print(f"{package}: {into / 'vmlinuz'}")


def main():
    for name, (pattern, *modules) in GUEST_KERNELS.items():
        try:
            fetch_newest(name, pattern, modules)
        except (CannotFetch, OSError, subprocess.CalledProcessError) as why:  # no archive that apt could reach
            print(f"tests with virtual machines will be skipped: {why}", flush=True)


if __name__ == "__main__":
    main()
