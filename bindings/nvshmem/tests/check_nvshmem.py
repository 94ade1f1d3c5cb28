#!/usr/bin/env python3
"""libnvshmem_host.so.3 from outside: its name, what it shows, and that the test program calls all of it."""
import argparse
import os
import subprocess
import sys

# What the crate baracuda-nvshmem-sys looks up; the first four are no symbols of NVIDIA's since NVSHMEM 3.
LOOKED_UP = """nvshmem_init nvshmem_finalize nvshmemx_init_attr nvshmemx_init_status nvshmem_my_pe nvshmem_n_pes
nvshmem_info_get_version nvshmemx_get_uniqueid nvshmemx_set_attr_uniqueid_args nvshmem_team_split_strided
nvshmem_team_destroy nvshmem_team_my_pe nvshmem_team_n_pes nvshmem_team_translate_pe nvshmem_malloc nvshmem_free
nvshmem_align nvshmem_calloc nvshmem_putmem nvshmem_getmem nvshmemx_putmem_on_stream nvshmemx_getmem_on_stream
nvshmem_barrier_all nvshmemx_barrier_all_on_stream nvshmem_sync_all nvshmem_quiet nvshmem_fence""".split()


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "test", "nm", "readelf"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    # Variables and the beginning in C++ are linked with, not called.
    listing = output(args.nm, "-D", "--defined-only", args.library).splitlines()
    variables = {line.split()[-1].split("@")[0] for line in listing if line.split()[1] in "BD"}
    linked = variables | {line.split()[-1].split("@")[0] for line in listing if " _Z" in line}
    words = [line.split()[-1] for line in listing]
    shown = {word.split("@")[0] for word in words} - {"NVSHMEM"}
    called = linked | set(output(args.test, args.library, "names").split())
    faults = [f"{name} is not called" for name in sorted(shown - called)]
    faults += [f"{name} is not there" for name in LOOKED_UP if name not in shown]
    faults += [f"{word} is not of version NVSHMEM" for word in words if word != "NVSHMEM" and not word.endswith("@@NVSHMEM")]
    if "[libnvshmem_host.so.3]" not in output(args.readelf, "-d", args.library):
        faults.append("the library is not called libnvshmem_host.so.3")
    said = subprocess.run([args.test, args.library, "alone"], env={**os.environ, "NVSHMEM_VERSION": "1"}, capture_output=True,
                          text=True).stderr
    if "NVSHMEM v3.0.0 (Towpath, without a GPU)\n" not in said:
        faults.append(f"with NVSHMEM_VERSION=1 it says {said!r}")
    print("\n".join(faults) or f"{len(shown)} functions, all called")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
