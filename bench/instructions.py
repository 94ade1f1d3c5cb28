#!/usr/bin/env python3
"""Instructions in user space, of both sides, that one small transfer or notification takes, and a transfer's making.

    cmake --build build/release --target small
    bench/instructions.py build/release/bench/small [THE SAME OF ANOTHER COMMIT...]

Counted by callgrind, as the difference between more and fewer of them.
"""
import re
import subprocess
import sys

FEW, MANY = 200, 1200
CASES = {"read 4 KiB, tcp": ["read", "tcp"], "write 4 KiB, tcp": ["write", "tcp"],
         "notification of 40 B, tcp": ["notify", "tcp"], "read 4 KiB, TLS": ["read", "tcp", "tls"],
         "read 4 KiB, loopback": ["read", "loopback"], "notification, loopback": ["notify", "loopback"],
         "a transfer of 64 made": ["make", "loopback"]}


def collected(program, what, count, *options):
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, what, str(count), *options],
                         capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", run.stderr)[1])


def of_one(program, case):
    what, *options = case
    try:
        return f"{(collected(program, what, MANY, *options) - collected(program, what, FEW, *options)) // (MANY - FEW):,}"
    except subprocess.CalledProcessError:
        return "-"  # a commit that has no such thing


def main(programs):
    for name, case in CASES.items():
        print(f"{name:28}" + "".join(f"{of_one(program, case):>10}" for program in programs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
