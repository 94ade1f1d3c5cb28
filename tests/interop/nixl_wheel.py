#!/usr/bin/env python3
"""Runs one script on NIXL's own wheel and on towpath.nixl, and compares what each call answers.

  nixl_wheel.py --package build/release/python --work build/interop

The wheel comes from the package index that pip is set up for, with an empty module where it imports
torch: nothing of it is called. Exits with 0 when all answers are alike but for those under ALLOWED, 1
when others differ (or one that is allowed differs no more), 3 when nothing could be run.
"""
import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "1.5.1"
TIMEOUT_S = 900

NAMES_THE_ROW = "InvalidParam, with the number of the row and what is wrong with it, where NIXL says not found"
VIEWS = "works: NIXL makes views of a GPU's memory alone, for transfers that it starts; ours are sides of transfers"
NEGATIVE = "a ValueError that says which: a number below 0 is no device; of tuples NIXL refuses them as well"
# Call -> why ours answers otherwise.
ALLOWED = {
    "view of host memory": VIEWS,
    "view of host memory, by a backend": VIEWS,
    "UCX with a parameter that it has not": "InvalidParam, with its name and those that there are; NIXL says nothing",
    "parameters of a plug-in": "those that our backends read; NIXL's are taken all the same, with a line in the log",
    "table of strides, no blocks": NAMES_THE_ROW,
    "table of strides, no bytes": NAMES_THE_ROW,
    "table of strides, overlapping": NAMES_THE_ROW,
    "index negative": "an OverflowError, as for every number that is none of 32 bits",
    "taken back: +UCX -UCX,POSIX -": "whole or not at all: NIXL takes it from UCX, and says that it found nothing",
    "nixlXferDList, table of a negative device": NEGATIVE,
    "nixlRegDList, table of a negative device": NEGATIVE,
    "table of strides of 32 bits": "a TypeError, as for every other table of integers; NIXL's is a ValueError",
}

TORCH = "class Tensor: pass\nclass device: pass\nclass version: cuda = None\n"


class CannotRun(Exception):
    pass


def run(words, **options):
    done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIMEOUT_S, **options)
    return done


def wheel(work):
    """A Python that has NIXL's wheel and numpy, and nothing else."""
    home = work / f"nixl-{VERSION}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        try:
            venv.create(home, with_pip=True)
        except subprocess.CalledProcessError as error:
            raise CannotRun(f"no environment of Python can be made ({error}): apt-get install python3-venv") from None
        for packages in (["numpy"], ["--no-deps", f"nixl=={VERSION}", f"nixl-cu12=={VERSION}"]):
            done = run([python, "-m", "pip", "install", "-q", *packages])
            if done.returncode != 0:
                raise CannotRun(f"pip cannot install {' '.join(packages)}:\n{done.stderr.strip()}")
        site = next(home.glob("lib/python*/site-packages"))
        (site / "torch.py").write_text(TORCH)
        (home / "ready").touch()
    return python


# What vLLM sets for UCX: no word of it belongs on the terminal.
OF_VLLM = {"UCX_RCACHE_MAX_UNRELEASED": "1024", "UCX_MEM_MMAP_HOOK_MODE": "none"}


def answers(python, extra):
    """What each call answered, and what the program wrote beside it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NIXL_", "TOWPATH_", "PYTHON"))}
    env.update(NIXL_LOG_LEVEL="FATAL", **OF_VLLM, **extra)
    done = run([python, HERE / "nixl_calls.py"], env=env)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"call"'):
            entry = json.loads(line)
            found[entry["call"]] = entry["answer"]
    if not found.pop("end", False):
        raise CannotRun(f"{python} did not come to the end (exit {done.returncode}):\n{done.stderr[-2000:]}")
    beside = [line for line in done.stdout.splitlines() if not line.startswith('{"call"')] + done.stderr.splitlines()
    return found, "\n".join(beside)


def compare(theirs, ours):
    """Prints each difference; the number of those that are not allowed, or allowed without need."""
    wrong = 0
    for call in theirs:
        differs = theirs[call] != ours.get(call)
        if differs == (call in ALLOWED):
            if differs:
                print(f"  allowed: {call}: {ALLOWED[call]}")
            continue
        wrong += 1
        word = "differs" if differs else "is allowed to differ, and does not"
        print(f"  {call} {word}\n    NIXL:    {theirs[call]}\n    Towpath: {ours.get(call)}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, required=True, help="the folder that has towpath")
    parser.add_argument("--work", type=Path, required=True, help="for the wheel and its environment")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    name = HERE.parents[1] / "bindings" / "python" / "nixl_name"
    try:
        theirs, _ = answers(wheel(args.work.resolve()), {"UCX_LOG_LEVEL": "fatal"})
        ours, beside = answers("/usr/bin/python3", {"PYTHONPATH": f"{args.package.resolve()}:{name}",
                                            "PYTHONDONTWRITEBYTECODE": "1"})
    except CannotRun as why:
        print(f"nixl_wheel: {why}", file=sys.stderr)
        return 3
    print(f"nixl {VERSION} and towpath.nixl: {len(theirs)} calls")
    wrong = compare(theirs, ours)
    if beside:
        wrong += 1
        print(f"  Towpath writes at NIXL_LOG_LEVEL=FATAL:\n{beside[-2000:]}")
    print(f"{wrong} differ" if wrong else "all alike, but for those")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
