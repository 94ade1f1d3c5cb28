"""`python -m towpath`: the command `towpath` that came with the package, and where its files are.

    python -m towpath --prefix     the folder with bin, lib and include
    python -m towpath doctor       as `towpath doctor`
"""
import os
import sys
from pathlib import Path


def prefix() -> Path:
    """The folder of the package. In an installed one: bin/towpath, bin/towpath-shmcc, lib/libnixl_capi.so,
    lib/towpath/nvshmem/libnvshmem_host.so.3, include/towpath/c/towpath.h, include/towpath/nixl/nixl_capi.h,
    include/towpath/openshmem/shmem.h."""
    return Path(__file__).resolve().parent


def run(name: str, arguments: "list[str]") -> None:
    """Becomes the program `name` of the package; ends with a message where there is none."""
    program = prefix() / "bin" / name
    try:
        os.execv(program, [name, *arguments])
    except OSError as error:
        sys.exit(f"towpath: cannot run {program}: {error.strerror} (hint: in a tree of sources the program is "
                 f"build/release/tools/{name}; an installed wheel has it)")


def run_towpath() -> None:
    run("towpath", sys.argv[1:])


def run_shmcc() -> None:
    run("towpath-shmcc", sys.argv[1:])


def run_shmcxx() -> None:
    run("towpath-shmc++", sys.argv[1:])


if __name__ == "__main__":
    if sys.argv[1:] == ["--prefix"]:
        print(prefix())
    else:
        run_towpath()
