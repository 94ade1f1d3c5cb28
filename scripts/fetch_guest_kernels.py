#!/usr/bin/env python3
"""Fetches the Linux kernels that tests/qemu boots (GUEST_KERNELS in packages.py).

Of each the newest package of Debian, of this machine's archives or of the suite that
GUEST_KERNEL_SUITES names, whose name matches its pattern (a regular expression) is downloaded
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

from packages import GUEST_KERNELS, GUEST_KERNEL_SUITES

ARCHIVE = "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class CannotFetch(Exception):
    pass


def capture(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def options_for(suite, folder):
    """Of apt, by which it knows that suite alone, and nothing of it outside `folder`."""
    if suite is None:
        return []
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYS}] {ARCHIVE} {suite} main\n")
    options = ["-o=APT::Sandbox::User=root", f"-o=Dir::Etc::SourceList={folder}/sources.list",
               "-o=Dir::Etc::SourceParts=-", f"-o=Dir::State::Lists={folder}/lists",
               f"-o=Dir::Cache={folder}/cache", "-o=Acquire::Languages=none"]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    return options


def called(pattern, options):
    found = capture("apt-cache", *options, "search", "--names-only", pattern).splitlines()
    return [name for name in (line.split()[0] for line in found) if re.fullmatch(pattern, name)]


def newest(pattern, options):
    names = called(pattern, options)
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


def fetch(name, options, modules, into):
    version = re.escape(name.removeprefix("linux-image-"))
    parts = called(f"linux-(base|binary|modules)-{version}", options)  # since 6.19 the image is all of these
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["apt-get", "-qq", "-o=APT::Sandbox::User=root", *options, "download", name, *parts],
                       cwd=work, check=True)
        for package in Path(work).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), f"{work}/unpacked"], check=True)
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        unpacked = Path(work, "unpacked")  # newer packages have all of it beside the modules
        kernel, = [*unpacked.glob("boot/vmlinuz-*"), *unpacked.glob("usr/lib/modules/*/vmlinuz")]
        config, = [*unpacked.glob("boot/config-*"), *unpacked.glob("usr/lib/modules/*/config")]
        keep_modules(modules, unpacked, into / "modules")
        shutil.copy(config, into / "config")
        shutil.copy(kernel, into / "vmlinuz")


def fetch_newest(name, pattern, modules, options):
    into = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/kernels" / name
    package = newest(pattern, options)
    if package is None:
        raise CannotFetch(f"no package of Debian is called {pattern}")
    made_of = " ".join([package, *modules]) + "\n"
    mark = into / "package"  # written last
    if mark.is_file() and mark.read_text() == made_of:
        return
    fetch(package, options, modules, into)
    mark.write_text(made_of)
    print(f"{package}: {into / 'vmlinuz'}")


def main():
    for name, (pattern, *modules) in GUEST_KERNELS.items():
        try:
            with tempfile.TemporaryDirectory() as folder:
                options = options_for(GUEST_KERNEL_SUITES.get(name), Path(folder))
                fetch_newest(name, pattern, modules, options)
        except (CannotFetch, OSError, subprocess.CalledProcessError) as why:  # no archive that apt could reach
            print(f"tests with virtual machines will be skipped: {why}", flush=True)


if __name__ == "__main__":
    main()
