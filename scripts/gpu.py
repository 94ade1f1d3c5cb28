#!/usr/bin/env python3
"""Runs what needs a GPU, or puts it into a folder that runs where there is a GPU's driver, and neither
compilers nor a network: `./dev gpu` and `./dev gpu --pack` call this.

  gpu.py --build build/release                     the tests, those that need a GPU if there is one
  gpu.py --build build/release --pack build/gpu    the folder; it has this script, which runs there:
  python3 build/gpu/gpu.py [--logs FOLDER]         only what needs a GPU; each log, and a line of each
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
IS_PACKED = (HERE / "packed").is_file()
TIMEOUT_S = 150  # of one program: a test that hangs leaves time for the others

DEVICES = "towpath/device/device_test"
ANYWHERE = [DEVICES, "towpath/memory/memory_test", "towpath/layout/layout_test"]
UCX = "tests/conformance/conformance_ucx_device"
STAGING = "tests/conformance/conformance_staging"
COMMAND = "tools/towpath"
# Of the contract: what needs no other process.
ALONE = ":".join(f"*{suite}Conformance*" for suite in ("Bytes", "Endings", "Registration", "Load", "Messages"))
BENCH = ["bench", "--initiator_seg_type", "VRAM", "--start_block_size", "65536", "--max_block_size", "16777216",
         "--num_iter", "64"]
# What runs on a GPU, the surest first, and each by itself.
ON_GPU = [
    (DEVICES, ["--gtest_filter=*/cuda"]),
    ("towpath/layout/layout_test", ["--gtest_filter=*/cuda"]),
    (STAGING, ["--gpu", f"--gtest_filter={ALONE}"]),
    (UCX, ["--gpu", f"--gtest_filter={ALONE}:UcxDevice*"]),
    (COMMAND, ["doctor", "--dir", "/var/tmp"]),
    (COMMAND, BENCH),
    (COMMAND, [*BENCH, "--target_seg_type", "VRAM"]),
    (COMMAND, [*BENCH, "--target_seg_type", "FILE"]),
]
PROGRAMS = list(dict.fromkeys(program for program, _ in ON_GPU))
TARGETS = list(dict.fromkeys([*ANYWHERE, *PROGRAMS]))
# What any Linux has, and in a version that suits its own libraries.
OF_THE_SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so.*")


def cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath"


# Running ----------------------------------------------------------------------------------------

def place_of(program, build):
    return HERE / "bin" / Path(program).name if IS_PACKED else build / program


def environment():
    """For the programs of a packed folder: libraries and a UCX that came with it; then this machine's own, and those of
    NVIDIA's that Python packages have brought."""
    if not IS_PACKED:
        return dict(os.environ)
    brought = {str(path.parent) for name in ("libcufile.so.0", "libnvshmem_host.so.3")
               for path in Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/*/lib/{name}")}
    paths = [HERE / "lib", *filter(None, [os.environ.get("LD_LIBRARY_PATH")]), *sorted(brought), "/usr/local/nvidia/lib64"]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, paths)), "XDG_CACHE_HOME": str(HERE / "cache")}


def run(command, log, timeout_s=TIMEOUT_S):
    """Runs a program; all that it prints goes to the log. True: it ended well, in time, and ran some case."""
    shown = " ".join([Path(command[0]).name, *command[1:]])
    print(f"+ {shown}", flush=True)
    start = time.monotonic()
    with log.open("w") as output:
        try:
            status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment(),
                                    timeout=timeout_s).returncode
        except subprocess.TimeoutExpired:
            status = f"none within {timeout_s} s"
        except OSError as error:
            status = str(error)
    said = log.read_text(errors="replace").splitlines()
    is_test = "_" in Path(command[0]).name
    ran = re.search(r"^\[  PASSED  \] (\d+) test", "\n".join(said), re.M)
    if status == 0 and is_test and ran is not None and int(ran[1]) == 0:
        status = "0, and nothing ran"
    is_good = status == 0
    kept = said[-4:] if is_good and is_test else said[-40:]  # of a test little, of the command all
    print("\n".join(f"  {line}" for line in kept))
    print(f"  {'good' if is_good else f'FAILED: status {status}'}, {time.monotonic() - start:.1f} s", flush=True)
    return is_good


def has_gpu(build):
    for program in (HERE / "bin").iterdir() if IS_PACKED else ():
        if not os.access(program, os.X_OK):
            program.chmod(0o755)  # what carried the folder may have lost it
    found = subprocess.run([place_of(DEVICES, build), "--findings"], capture_output=True, text=True, env=environment())
    print(found.stdout + found.stderr, end="", flush=True)
    return found.returncode == 0


def run_all(build, logs, match):
    logs.mkdir(parents=True, exist_ok=True)
    here = has_gpu(build)
    todo = [] if IS_PACKED else [(program, [] if here else ["--gtest_filter=-*/cuda"]) for program in ANYWHERE]
    if here:
        todo += [one for one in ON_GPU if IS_PACKED or one[0] not in ANYWHERE]
    elif not IS_PACKED:
        todo.append((UCX, []))
    if not (cache() / "ucx-cuda/package").is_file() and not (HERE / "cache/towpath/ucx-cuda").is_dir():
        print("without a UCX for GPUs, which ./dev ucx-cuda fetches: ucx_device is not run")
        todo = [one for one in todo if one[0] != UCX]
    todo = [one for one in todo if match in " ".join([one[0], *one[1]])]
    failed = [f"{i}: {Path(program).name} {' '.join(options)}" for i, (program, options) in enumerate(todo)
              if not run([str(place_of(program, build)), *options], logs / f"{i}-{Path(program).name}.log")]
    print("the tests ran on the GPU too" if here else "no GPU was used, only host memory: see above")
    if failed:
        print(f"{len(failed)} of {len(todo)} failed (logs: {logs}):", *failed, sep="\n  ")
    return 1 if failed else 3 if IS_PACKED and not here else 0


# Packing ----------------------------------------------------------------------------------------

def libraries_of(program):
    """Those that the loader finds for it here, by the name that it asks for."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", listed, re.M)
    if missing:
        raise SystemExit(f"{program} needs {' '.join(missing)}")
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M))
    return {name: path for name, path in found.items() if not OF_THE_SYSTEM.fullmatch(name)}


def pack(build, into):
    shutil.rmtree(into, ignore_errors=True)
    for folder in ("bin", "lib", "cache"):
        (into / folder).mkdir(parents=True)
    for program in PROGRAMS:
        source = build / program
        subprocess.run(["strip", "--strip-unneeded", "-o", into / "bin" / source.name, source], check=True)
        for name, path in libraries_of(source).items():
            subprocess.run(["strip", "--strip-unneeded", "-o", into / "lib" / name, path], check=True)
    ucx = cache() / "ucx-cuda"
    if (ucx / "package").is_file():
        shutil.copytree(ucx, into / "cache/towpath/ucx-cuda")
    else:
        print("without a UCX for GPUs: ./dev ucx-cuda fetches one, then pack again")
    shutil.copyfile(__file__, into / "gpu.py")
    (into / "packed").write_text("by ./dev gpu --pack\n")
    size = sum(file.stat().st_size for file in into.rglob("*") if file.is_file())
    print(f"{into}: {size / (1 << 20):.0f} MiB; where a GPU is, run: python3 {into}/gpu.py")
    return 0


def self_test():
    """What counts as good, over programs that say so; and that a packed folder runs by itself."""
    with tempfile.TemporaryDirectory() as folder:
        program, log = Path(folder) / "of_a_test", Path(folder) / "log"
        for text, is_good in (("echo '[  PASSED  ] 2 tests.'", True), ("echo '[  PASSED  ] 0 tests.'", False),
                              ("echo '[  PASSED  ] 2 tests.'; exit 1", False), ("exec sleep 60", False)):
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
            assert run([str(program)], log, timeout_s=2) == is_good, text
        for name in PROGRAMS:
            (Path(folder) / "build" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/true", Path(folder) / "build" / name)
        pack(Path(folder) / "build", Path(folder) / "packed")
        (Path(folder) / "packed/bin/layout_test").chmod(0o644)
        done = subprocess.run([sys.executable, Path(folder) / "packed/gpu.py", "--logs", Path(folder) / "logs"],
                              capture_output=True, text=True)
        assert done.returncode == 0 and "+ layout_test --gtest_filter=*/cuda" in done.stdout, done
    print("gpu: the self-test passed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"), help="where the programs were built")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="make the folder, run nothing")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", default=Path("build/gpu-logs"),
                        help="where all output goes (default: build/gpu-logs)")
    parser.add_argument("-k", dest="match", default="", metavar="WORD", help="only those with this in their command")
    parser.add_argument("--self-test", action="store_true", help="test this script, which needs no GPU")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    return pack(args.build, args.pack) if args.pack else run_all(args.build, args.logs, args.match)


if __name__ == "__main__":
    sys.exit(main())
