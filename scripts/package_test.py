#!/usr/bin/env python3
"""Tries what scripts/package.py made, as a user gets it: each wheel in an empty virtual environment and in empty
roots of systems that have that Python, the sdist where the compiler is, the packages for Debian in an empty root.
`./dev package --test` calls it.

    package_test.py [--python VERSION]... [--no-roots] [--no-sdist] [--ubuntu MIRROR]
"""
import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import debian_roots  # noqa: E402
from newer_python import new_environment  # noqa: E402
from package import OUT, ROOT, VERSION, interpreters, with_newer  # noqa: E402

# Roots, by their suite: whose it is, and its Python.
SYSTEMS = {"bookworm": ("Debian 12", "3.11"), "trixie": ("Debian 13", "3.13"),
           "jammy": ("Ubuntu 22.04", "3.10"), "noble": ("Ubuntu 24.04", "3.12")}
OUTSIDE = ROOT / "tests/install/outside"


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


# As engines ask for NIXL: of each distribution that brings the module, if there is one (none is found before 3.11).
ASK_NIXL = """
import importlib.metadata as metadata, sys
import nixl, towpath
found = getattr(metadata, "packages_distributions", dict)().get("nixl", [])
versions = [metadata.version(name) for name in found]
assert found or sys.version_info < (3, 11), "no distribution brings nixl"
assert all(tuple(map(int, version.split("."))) >= (1, 5, 0) for version in versions), versions
assert metadata.version("towpath-nixl") == nixl.__version__
print(towpath.__file__, towpath.__version__, nixl.__version__)
"""


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
                                     ("outside_nixl", "nixl_capi", [f"-I{include}/nixl"])):
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
    where = run([python, "-c", ASK_NIXL], cwd=work).split()
    print(f"  nixl {where[2]} is accepted")
    if not where[0].startswith(str(work)) or where[1] != VERSION:
        sys.exit(f"package test: {where} is not the wheel's package of version {VERSION}")
    said = run([python.parent / "pytest", "-q", "-p", "no:cacheprovider", ROOT / "bindings/python/tests"], cwd=work)
    print("  " + said.strip().splitlines()[-1])


def choose_wheels(names, wanted, machine):
    """Of the files with these names, by version, the wheel of each Python for that machine; or of those that are wanted,
    which must be there."""
    found = filter(None, (re.fullmatch(rf"towpath-[^-]+-cp3(\d+)-.*_{machine}\.whl", name) for name in names))
    made = {f"3.{name[1]}": name[0] for name in sorted(found, key=lambda name: int(name[1]))}
    lacking = [version for version in wanted or () if version not in made]
    if lacking or not made:
        sys.exit(f"package test: no wheel for {machine} and Python {' '.join(lacking) or 'any'} in build/package, but for"
                 f" {' '.join(made) or 'none'} (hint: ./dev package makes them, with --machine those of another one)")
    return {version: made[version] for version in wanted or made}


def wheels(wanted, machine=platform.machine()):
    names = [path.name for path in OUT.glob("*.whl")]
    return {version: OUT / name for version, name in choose_wheels(names, wanted, machine).items()}


def choose_for_sdist(here, made):
    """The version that builds the sdist, of those that have a pip of their own: the newest that a wheel was made for."""
    return next(iter([*(version for version in reversed(list(made)) if version in here), *reversed(list(here))]), None)


def try_wheel(wheel, python):
    nixl, = OUT.glob("towpath_nixl-*.whl")
    with tempfile.TemporaryDirectory(prefix="towpath-package-") as folder:
        work = Path(folder)
        for command in new_environment(python, work / "venv"):
            run(command)
        installed = work / "venv/bin/python"
        run([installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel, nixl])
        prefix = try_command(installed, work)
        if not (prefix / "licenses/pybind11").is_file():
            sys.exit(f"package test: {wheel.name} has pybind11 inside, and not its licence")
        try_libraries(installed, prefix, work)
        try_python(installed, work)


