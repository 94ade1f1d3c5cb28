#!/usr/bin/env python3
"""Checks that a compiler refuses a file exactly where the file says so.

    check_refused.py misuse.cc g++ -std=c++20 -fsyntax-only -I.

A line that ends in `// refused: PATTERN` must have an error whose words match; no other line of the
file, and no other file, may have one.
"""
import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    source, compiler = Path(sys.argv[1]), sys.argv[2:]
    expected = {}
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if mark := re.search(r"// refused: (.+)$", line):
            expected[number] = mark[1]
    said = subprocess.run([*compiler, str(source)], capture_output=True, text=True).stderr
    errors = re.findall(r"^(\S+?):(\d+):\d+: (?:fatal )?error: (.*)$", said, re.MULTILINE)

    faults = [f"{path}:{line}: an error that was not expected: {words}"
              for path, line, words in errors
              if Path(path).name != source.name or int(line) not in expected]
    for number, pattern in expected.items():
        words = [text for _, line, text in errors if int(line) == number]
        if not any(re.search(pattern, text) for text in words):
            faults.append(f"{source}:{number}: not refused as {pattern!r}: {words or 'it compiles'}")
    print("\n".join(faults) or f"{len(expected)} misuses, all refused")
    return 1 if faults or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
