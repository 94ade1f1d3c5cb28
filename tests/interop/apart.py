#!/usr/bin/env python3
"""Runs the tests of a Rust test program each in a process of its own: cargo's runner for suites in which one test that
finds no GPU would poison what the others share. Called by cargo as `apart.py PROGRAM [ARGUMENT]...`.

A test that fails since there is no libcuda.so is left out, and counted as such.
"""
import re
import subprocess
import sys

# The one panic of a test; another one would be a failure.
FOR_WANT_OF_CUDA = re.compile(r'\A(?:(?!panicked at).)*panicked at [^\n]*\n[^\n]*Unable to dynamically load the "cuda" shared library(?:(?!panicked at).)*\Z', re.S)
TIMEOUT_S = 300


def run(*words):
    try:
        return subprocess.run(words, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, f"{words[-1]} did not end within {TIMEOUT_S} s\n")


def main():
    program = sys.argv[1]
    listed = run(program, "--list")
    if listed.returncode != 0:
        sys.exit(f"{program} --list: status {listed.returncode}\n{listed.stdout}")
    passed, left_out, failed = 0, 0, []
    for test in re.findall(r"^(.+): test$", listed.stdout, re.M):
        done = run(program, "--exact", test)
        if done.returncode == 0 and "1 passed" in done.stdout:
            passed += 1
        elif "1 ignored" in done.stdout or re.search(FOR_WANT_OF_CUDA, done.stdout):
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
