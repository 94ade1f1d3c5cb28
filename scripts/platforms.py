#!/usr/bin/env python3
"""Builds and tests Towpath on each platform that it claims, each in a root of its own, and prints a table. `./dev
platforms` calls it; the packages that a build needs are its argument.

    platforms.py --packages "g++ cmake ..." [--jobs N] [--targets TARGET,...] [--ubuntu MIRROR] [NAME]...

A platform that cannot be had here is a row with the reason, and no failure.
"""
import argparse
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import debian_roots
from debian_roots import Missing

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/platforms"
ARM = "aarch64-linux-gnu"
CROSS_COMPILER = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "aarch64", "CMAKE_C_COMPILER": f"{ARM}-gcc",
                  "CMAKE_CXX_COMPILER": f"{ARM}-g++", "CMAKE_LIBRARY_ARCHITECTURE": ARM}
CROSS = (*(f"-D{name}={value}" for name, value in CROSS_COMPILER.items()),
         "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static", "-DTOWPATH_PYTHON=OFF")
# The suites of whole modules; without --targets the platforms build and run these.
SUITES = [f"{module}_test" for module in ("core", "sys", "wire", "telemetry", "run", "net", "device", "memory",
                                          "layout", "backend", "agent", "kv")]
# Not wanted where a package is for the machine that builds.
TOOLS = {"g++", "cmake", "ninja-build", "ccache", "git", "pkg-config", "nlohmann-json3-dev", "libcli11-dev", "etcd-server",
         "openssl", "iproute2", "python3-swift", "python3-dev", "pybind11-dev", "python3-numpy", "python3-pytest", "python3-uvloop"}


@dataclass
class Platform:
    """One row: a root, the compiler in it, and how it is reported to CMake."""
    name: str
    system: str
    suite: str
    compiler: str  # its package
    options: tuple = ()
    arm: bool = False
    ubuntu: bool = False


def clang(version):
    return (f"-DCMAKE_CXX_COMPILER=clang++-{version}", f"-DCMAKE_C_COMPILER=clang-{version}")


PLATFORMS = [
    Platform("debian12", "Debian 12", "bookworm", "g++"),
    Platform("debian13", "Debian 13", "trixie", "g++"),
    Platform("ubuntu24.04", "Ubuntu 24.04", "noble", "g++", ubuntu=True),
    # Debian's libgtest.a needs the libstdc++ of the g++ 14 that made it.
    Platform("gcc13", "Debian 13", "trixie", "g++-13", ("-DCMAKE_CXX_COMPILER=g++-13", "-DCMAKE_C_COMPILER=gcc-13",
                                                        "-DCMAKE_EXE_LINKER_FLAGS=-L/usr/lib/gcc/x86_64-linux-gnu/14")),
    Platform("clang16", "Debian 12", "bookworm", "clang-16", clang(16)),
    Platform("clang19", "Debian 13", "trixie", "clang-19", clang(19)),
    Platform("aarch64", "Debian 12, aarch64", "bookworm", f"g++-{ARM}", CROSS, arm=True),
]


def root_of(platform, packages, ubuntu):
    """Its root, shared by the platforms of one suite."""
    if platform.ubuntu and not ubuntu:
        raise Missing("needs a mirror of Ubuntu: --ubuntu")
    if not platform.arm:
        compilers = sorted({other.compiler for other in PLATFORMS if other.suite == platform.suite and not other.arm})
        return debian_roots.kept(platform.suite, platform.suite, [*packages, *compilers],
                                 source=debian_roots.ubuntu_source(ubuntu, platform.suite) if platform.ubuntu else None)
    native = [name for name in packages if name in TOOLS and not re.match("python3-|pybind11|g[+][+]", name)]
    foreign = [f"{name}:arm64" for name in packages if name not in TOOLS]
    return debian_roots.kept(platform.name, platform.suite, [*native, *foreign, platform.compiler, "python3", "qemu-user-static"],
                             architectures=("amd64", "arm64"))


def steps(platform, targets, jobs):
    """The commands of one platform, by what a failure of each is called in the table."""
    build = f"/build/{platform.name}"
    environment = ["env", f"PKG_CONFIG_LIBDIR=/usr/lib/{ARM}/pkgconfig:/usr/share/pkgconfig"] if platform.arm else []
    yield "configure", [*environment, "cmake", "-S", "/src", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG", "-DTOWPATH_UNITY=ON", "-DTOWPATH_BENCH=OFF",
                        "-DTOWPATH_WERROR=ON", *platform.options]
    extra = [] if platform.arm else ["towpath_python_package"]
    yield "build", ["nice", "cmake", "--build", build, "-j", str(jobs), "--target", *targets, *extra]
    names = "|".join(targets)
    yield "test", ["nice", "ctest", "--test-dir", build, "-j", str(jobs), "--output-on-failure", "-L", "whole", "-R", f"^({names})$"]
    if not platform.arm:
        yield "python", ["env", f"PYTHONPATH={build}/python", "python3", "-c", "import towpath.nixl"]


def compiler_of(root, platform):
    """"GNU 14.2.0", as CMake found it when it configured first."""
    for found in root.glob(f"build/{platform.name}/CMakeFiles/*/CMakeCXXCompiler.cmake"):
        text = found.read_text()
        return " ".join(re.search(rf'CMAKE_CXX_COMPILER_{word} "([^"]*)"', text)[1] for word in ("ID", "VERSION"))
    return "?"


def try_platform(platform, args):
    """One row of the table: its cells, and whether it is red."""
    packages = args.packages.split()
    LOGS.mkdir(parents=True, exist_ok=True)
    log_file = LOGS / f"{platform.name}.log"
    start = time.monotonic()
    try:
        root = root_of(platform, packages, args.ubuntu)
    except Missing as missing:
        return [platform.system, platform.compiler, f"not tried: {missing}", ""], False
    with log_file.open("w") as log:
        for name, words in steps(platform, args.targets, args.jobs):
            status = debian_roots.enter(root, ROOT, words, log)
            log.flush()
            said = log_file.read_text(errors="replace")
            if status != 0:
                return [platform.system, compiler_of(root, platform), f"**{name} failed** ({log_file.relative_to(ROOT)})", ""], True
    counted = re.search(r"\d+% tests passed, \d+ tests failed out of (\d+)", said)
    return [platform.system, compiler_of(root, platform), f"{counted[1] if counted else 'no'} suites pass",
            f"{(time.monotonic() - start) / 60:.0f} min"], not counted


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {' '.join(p.name for p in PLATFORMS)}")
    arguments.add_argument("--packages", required=True, help="what a build needs, as Debian names it")
    arguments.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments.add_argument("--targets", type=lambda text: text.split(","), default=SUITES, help="test programs, by commas")
    arguments.add_argument("--ubuntu", metavar="MIRROR", help="where Ubuntu's packages are")
    args = arguments.parse_args()
    unknown = set(args.names) - {platform.name for platform in PLATFORMS}
    if unknown:
        arguments.error(f"no platform is called {' '.join(sorted(unknown))}")
    red = False
    print("| system | compiler | result | time |\n|---|---|---|---|", flush=True)
    for platform in PLATFORMS:
        if not args.names or platform.name in args.names:
            cells, failed = try_platform(platform, args)
            red = red or failed
            print(f"| {' | '.join(cells)} |", flush=True)
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
