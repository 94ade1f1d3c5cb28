#!/usr/bin/env python3
"""Boots a Linux kernel in QEMU with NVMe drives or soft RoCE, and our test program as its first process.
What it carries besides lies in the guest's root under its own name, for the tests to start.

    run_guest.py --guest PROGRAM [--carry PROGRAM ...] --work FOLDER drives | peer-memory | out-of-reach | rdma | tls

The processor is emulated (no /dev/kvm is needed). Kernels are looked for in ~/.cache/towpath/kernels
(XDG_CACHE_HOME is honoured): debian, rdma and tls, which `./dev setup` fetches, with the modules that
the guest loads, and p2p, which `./dev p2p-kernel` builds. Exit status: 0 all tests passed, 1 not, 77 skipped: says why.
"""
import argparse
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from initramfs import initramfs

SKIPPED = 77
DIRECT_BYTES = 2 * 256 * 1024  # of guest_peer_memory_test.cc: read once, written once
QEMU = "qemu-system-x86_64"
MIB = 1 << 20
WATCHDOG = 180  # seconds in which a machine says nothing
# no_timer_check: on a busy host the emulated timer looks broken to the kernel, which would panic.
KERNEL = "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check nokaslr oops=panic"


class Drive:
    """A drive with one namespace. `fails_at`: the 512-byte sector whose reads and writes fail."""

    def __init__(self, serial, block=512, mdts=7, mib=64, fails_at=None, metadata=0, cmb_mib=0,
                 partitioned=False, bus=None, zone_mib=0):
        self.serial, self.block, self.mdts, self.mib = serial, block, mdts, mib
        self.fails_at, self.metadata, self.cmb_mib = fails_at, metadata, cmb_mib
        self.partitioned, self.bus, self.zone_mib = partitioned, bus, zone_mib

    def make(self, folder):
        self.path = folder / f"{self.serial}.img"
        with open(self.path, "wb") as image:
            image.truncate(self.mib * MIB)
            if self.partitioned:  # a master boot record: one partition of Linux, from sector 2048 on
                entry = struct.pack("<B3sB3sII", 0, b"\0" * 3, 0x83, b"\0" * 3, 2048, 4096)
                image.seek(446)
                image.write(entry)
                image.seek(510)
                image.write(b"\x55\xaa")

    def options(self):
        name = self.serial.lower()
        below = {"driver": "file", "filename": str(self.path), "discard": "unmap",
                 "cache.no-flush": "on"}
        if self.fails_at is not None:
            below = {f"image.{key}": value for key, value in below.items()} | {"driver": "blkdebug"}
            for number, event in enumerate(("read_aio", "write_aio")):
                below |= {f"inject-error.{number}.event": event, f"inject-error.{number}.errno": 5,
                          f"inject-error.{number}.sector": self.fails_at}
        node = {"driver": "raw", "node-name": name, "discard": "unmap"} | {
            f"file.{key}": value for key, value in below.items()}
        device = {"serial": self.serial, "mdts": self.mdts, "id": f"{name}-drive"}
        device |= {"cmb_size_mb": self.cmb_mib} if self.cmb_mib else {}
        device |= {"bus": self.bus} if self.bus else {}
        space = {"drive": name, "bus": f"{name}-drive", "nsid": 1,
                 "logical_block_size": self.block, "physical_block_size": self.block}
        space |= {"ms": self.metadata} if self.metadata else {}
        space |= {"zoned": "true", "zoned.zone_size": f"{self.zone_mib}M"} if self.zone_mib else {}
        return ["-blockdev", listed(node), "-device", "nvme," + listed(device),
                "-device", "nvme-ns," + listed(space)]


def listed(options):
    return ",".join(f"{key}={value}" for key, value in options.items())


# The machines -----------------------------------------------------------------------------------

ORDINARY = [
    Drive("PLAIN512"),
    Drive("TINY4096", block=4096, mdts=1),
    Drive("ODD512", mdts=5),
    Drive("UNLIMITED4096", block=4096, mdts=0),
    Drive("PARTITIONED", partitioned=True),
    Drive("BADBLOCK", fails_at=2048),
    Drive("METADATA", metadata=8),
    Drive("PULLED"),
    Drive("ZONED", zone_mib=1, mib=16),
    Drive("BEHIND"),  # what the guest shows itself over a network
]
# Behind one switch, peers reach each other whatever the host bridge is.
SWITCH = ["-device", "pcie-root-port,id=root,slot=1,chassis=1",
          "-device", "x3130-upstream,id=up,bus=root",
          "-device", "xio3130-downstream,id=left,bus=up,slot=2,chassis=2",
          "-device", "xio3130-downstream,id=right,bus=up,slot=3,chassis=3"]
