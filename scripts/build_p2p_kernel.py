#!/usr/bin/env python3
"""Builds a small Linux kernel in which drives reach each other's memory (CONFIG_PCI_P2PDMA), which no
kernel of Debian 12 can: build_p2p_kernel.py PACKAGE [--jobs N]

The source is Debian's PACKAGE (linux-source-6.12), downloaded and unpacked, not installed. The kernel
has no network, no disk file systems and no modules: only what tests/qemu needs. It is kept in
~/.cache/towpath/kernels/p2p (XDG_CACHE_HOME is honoured) with the version and the configuration that
it was made of, and is built anew only when one of them changes. On two idle cores: about 6 minutes,
1 GB of disk meanwhile (in TMPDIR), 3 MB afterwards.
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# On top of tinyconfig.
OPTIONS = """
64BIT SMP X86_X2APIC PRINTK TTY BUG MULTIUSER SYSFS PROC_FS PROC_SYSCTL SYSCTL TMPFS SHMEM DEVTMPFS
ACPI PCI PCI_MSI PCIEPORTBUS PCI_MMCONFIG SERIAL_8250 SERIAL_8250_CONSOLE BLK_DEV_INITRD RD_GZIP
BINFMT_ELF POSIX_TIMERS FUTEX EPOLL EVENTFD TIMERFD SIGNALFD MEMFD_CREATE IO_URING AIO FILE_LOCKING
ADVISE_SYSCALLS MEMBARRIER BLOCK BLK_DEV BLK_DEV_NVME NVME_CORE SWAP
MEMORY_HOTPLUG MEMORY_HOTREMOVE SPARSEMEM SPARSEMEM_VMEMMAP ZONE_DEVICE PCI_P2PDMA
HYPERVISOR_GUEST PARAVIRT KVM_GUEST KALLSYMS HIGH_RES_TIMERS NO_HZ_IDLE UNIX98_PTYS
""".split()
WITHOUT = ["NVME_MULTIPATH", "MODULES", "NET", "DEBUG_INFO"]


def run(*command, cwd=None, **more):
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run(list(map(str, command)), cwd=cwd, check=True, **more)


def version_of(package):
    said = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True).stdout
    lines = [line.split()[1] for line in said.splitlines() if "Candidate:" in line]
    return lines[0] if lines else None


def configure(tree):
    run("make", "-s", "tinyconfig", cwd=tree)
    options = [word for name in OPTIONS for word in ("-e", name)]
    options += [word for name in WITHOUT for word in ("-d", name)]
    run("scripts/config", *options, cwd=tree)
    run("make", "-s", "olddefconfig", cwd=tree)
    config = (tree / ".config").read_text()
    lost = [name for name in OPTIONS if f"CONFIG_{name}=y" not in config]
    print("not in this kernel:", " ".join(lost) or "nothing is missing", flush=True)
    if "PCI_P2PDMA" in lost:
        raise SystemExit("CONFIG_PCI_P2PDMA was dropped: see what it depends on in drivers/pci/Kconfig")


def build(package, jobs, into, key):
    with tempfile.TemporaryDirectory(prefix="towpath-kernel-") as work:
        run("apt-get", "-qq", "-o=APT::Sandbox::User=root", "download", package, cwd=work)
        deb, = Path(work).glob("*.deb")
        run("dpkg-deb", "-x", deb, f"{work}/unpacked")
        deb.unlink()
        archive, = Path(work, "unpacked/usr/src").glob("linux-source-*.tar.xz")
        run("tar", "-xf", archive, "-C", work)
        shutil.rmtree(Path(work, "unpacked"))
        tree, = Path(work).glob("linux-source-*")
        configure(tree)
        run("make", "-s", f"-j{jobs}", "bzImage", cwd=tree)
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / ".config", into / "config")
        shutil.copy(tree / "arch/x86/boot/bzImage", into / "vmlinuz.new")
        (into / "key").write_text(key + "\n")
        (into / "vmlinuz.new").rename(into / "vmlinuz")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("package")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    into = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/kernels/p2p"
    version = version_of(args.package)
    if version is None:
        return f"Debian has no package {args.package} here"
    made_of = " ".join([version, *OPTIONS, "without", *WITHOUT])
    key = f"{args.package} {version} {hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    if (into / "vmlinuz").is_file() and (into / "key").read_text().strip() == key:
        print(f"{into / 'vmlinuz'} is of {key} already")
        return 0
    build(args.package, args.jobs, into, key)
    print(f"{into / 'vmlinuz'}: {(into / 'vmlinuz').stat().st_size >> 10} KiB, {key}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
