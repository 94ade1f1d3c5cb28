#!/usr/bin/env python3
"""Tries wheels for aarch64 on another machine, as a user gets them: each in an empty root of a Debian of that machine that
has its Python, by qemu's user mode. `./dev package --test` calls it where such wheels were made.

    emulated_test.py [--python VERSION]...

The emulator has neither io_uring nor process_vm_readv(), and in it a process takes itself for another one than its peers
do, now and then: what needs those is skipped, and moves between processes go over TCP.
"""
import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import aarch64  # noqa: E402
import debian_roots  # noqa: E402
import newer_python  # noqa: E402
from package_test import ASK_NIXL, OUT, OUTSIDE, ROOT, VERSION, python_example, run, wheels  # noqa: E402

SUITES = {"3.11": "bookworm", "3.13": "trixie", **newer_python.SUITES}  # which Debian has which Python
SYSTEM = ["bash", "coreutils", "dash", "libstdc++6", "ca-certificates", "python3"]
LEFT_OUT = {
    "asyncio": "an agent waits for a peer that it takes for another process",
    "metadata": "the same",
    "processes": "the same",
    "serve": "the same",
    "nixl_ucx": "no libucp in the root",
}
WITH_PEERS = "the_example_runs"  # which waits for the same reason
# For pytest: what fails for a call of the kernel that the emulator lacks is skipped.
LACKS = '''
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and ("(ENOSYS" in str(report.longrepr) or "is another one now" in str(report.longrepr)):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, "Skipped: the emulator lacks what it needs")
    return report
'''


class Root:
    """An empty system of that machine, in `folder`."""

    def __init__(self, folder, suite):
        self.folder, self.given = folder, folder / "given"
        debian_roots.bootstrap(folder, suite, SYSTEM, variant="extract", architectures=["arm64"], may_lag=True)
        self.given.mkdir()

    def run(self, script):
        done = aarch64.run_inside(self.folder, ROOT, f"cd /given; {script}")
        if done.returncode != 0:
            sys.exit(f"emulated test: status {done.returncode}: {script}\n{done.stdout[-6000:]}")
        return done.stdout.strip()


def install(root, version, wheel):
    """By pip, without an index in the root; with numpy and pytest, fetched here."""
    for file in (wheel, *OUT.glob("towpath_nixl-*.whl")):
        shutil.copy(file, root.given)
    run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "-d", root.given,
         "--platform=manylinux_2_28_aarch64", "--platform=manylinux_2_17_aarch64", f"--python-version={version}",
         "numpy", "pytest", "pip"])
    root.run("python3 $(echo pip-*.whl)/pip install --quiet --no-index --find-links . --break-system-packages"
             " --root-user-action=ignore towpath*.whl numpy pytest; rm *.whl")


def try_command(root):
    """The command, the README's example, and the name that engines ask for."""
    print("  " + root.run("towpath version"))
    said = root.run("towpath replay --requests 300 --backend tcp")
    print("  " + said.splitlines()[-1].strip())
    (root.given / "example.py").write_text(python_example().replace('"shm"', '"tcp"'))
    print("  " + root.run("python3 example.py").replace("\n", "\n  "))
    (root.given / "ask_nixl.py").write_text(ASK_NIXL)
    where = root.run("python3 ask_nixl.py").split()
    if where[1] != VERSION:
        sys.exit(f"emulated test: {where} is not the wheel's package of version {VERSION}")
    print(f"  nixl {where[2]} is accepted")


def try_libraries(root):
    """Those with an interface in C, linked by the cross-compiler; an OpenSHMEM program of one PE."""
    prefix = root.run("python3 -m towpath --prefix")
    lib, include = f"{root.folder}{prefix}/lib", f"{root.folder}{prefix}/include/towpath"
    for source, library, options in ((OUTSIDE / "outside_c.c", "towpath_c", [f'-DWANTED="{VERSION}"', f"-I{include}/c"]),
                                     (OUTSIDE / "outside_nixl.c", "nixl_capi", [f"-I{include}/nixl"]),
                                     (ROOT / "examples/openshmem_primes.c", "towpath_openshmem", [f"-I{include}/openshmem"])):
        run([f"{aarch64.TRIPLET}-gcc", *options, source, "-o", root.given / source.stem, f"-L{lib}", f"-l{library}",
             f"-Wl,-rpath,{prefix}/lib", "-Wl,--allow-shlib-undefined", "-ldl"])
    root.run("./outside_c; ./outside_nixl; towpath run -n 1 -- ./openshmem_primes")


def try_suites(root):
    (root.given / "lacks.py").write_text(LACKS)
    ignored = " ".join(f"--ignore=/src/bindings/python/tests/test_{name}.py" for name in LEFT_OUT)
    said = root.run(f"PYTHONPATH=/given python3 -m pytest -q -p lacks -p no:cacheprovider -k 'not {WITH_PEERS}' {ignored}"
                    " /src/bindings/python/tests")
    print("  " + re.findall(r"\d+ passed.*", said)[-1])


def try_wheel(wheel, version):
    if version not in SUITES:
        print(f"  not tried: no Debian here has Python {version}")
        return
    with tempfile.TemporaryDirectory(prefix="towpath-root-") as folder:
        root = Root(Path(folder) / "root", SUITES[version])
        install(root, version, wheel)
        try_command(root)
        try_libraries(root)
        try_suites(root)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", action="append", metavar="VERSION", help="only the wheel of this one; may be repeated")
    args = arguments.parse_args()
    for version, wheel in wheels(args.python, aarch64.NAME).items():
        print(wheel.name, flush=True)
        try:
            try_wheel(wheel, version)
        except debian_roots.Missing as missing:
            print(f"  not tried: {missing}")
    print(f"suites left out: {'; '.join(f'{name}: {why}' for name, why in LEFT_OUT.items())}")


if __name__ == "__main__":
    main()
