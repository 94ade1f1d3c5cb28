#!/usr/bin/env python3
"""Checks libnixl_capi.so from outside: what it shows, what it calls itself, what it needs, and that
its header compiles by itself as C and as C++.

functions.txt lists the functions by hand: removing one from the library breaks those who use it.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent / "nixl_capi.h"
# Of the system, so that a process that has them already gets no second copy.
MAY_NEED = re.compile(r"lib(c|m|gcc_s|stdc\+\+|pthread|dl|rt|(?:a|l|t|ub)san|clang_rt\.\w+|uring|xxhash|numa|curl|crypto|ssl|prometheus-cpp-\w+|"
                      r"uc[pstm]+)(-[\w.]+)?\.so(\.\d+)*|ld-linux[\w.-]*")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def difference(what, wanted, got):
    for name in sorted(wanted - got):
        yield f"{what}: {name} is missing"
    for name in sorted(got - wanted):
        yield f"{what}: {name} is too much"


def check_names(args, wanted):
    shown = {line.split()[-1] for line in output(args.nm, "-D", "--defined-only", args.library).splitlines()}
    yield from difference("the library", wanted, shown)
    declared = set(re.findall(r"\b(nixl_capi_\w+)\(", HEADER.read_text()))
    yield from difference("the header", wanted, declared)


def check_dynamic_section(args):
    text = output(args.readelf, "-d", args.library)
    if "[libnixl_capi.so.0]" not in text:
        yield "the library is not called libnixl_capi.so.0"
    for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", text):
        if not MAY_NEED.fullmatch(needed):
            yield f"the library needs {needed}"


def check_header(args):
    for compiler, language, standard in ((args.c, "c", "c11"), (args.cxx, "c++", "c++17")):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "alone"
            source.write_text('#include "nixl_capi.h"\nint main(void) { return nixl_capi_is_stub(); }\n')
            done = subprocess.run([compiler, f"-x{language}", f"-std={standard}", "-pedantic-errors", "-Wall",
                                   "-Wextra", "-Werror", "-fsyntax-only", f"-I{HEADER.parent}", str(source)],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                yield f"the header as {standard}: {done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "nm", "readelf", "c", "cxx"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    wanted = set((HERE / "functions.txt").read_text().split())
    faults = [*check_names(args, wanted), *check_dynamic_section(args), *check_header(args)]
    print("\n".join(faults) or f"{len(wanted)} functions, and nothing else")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
