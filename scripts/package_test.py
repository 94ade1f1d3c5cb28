#!/usr/bin/env python3
"""Tries what scripts/package.py made, as a user gets it: each wheel in an empty virtual environment, the packages
for Debian in an empty root. `./dev package --test` calls it.

    package_test.py [--python VERSION]... [--no-roots]
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import debian_roots  # noqa: E402
from package import OUT, ROOT, interpreters  # noqa: E402

OUTSIDE = ROOT / "tests/install/outside"
VERSION = re.search(r"project\(towpath VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def run(command, **options):
    """In a folder that is not the tree's, without what would make Python find the tree."""
    print(f"+ {shlex.join(str(word) for word in command)}"[:300], flush=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_"))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment.update(options.pop("env", {}))
    done = subprocess.run([str(word) for word in command], env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"package test: status {done.returncode}: {shlex.join(str(word) for word in command)}\n{done.stdout[-6000:]}")
    return done.stdout


def python_example():
    """The first one of the README."""
    return re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]


def try_command(python, work):
    """What needs nothing beside the wheel."""
    print("  " + run([python.parent / "towpath", "version"], cwd=work).strip())
    said = run([python.parent / "towpath", "replay", "--requests", "300"], cwd=work)
    print("  " + said.strip().splitlines()[-1].strip())
    return Path(run([python, "-m", "towpath", "--prefix"], cwd=work).strip())


def try_libraries(python, prefix, work):
    """The libraries with an interface in C, linked and opened by the names that they are known by."""
    lib, include = prefix / "lib", prefix / "include/towpath"
    for source, library, options in (("outside_c", "towpath_c", [f'-DWANTED="{VERSION}"', f"-I{include}/c"]),
                                     ("outside_nixl", "nixl_capi", [f"-I{include}"])):
        run(["cc", "-std=c11", *options, OUTSIDE / f"{source}.c", "-o", work / source, f"-L{lib}", f"-l{library}",
             f"-Wl,-rpath,{lib}", "-ldl"])
        run([work / source], cwd=work)
    run([python.parent / "towpath-shmcc", ROOT / "examples/openshmem_primes.c", "-o", work / "primes"])
    run([python.parent / "towpath", "run", "-n", "2", "--", work / "primes"], cwd=work)
    run([python, "-c", f"import ctypes; ctypes.CDLL('{lib}/towpath/nvshmem/libnvshmem_host.so.3').nvshmem_my_pe"])


def try_python(python, work):
    """The README's example and the suites of bindings/python, on the installed package alone."""
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", "pytest"])
    (work / "example.py").write_text(python_example())
    print("  " + run([python, work / "example.py"], cwd=work).strip().replace("\n", "\n  "))
    where = run([python, "-c", "import towpath, nixl; print(towpath.__file__, towpath.__version__)"], cwd=work).split()
    if not where[0].startswith(str(work)) or where[1] != VERSION:
        sys.exit(f"package test: {where} is not the wheel's package of version {VERSION}")
    said = run([python.parent / "pytest", "-q", "-p", "no:cacheprovider", ROOT / "bindings/python/tests"], cwd=work)
    print("  " + said.strip().splitlines()[-1])


def try_wheel(version, python):
    wheel, = OUT.glob(f"towpath-*-cp{version.replace('.', '')}-*.whl")
    nixl, = OUT.glob("towpath_nixl-*.whl")
    with tempfile.TemporaryDirectory(prefix="towpath-package-") as folder:
        work = Path(folder)
        run([python, "-m", "venv", work / "venv"])
        installed = work / "venv/bin/python"
        run([installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel, nixl])
        prefix = try_command(installed, work)
        try_libraries(installed, prefix, work)
        try_python(installed, work)


def in_root(suite, packages, script, *files):
    """Makes an empty root of a Debian, with these files in /given, and runs the script in it."""
    with tempfile.TemporaryDirectory(prefix="towpath-root-") as folder:
        hooks = ['mkdir "$1/given"', *(f"copy-in {file} /given" for file in files), f'chroot "$1" sh -ec {shlex.quote(script)} >&2']
        try:
            debian_roots.bootstrap(f"{folder}/root", suite, packages, variant="minbase", hooks=hooks)
        except debian_roots.Missing as failed:
            sys.exit(f"package test: {failed}")


def try_roots():
    for suite, version in (("bookworm", "311"), ("trixie", "313")):
        for wheel in OUT.glob(f"towpath-*-cp{version}-*.whl"):
            in_root(suite, ["python3-minimal", "ca-certificates"],
                    "cd /given; python3 -c 'import zipfile,glob; zipfile.ZipFile(glob.glob(\"*.whl\")[0]).extractall(\"/w\")';"
                    " chmod +x /w/towpath/bin/*; mount -t proc proc /proc; export PYTHONPATH=/w;"
                    " python3 -c 'import towpath.nixl'; python3 -m towpath version;"
                    " python3 -m towpath replay --requests 300; umount /proc", wheel)
            print(f"  {wheel.name} works in an empty root of {suite}")
    packages = list(OUT.glob("*.deb"))
    if packages:
        in_root("bookworm", ["gcc", "libc6-dev", "pkg-config"],
                "apt-get install -y --no-install-recommends /given/*.deb; mount -t proc proc /proc; towpath version;"
                " towpath replay --requests 300; cd /given; towpath-shmcc openshmem_primes.c -o primes; towpath run -n 2 -- ./primes;"
                " umount /proc", *packages, ROOT / "examples/openshmem_primes.c")
        print(f"  {' '.join(path.name for path in packages)} work in an empty root of bookworm")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", action="append", metavar="VERSION", help="only the wheel of this one; may be repeated")
    arguments.add_argument("--no-roots", action="store_true", help="without empty roots, which take root and a Debian mirror")
    args = arguments.parse_args()
    here = interpreters()
    for version in args.python or [v for v in here if list(OUT.glob(f"towpath-*-cp{v.replace('.', '')}-*.whl"))]:
        print(f"Python {version}: {here[version]}", flush=True)
        try_wheel(version, here[version])
    if args.no_roots:
        print("empty roots: not tried, as asked")
        return
    try:
        debian_roots.check_tools()
    except debian_roots.Missing as missing:
        print(f"empty roots: not tried: {missing}")
        return
    try_roots()


if __name__ == "__main__":
    main()
