#!/usr/bin/env python3
"""Compares what ran with what must run: check_matrix.py MINIMUM MATRIX... prints the matrix and is
red, naming each, when a line of MINIMUM did not run.

    MATRIX    backend <tab> kinds <tab> case <tab> ran | failed | skipped: why
    MINIMUM   backend kinds case          # empty lines and comments are passed over

--without BACKEND MINIMUM MATRIX... asks nothing of one that is not in this build; repeatable. --update MINIMUM
MATRIX... writes MINIMUM anew from what ran; --self-test proves that it can fail.
"""
import sys
from collections import defaultdict
from pathlib import Path


def rows_of(text):
    for line in text.splitlines():
        backend, kinds, case, outcome = line.split("\t", 3)
        yield (backend, kinds, case), outcome


def wanted_of(text, without=()):
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return [tuple(line) for line in lines if line and line[0] not in without]


def missing(wanted, rows):
    """[(row, why it did not run)]"""
    return [(row, rows.get(row, "not there")) for row in wanted if rows.get(row) != "ran"]


def table(rows):
    """A paragraph per backend and kinds: what ran, then the rest with its reasons."""
    groups = defaultdict(lambda: defaultdict(list))
    for (backend, kinds, case), outcome in rows.items():
        groups[backend, kinds][outcome].append(case)
    for (backend, kinds), outcomes in groups.items():
        yield f"{backend}, {kinds}: {len(outcomes.get('ran', []))} ran"
        for outcome, cases in outcomes.items():
            for case in cases:
                yield f"    {case}" if outcome == "ran" else f"  - {case}: {outcome}"


def self_test():
    rows = dict(rows_of("a\tk\tone\tran\na\tk\ttwo\tskipped: no\tdisk\na\tk\tthree\tfailed\n"))
    wanted = wanted_of("# all\na k one  # this\n\na k two\na k three\nb k one\n")
    assert missing(wanted, rows) == [(("a", "k", "two"), "skipped: no\tdisk"),
                                     (("a", "k", "three"), "failed"), (("b", "k", "one"), "not there")]
    assert missing(wanted[:1], rows) == []
    assert wanted_of("a k one\nb k one\n", without=["b"]) == wanted[:1]


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    without = []
    while arguments[0] == "--without":
        without.append(arguments[1])
        arguments = arguments[2:]
    if without:
        print(f"not in this build, so nothing is asked of: {' '.join(without)}\n")
    update = arguments[0] == "--update"
    minimum, *matrices = map(Path, arguments[1:] if update else arguments)
    rows = {row: outcome for matrix in matrices for row, outcome in rows_of(matrix.read_text())}
    if update:
        ran = [" ".join(row) for row, outcome in rows.items() if outcome == "ran"]
        head = "# What must have run: backend, kinds, case. Written by check_matrix.py --update.\n"
        minimum.write_text(head + "\n".join(ran) + "\n")
        return None
    wanted = wanted_of(minimum.read_text(), without)
    print("\n".join(table(rows)))
    more = sum(outcome == "ran" for row, outcome in rows.items() if row not in set(wanted))
    if more:
        print(f"\n{more} cases ran that {minimum.name} does not ask for yet: --update")
    for row, why in (gaps := missing(wanted, rows)):
        print(f"MISSING {' '.join(row)}: {why}")
    return f"{len(gaps)} of {len(wanted)} did not run" if gaps else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
