#!/usr/bin/env python3
"""Runs the tests of a Rust test program each in a process of its own: cargo's runner for suites in which one test that
finds no GPU would poison what the others share. Called by cargo as `apart.py PROGRAM [ARGUMENT]...`.

A test that fails since there is no libcuda.so is left out, and counted as such.
"""
import re
import subprocess
import sys

NO_CUDA = 'Unable to dynamically load the "cuda" shared library'
TIMEOUT_S = 300


def run(*words):
    return subprocess.run(words, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)


def main():
    program = sys.argv[1]
    passed, left_out, failed = 0, 0, []
    for test in re.findall(r"^(.+): test$", run(program, "--list").stdout, re.M):
        done = run(program, "--exact", test)
        if done.returncode == 0 and "1 passed" in done.stdout:
            passed += 1
        elif NO_CUDA in done.stdout or "1 ignored" in done.stdout:
            left_out += 1
        else:
            failed.append(test)
            print(done.stdout)
    for test in failed:
        print(f"    {test}")
    print(f"left out: {left_out} tests, which need a GPU's driver")
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