def try_sdist(python):
    """Unpacked far from the tree, and built there; as deep and with the options of the tree's presets, so that ccache
    gives what they compiled."""
    sdist, = OUT.glob("towpath-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="towpath-sdist-") as folder:
        work = Path(folder)
        run(["tar", "-xf", sdist, "--strip-components=1", "-C", work])
        run([python, "-m", "venv", work / "build/venv"])
        run([work / "build/venv/bin/pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", work / "build",
             "--config-settings=build-dir=build/sdist", "--config-settings=cmake.define.TOWPATH_WERROR=ON", "."], cwd=work)
        wheel, = (work / "build").glob("*.whl")
        run([work / "build/venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel])
        try_command(work / "build/venv/bin/python", work / "build")


def in_root(suite, packages, script, *files, source=None):
    """Makes an empty root of a system, with these files in /given, and runs the script in it."""
    script = f"mount -t proc proc /proc; trap 'umount /proc' EXIT; cd /given; {script}"
    with tempfile.TemporaryDirectory(prefix="towpath-root-") as folder:
        hooks = ['mkdir "$1/given"', *(f"copy-in {file} /given" for file in files), f'chroot "$1" sh -ec {shlex.quote(script)} >&2']
        try:
            debian_roots.bootstrap(f"{folder}/root", suite, packages, variant="minbase", hooks=hooks, source=source)
        except debian_roots.Missing as failed:
            sys.exit(f"package test: {failed}")


# Python brings it; a distribution may have taken it out, and keeps it elsewhere (Debian: python3-pip-whl).
FIND_PIP = """
import ensurepip, pathlib
folders = [pathlib.Path(ensurepip.__file__).parent / "_bundled", getattr(ensurepip, "_WHEEL_PKG_DIR", None), "/usr/share/python-wheels"]
print(*[wheel for folder in folders if folder for wheel in pathlib.Path(folder).glob("pip-*.whl")][:1])
"""


def pip_wheel(python):
    """The wheel of pip that this interpreter makes environments with."""
    found = run([python, "-c", FIND_PIP]).strip()
    if not found:
        sys.exit(f"package test: {python} has no wheel of pip (hint: apt-get install python3-pip-whl)")
    return found


def try_wheel_in_root(suite, source, here, made):
    """Installed by pip, without an index, into a system that has Python and numpy."""
    system, version = SYSTEMS[suite]
    if version not in made:
        print(f"  {system}: not tried: the wheel of its Python {version} is not there, or not wanted")
        return
    with tempfile.TemporaryDirectory() as folder:
        example = Path(folder) / "example.py"
        example.write_text(python_example())
        in_root(suite, ["python3", "python3-numpy", "libstdc++6", "ca-certificates"],
                "python3 $(echo pip-*.whl)/pip install --no-index --break-system-packages towpath*.whl; rm *.whl;"
                " python3 example.py; python3 -c 'import nixl; nixl.nixl_agent'; towpath version; towpath replay --requests 300",
                made[version], *OUT.glob("towpath_nixl-*.whl"), pip_wheel(here[version]), example, source=source)
    print(f"  {made[version].name} works in an empty root of {system}")


MINOR = VERSION.rpartition(".")[0]
# What is in the libraries' names: until 1.0 the minor version, but where programs look for another number.
SOVERSIONS = {"libtowpath": MINOR, "libtowpath_c": MINOR, "libtowpath_openshmem": MINOR, "libnixl_capi": "0", "libnvshmem_host": "3"}


def check_copyright(packages):
    for package in packages:
        if f"./usr/share/doc/{package.name.partition('_')[0]}/copyright\n" not in run(["dpkg-deb", "--contents", package]):
            sys.exit(f"package test: {package.name} has no copyright file")


def check_names():
    """What the packages' libraries are called, and what a package that is built with them will depend on."""
    package, = OUT.glob(f"libtowpath{MINOR}_*.deb")
    with tempfile.TemporaryDirectory() as folder:
        run(["dpkg-deb", "-x", package, folder])
        libraries = [path for path in Path(folder).rglob("*.so*") if not path.is_symlink()]
        found = re.findall(r"\(SONAME\).*\[(.+)\]", run(["readelf", "-d", *libraries]))
    named = {f"{library}.so.{number}" for library, number in SOVERSIONS.items()}
    if set(found) != named:
        sys.exit(f"package test: {package.name} has {' '.join(sorted(found))}, and not {' '.join(sorted(named))}")
    needs = {f"{library} {number} libtowpath{MINOR} (>= {VERSION})" for library, number in SOVERSIONS.items()}
    said = run(["dpkg-deb", "--info", package, "shlibs"])
    if set(said.splitlines()) != needs:
        sys.exit(f"package test: the shlibs of {package.name} are\n{said}and not\n" + "\n".join(sorted(needs)))


def try_debian_packages(packages):
    in_root("bookworm", ["gcc", "g++", "libc6-dev", "pkg-config"],
            "apt-get install -y --no-install-recommends ./*.deb; towpath version; towpath replay --requests 300;"
            " towpath-shmcc openshmem_primes.c -o primes; towpath run -n 2 -- ./primes;"
            " cc outside_nixl.c -o outside_nixl $(pkg-config --cflags --libs nixl_capi) -ldl; ./outside_nixl;"
            " for library in towpath towpath_shared; do"
            " g++ -std=c++20 outside.cc -o outside $(pkg-config --cflags --libs $library); ./outside; done",
            *packages, ROOT / "examples/openshmem_primes.c", OUTSIDE / "outside_nixl.c", OUTSIDE / "outside.cc")
    print(f"  {' '.join(sorted(path.name for path in packages))} work in an empty root of Debian 12")


def try_roots(here, made, debian, ubuntu):
    try:
        debian_roots.check_tools()
    except debian_roots.Missing as missing:
        print(f"empty roots: not tried: {missing}")
        return
    for suite in SYSTEMS:
        if suite in ("jammy", "noble") and not ubuntu:
            print(f"  {SYSTEMS[suite][0]}: not tried: needs a mirror of Ubuntu (--ubuntu)")
            continue
        source = debian_roots.ubuntu_source(ubuntu, suite) if suite in ("jammy", "noble") else None
        try_wheel_in_root(suite, source, here, made)
    if debian:
        try_debian_packages(debian)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", action="append", metavar="VERSION", help="only the wheel of this one; may be repeated")
    arguments.add_argument("--no-roots", action="store_true", help="without empty roots, which take root and a Debian mirror")
    arguments.add_argument("--no-sdist", action="store_true", help="without building the sdist, which takes as long as the tree")
    arguments.add_argument("--ubuntu", metavar="MIRROR", help="where Ubuntu's packages are, for roots of it")
    args = arguments.parse_args()
    made, own = wheels(args.python), interpreters()
    here = with_newer(dict(own), made)
    for version, wheel in made.items():
        print(f"Python {version}: {here[version]}", flush=True)
        try_wheel(wheel, here[version])
    version = choose_for_sdist(own, made)
    if not version:
        print("sdist: not tried: no Python here with headers and a pip")
    elif not args.no_sdist:
        try_sdist(own[version])
    debian = list(OUT.glob("*.deb"))
    if debian:
        check_copyright(debian)
        check_names()
    if not args.no_roots:
        try_roots(here, made, debian, args.ubuntu)


if __name__ == "__main__":
    main()
