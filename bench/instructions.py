#!/usr/bin/env python3
"""Instructions in user space, of both sides, that one small transfer or notification over tcp takes.

    cmake --build build/release --target small
    bench/instructions.py build/release/bench/small [THE SAME OF ANOTHER COMMIT...]

Counted by callgrind, as the difference between more and fewer of them.
"""
import re
import subprocess
import sys

FEW, MANY = 200, 1200
CASES = {"read 4 KiB": ["read", "4096"], "write 4 KiB": ["write", "4096"], "notification of 40 B": ["notify", "4096"],
         "read 4 KiB, TLS": ["read", "4096", "tls"]}


def instructions(program, what, count, *options):
    counted = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, what, str(count), *options],
                             capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", counted.stderr)[1])


def main(programs):
    for case, (what, *options) in CASES.items():
        each = [(instructions(program, what, MANY, *options) - instructions(program, what, FEW, *options)) // (MANY - FEW) for program in programs]
        print(f"{case:24}" + "".join(f"{count:10,}" for count in each), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