MACHINES = {
    "drives": ("debian", [], ORDINARY, []),
    "peer-memory": ("p2p", SWITCH, [Drive("PROVIDER", cmb_mib=64, bus="left"),
                                    Drive("INITIATOR", bus="right")], []),
    # Each at a root port of its own, under a host bridge that Linux does not trust with it.
    "out-of-reach": ("p2p", ["-device", "pcie-root-port,id=left,slot=1,chassis=1",
                             "-device", "pcie-root-port,id=right,slot=2,chassis=2"],
                     [Drive("PROVIDER", cmb_mib=64, bus="left"), Drive("INITIATOR", bus="right")],
                     ["APART"]),
    "rdma": ("rdma", [], [], []),
    "tls": ("tls", [], [], []),
}
# Of this machine, that the tests of one start.
PROGRAMS = {"rdma": ["ip", "rdma"], "tls": ["ip"]}
# What is opened at run time: UCX, its transports over RDMA, and the driver by which verbs know soft RoCE.
LIBRARIES = {"rdma": ["libucp.so.0", "ucx/libuct_ib.so.0", "libibverbs/librxe-rdmav34.so"]}
FILES = {"rdma": [Path("/etc/libibverbs.d/rxe.driver")]}


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath" / "kernels"


def kernel_of(name):
    found = cache() / name / "vmlinuz"
    if found.is_file():
        return found
    hint = "`./dev setup` fetches it"
    if name == "p2p":
        hint = "`./dev p2p-kernel` builds it, once, in about 10 minutes"
    return skip(f"no kernel at {found}: {hint}")


def parts_of(machine):
    """Programs and libraries, then plain files, by their names in the guest's root."""
    programs = {name: Path(shutil.which(name) or name) for name in PROGRAMS.get(machine, [])}
    folder = Path("/usr/lib", sysconfig.get_config_var("MULTIARCH"))
    programs |= {str(folder / name)[1:]: folder / name for name in LIBRARIES.get(machine, [])}
    files = {str(path)[1:]: path for path in FILES.get(machine, [])}
    if absent := [str(path) for path in [*programs.values(), *files.values()] if not path.is_file()]:
        skip(f"not installed: {', '.join(absent)}; `./dev setup` installs them")
    return programs, files


def command_of(machine, kernel, work):
    _, bridges, drives, marks = MACHINES[machine]
    for drive in drives:
        drive.make(work)
    reported = "".join(f"drive={serial} " for serial in [*(drive.serial for drive in drives), *marks])
    return [QEMU, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1",
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
            "-trace", "pci_nvme_map_addr", "-D", str(work / "trace"), "-kernel", str(kernel), "-initrd", str(work / "initramfs"),
            "-append", f"{KERNEL} {reported} -- --gtest_color=no", *bridges,
            *(option for drive in drives for option in drive.options())]


def bytes_between_drives(output, trace):
    """Bytes that QEMU's drives moved to and from the memory that the guest named; none if none."""
    named = re.findall(r"^PEER MEMORY 0x([0-9a-f]+) 0x([0-9a-f]+) ", output, re.M)
    if not named:
        return None
    ranges = [(int(start, 16), int(end, 16)) for start, end in named]
    moves = re.findall(r"pci_nvme_map_addr addr 0x([0-9a-f]+) len (\d+)", trace.read_text())
    return sum(int(length) for address, length in moves
               if any(start <= int(address, 16) < end for start, end in ranges))


def boot(command, log):
    """What the guest printed; the whole of it is also in the file `log`."""
    output = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as machine:
        while select.select([machine.stdout], [], [], WATCHDOG)[0]:
            some = os.read(machine.stdout.fileno(), 65536)
            if not some:
                break
            output += some
        else:
            machine.kill()
            output += b"\nended by the watchdog\n"
    log.write_bytes(output)
    return output.decode(errors="replace").replace("\r", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guest", type=Path, required=True)
    parser.add_argument("--carry", type=Path, action="append", default=[])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("machine", choices=MACHINES)
    args = parser.parse_args()
    if not shutil.which(QEMU):
        skip(f"{QEMU} is not installed: `./dev setup` installs it")
    kernel = kernel_of(MACHINES[args.machine][0])
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    programs = {"init": args.guest} | {path.name: path for path in args.carry}
    others = {f"modules/{path.name}": path for path in (kernel.parent / "modules").glob("*")}
    parts, files = parts_of(args.machine)
    programs |= parts
    others |= files
    (args.work / "initramfs").write_bytes(initramfs(programs, others))
    command = command_of(args.machine, kernel, args.work)
    start = time.monotonic()
    for attempt in (1, 2):
        output = boot(command, args.work / "console")
        result = re.search(r"^RESULT pass=(\d+) fail=(\d+) skip=(\d+) status=(\d+)$", output, re.M)
        if result:
            break
        print(f"attempt {attempt}: the machine ended without a result")
    print(output)
    for image in args.work.glob("*.img"):
        image.unlink()
    if not result:
        return "no result: the guest did not come to its end"
    passed, failed, skipped, status = map(int, result.groups())
    print(f"{args.machine}: {passed} passed, {failed} failed, {skipped} skipped, "
          f"{time.monotonic() - start:.1f} s")
    if (direct := bytes_between_drives(output, args.work / "trace")) is not None:
        print(f"{direct} bytes went from drive to drive by themselves, as QEMU saw them go")
        if direct < DIRECT_BYTES:
            return f"fewer than {DIRECT_BYTES}: some went through host memory"
    elif args.machine == "peer-memory":
        return "no block went from drive to drive by itself: the guest named no memory for it"
    return 1 if failed or status or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
