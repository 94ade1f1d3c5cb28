#!/usr/bin/env python3
"""Runs Dynamo's unmodified `dynamo.nixl_connect` between two processes, over our `nixl`: one reads what the other offers, and
writes into what it opens; every byte is compared.

  dynamo_connect.py --package build/release/python --work build/interop

The module comes from the wheel ai-dynamo-runtime of the package index that pip is set up for (75 MB, fetched once); of torch it asks a
class `Tensor` alone, and gets an empty one. Exits with 0 when all bytes were right, 1 when not, 3 when nothing could be run, and says why.
"""
import argparse
import asyncio
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

from nixl_wheel import TORCH, CannotRun

VERSION = "1.6.1"
WHEEL, MODULE = f"ai-dynamo-runtime=={VERSION}", "dynamo/nixl_connect/__init__.py"
SIZES = [8, 4096, (1 << 20) + 3, 16 << 20]  # bytes of each piece
LONGEST_S = 120


def pip(python, *words):
    done = subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, words)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise CannotRun(f"pip cannot do {' '.join(map(str, words))}:\n{done.stdout.strip()}")


def interpreter(work, python):
    """A Python of the kind that ours is built for, with Dynamo's module and what it imports."""
    home = work / f"dynamo-connect-{VERSION}"
    if not (home / "ready").exists():
        done = subprocess.run([python, "-m", "venv", home], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise CannotRun(f"no environment of Python can be made ({done.stdout.strip()}): apt-get install python3-venv")
        pip(home / "bin/python", "install", "numpy", "pydantic")
        pip(home / "bin/python", "download", "--no-deps", "--dest", home / "wheel", WHEEL)
        site = next(home.glob("lib/python*/site-packages"))
        wheel, = (home / "wheel").glob("*.whl")
        zipfile.ZipFile(wheel).extract(MODULE, site)  # the module alone: the rest is Dynamo's runtime
        wheel.unlink()
        (site / "torch.py").write_text(TORCH)
        (home / "ready").touch()
    return home / "bin/python"


# The two processes: what each says is a line on its standard output for the other's input. -------------------

def pattern(seed, size):
    import numpy
    return numpy.random.default_rng(seed).integers(0, 256, size, numpy.uint8)


def say(text):
    print(text, flush=True)


async def owner():
    """Offers memory to be read, then opens memory to be written into."""
    import numpy
    from dynamo import nixl_connect
    connector = nixl_connect.Connector()
    pieces = [pattern(index, size) for index, size in enumerate(SIZES)]
    with await connector.create_readable([nixl_connect.Descriptor((piece, "cpu")) for piece in pieces]) as offered:
        say(offered.metadata().model_dump_json())
        await offered.wait_for_completion()
    room = [numpy.zeros(size, numpy.uint8) for size in SIZES]
    with await connector.create_writable([nixl_connect.Descriptor((piece, "cpu")) for piece in room]) as opened:
        say(opened.metadata().model_dump_json())
        await opened.wait_for_completion()
    wrong = [size for index, (size, piece) in enumerate(zip(SIZES, room)) if not (piece == pattern(100 + index, size)).all()]
    say(f"written wrong: {wrong}" if wrong else "good")


async def mover():
    """Reads, compares, and writes."""
    import numpy
    from dynamo import nixl_connect
    connector = nixl_connect.Connector()
    room = [numpy.zeros(size, numpy.uint8) for size in SIZES]
    theirs = nixl_connect.RdmaMetadata.model_validate_json(sys.stdin.readline())
    with await connector.begin_read(theirs, [nixl_connect.Descriptor((piece, "cpu")) for piece in room]) as reading:
        await reading.wait_for_completion()
    wrong = [size for index, (size, piece) in enumerate(zip(SIZES, room)) if not (piece == pattern(index, size)).all()]
    theirs = nixl_connect.RdmaMetadata.model_validate_json(sys.stdin.readline())
    pieces = [pattern(100 + index, size) for index, size in enumerate(SIZES)]
    with await connector.begin_write([nixl_connect.Descriptor((piece, "cpu")) for piece in pieces], theirs) as writing:
        await writing.wait_for_completion()
    say(f"read wrong: {wrong}" if wrong else "good")


def run(args):
    """What both sides said last."""
    python = interpreter(args.work.resolve(), args.python)
    name = Path(__file__).resolve().parents[2] / "bindings/python/nixl_name"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("NIXL_", "TOWPATH_", "PYTHON"))}
    env.update(PYTHONPATH=f"{args.package.resolve()}:{name}", PYTHONDONTWRITEBYTECODE="1")
    owner, mover = sides = [subprocess.Popen([python, __file__, "--side", side], env=env, text=True, stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE) for side in ("owner", "mover")]
    watchdog = threading.Timer(LONGEST_S, lambda: [side.kill() for side in sides])
    watchdog.start()
    try:
        for _ in range(2):  # what may be read, then what may be written into
            mover.stdin.write(owner.stdout.readline())
            mover.stdin.flush()
        return [side.stdout.readline().strip() or "it ended without a word" for side in sides]
    except BrokenPipeError:
        return ["the mover ended before its time"]
    finally:
        watchdog.cancel()
        for side in sides:
            side.kill()
            side.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, help="the folder that has towpath")
    parser.add_argument("--work", type=Path, help="for the wheel and its environment")
    parser.add_argument("--python", default="/usr/bin/python3", help="that towpath is built for")
    parser.add_argument("--side", choices=["owner", "mover"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        asyncio.run(owner() if args.side == "owner" else mover())
        return 0
    try:
        said = run(args)
    except CannotRun as why:
        print(f"dynamo_connect: {why}", file=sys.stderr)
        return 3
    print(f"dynamo.nixl_connect {VERSION}: {len(SIZES)} pieces read and {len(SIZES)} written between two processes: {', '.join(said)}")
    return 0 if said == ["good", "good"] else 1


if __name__ == "__main__":
    sys.exit(main())
