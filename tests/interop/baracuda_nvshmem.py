#!/usr/bin/env python3
"""Runs the tests of the unmodified crate baracuda-nvshmem against our libnvshmem_host.so.3, without a GPU.

The crate comes from the crate registry that cargo is set up for. Its own tests skip what they cannot load and
pass: here that is a failure. baracuda_pes.rs uses it as a program does: puts, gets and teams between PEs. All run alone,
as `cargo test` runs them (at once, in one process), and as 2 and 4 PEs under `towpath run`.

  baracuda_nvshmem.py --library build/release/bindings/nvshmem --run build/release/tools/towpath --work build/interop

Exits with 0 when all passed, 1 when some failed, 3 when nothing could be run, and says why.
Left out: calls on streams (put_on_stream, get_on_stream, barrier_all_on_stream): the crate makes streams with CUDA.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from crates import CannotRun, TIMEOUT_S, cargo, fetch

CRATE = "baracuda-nvshmem"
WANTED = ">=0.1.0-alpha.80"
JOBS = [1, 2, 4]


def build(manifest, work, *options):
    """The test programs of a package."""
    done = cargo("test", "--manifest-path", str(manifest), "--tests", "--no-run", *options,
                 "--message-format=json-render-diagnostics", cwd=work,
                 env={**os.environ, "CARGO_TARGET_DIR": str(work / f"target-{CRATE}")}, check=False)
    if done.returncode != 0:
        raise CannotRun(f"the tests do not build:\n{done.stdout[-3000:]}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    programs = [Path(one["executable"]) for one in messages if one.get("executable") and one["profile"]["test"]]
    return [program for program in programs if program.name.split("-")[0] != "baracuda_nvshmem"]


def package_of_ours(version, work):
    """A package of its own, which uses the crate as any program does."""
    folder = work / "baracuda-pes"
    (folder / "tests").mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("baracuda_pes.rs"), folder / "tests")
    (folder / "Cargo.toml").write_text(f'[package]\nname = "baracuda-pes"\nversion = "0.0.0"\nedition = "2021"\n'
                                       f'[lib]\npath = "empty.rs"\ntest = false\n[dependencies]\n{CRATE} = "={version}"\n[workspace]\n')
    (folder / "empty.rs").write_text("")
    return folder / "Cargo.toml"


def run(args, program, pes, log):
    """True when all tests of the program passed and none was skipped."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NVSHMEM_", "CUDA_"))}
    env["LD_LIBRARY_PATH"] = str(args.library)
    # --prefix keeps each PE's lines whole: without it four of them write into each other's.
    words = [program, "--nocapture"] if pes == 1 else \
        [args.run, "run", "-n", str(pes), "--prefix", "--", program, "--nocapture", "--test-threads=1"]
    try:
        done = subprocess.run(words, env=env, text=True, errors="replace", timeout=TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        print(f"  FAILED {program.name}, {pes} PEs: it did not end")
        return False
    log.write(f"== {program.name}, {pes} PEs\n{done.stdout}\n")
    results = re.findall(r"test result: (\w+)\. (\d+) passed; (\d+) failed", done.stdout)
    skipped = re.findall(r".*(?:skip|not available|init failed).*", done.stdout, re.I)
    good = done.returncode == 0 and len(results) == pes and results[0][1] != "0" and not skipped
    passed = results[0][1] if results else "no"
    print(f"  {'' if good else 'FAILED '}{program.name.rsplit('-', 1)[0]}, {pes} PE{'s' if pes > 1 else ''}: "
          f"{passed} passed{''.join(f'; {one}' for one in skipped)}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in (("library", "the folder of libnvshmem_host.so.3"), ("run", "the towpath command"),
                       ("work", "where it is built")):
        parser.add_argument(f"--{name}", type=lambda path: Path(path).resolve(), required=True, help=what)
    args = parser.parse_args()
    try:
        if not (args.library / "libnvshmem_host.so.3").exists():
            raise CannotRun(f"no libnvshmem_host.so.3 in {args.library}")
        version, crate = fetch(CRATE, WANTED, args.work)
        print(f"{CRATE} {version}: its tests, and ours between PEs", flush=True)
        programs = build(crate / "Cargo.toml", args.work, "--features", "device-tests")
        programs += build(package_of_ours(version, args.work), args.work)
        with (args.work / f"{CRATE}-{version}.log").open("w") as log:
            results = [run(args, program, pes, log) for program in programs for pes in JOBS]
        print(f"  all of it: {log.name}")
        return 0 if results and all(results) else 1
    except CannotRun as why:
        print(f"interop: not run: {why}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
