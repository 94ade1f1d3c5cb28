#!/usr/bin/env python3
"""Reads every #include of the tree and says which one points up (layers.txt is the table), or comes in by
another module's private door (PUBLIC and INTERNAL of towpath_module()).

    file:line: a may not include b: reason

--self-test proves on made-up trees that each rule can fail.
"""
import fnmatch
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")')
TEST_FILE = re.compile(r".*_test\.cc|.*_fixture\.(h|cc)|test_.*")
TEST_FOLDERS = {"testing", "conformance"}
# Headers of the C library and the kernel end in .h and are plain or in one of these folders.
SYSTEM_FOLDERS = {"sys", "linux", "asm", "netinet", "arpa", "net"}


@dataclass
class Row:
    name: str
    allowed: list
    reason: str


@dataclass
class Table:
    rows: list = field(default_factory=list)     # modules, in the order of the house
    outside: list = field(default_factory=list)  # libraries that are not ours

    def row_of(self, module):
        """The row of a module; the most exact pattern wins."""
        found = [row for row in self.rows if fnmatch.fnmatchcase(module, row.name)]
        return max(found, key=lambda row: ("*" not in row.name, len(row.name)), default=None)

    def stands_above(self, upper, lower):
        return self.rows.index(upper) < self.rows.index(lower)


def parse(text):
    table, problems = Table(), []
    for number, line in enumerate(text.splitlines(), 1):
        body, _, reason = (part.strip() for part in line.partition("#"))
        if not body:
            continue
        name, colon, allowed = body.partition(":")
        row = Row(name.strip(), allowed.split(), reason)
        if not colon:
            problems.append(f"layers.txt:{number}: expected `module: modules  # reason`")
        elif name.startswith("<"):
            row.name = row.name.strip("<>")
            table.outside.append(row)
        else:
            known = {above.name for above in table.rows} | {"*"}
            problems += [f"layers.txt:{number}: {row.name} names {other}, which does not stand above it"
                         for other in row.allowed if other not in known]
            table.rows.append(row)
    return table, problems


def module_of(path):
    """The module of a file, its path written from the root, and whether it is for tests only."""
    parts = Path(path).parts
    test = TEST_FILE.fullmatch(parts[-1]) is not None or any(part in TEST_FOLDERS for part in parts[:-1])
    if parts[0] != "towpath":
        return parts[0], True
    inner = parts[1:-1]
    depth = 2 if inner[:1] in (("backends",), ("compat",)) or inner[:2] == ("backend", "conformance") else 1
    return "/".join(inner[:depth]), test


@dataclass
class Headers:
    """What towpath_module() says of headers; every other is its module's own."""
    public: set    # installed, for users
    internal: set  # for other modules
    folders: set   # of the modules

    def home_of(self, path):
        """The folder of the module to which a file belongs."""
        return next((str(folder) for folder in Path(path).parents if str(folder) in self.folders), None)


def read_headers(cmake_files):
    """`cmake_files`: path -> text."""
    headers = Headers(set(), set(), {str(Path(path).parent) for path in cmake_files})
    for path, text in cmake_files.items():
        for call in re.findall(r"towpath_module\(([^)]*)\)", text):
            for word, names in re.findall(r"\b(PUBLIC|INTERNAL)\s+([^A-Z)]*)", call):
                found = headers.public if word == "PUBLIC" else headers.internal
                found |= {f"{Path(path).parent}/{name}" for name in names.split()}
    return headers


def check_door(headers, path, target):
    """What is wrong with `path` including our header `target` by what its module says of it; None if nothing."""
    if path in headers.public and target not in headers.public:
        return f"it is PUBLIC, and {target} is not: a user's compiler would not find it"
    if target in headers.public | headers.internal or module_of(target)[1]:
        return None
    if headers.home_of(path) != headers.home_of(target):
        return f"{target} is its module's own: name it under INTERNAL in its CMakeLists.txt, or do without"
    return None


def check_ours(table, path, target):
    """What is wrong with `path` including our header `target`; None if nothing."""
    module, from_test = module_of(path)
    other, to_test = module_of(target)
    row, other_row = table.row_of(module), table.row_of(other)
    if row is None or other_row is None:
        return f"{module if row is None else other} has no row in layers.txt"
    if to_test and not from_test:
        return f"{module} may not include {target}: it is for tests only"
    if module == other or row.allowed == ["*"]:
        return None
    if to_test and from_test:  # test-only folders serve every test
        return None
    if from_test and table.stands_above(other_row, row) and other_row.name != row.name:
        return None
    if any(fnmatch.fnmatchcase(other, allowed) for allowed in row.allowed):
        return None
    return f"{module} may not include {other}" + (f": {row.reason}" if row.reason else "")


def check_outside(table, path, target, headers):
    """The same for a header that is not ours."""
    module, test = module_of(path)
    for row in table.outside:
        if fnmatch.fnmatchcase(target, row.name):
            if path in headers.public and not test:
                return f"{module} may not include <{target}> in a public header: they need only std and towpath/"
            if module in row.allowed or (test and "tests" in row.allowed):
                return None
            return f"{module} may not include <{target}>" + (f": {row.reason}" if row.reason else "")
    folder, _, _ = target.rpartition("/")
    if target.endswith(".h") and folder not in SYSTEM_FOLDERS | {""}:
        return f"{module} may not include <{target}>: the library has no row in layers.txt"
    return None


def check(table, files, headers):
    """`files`: path -> text. All problems found."""
    problems = []
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target, quoted = found[1][1:-1], found[1][0] == '"'
            if quoted:
                inside = path.startswith("towpath/")
                wrong = f'write includes from the root: <towpath/...>, not "{target}"' if inside else None
            elif target.startswith("towpath/"):
                wrong = check_ours(table, path, target) or check_door(headers, path, target)
            else:
                wrong = check_outside(table, path, target, headers)
            if wrong:
                problems.append(f"{path}:{number}: {wrong}")
    return problems


def self_test(text):
    table, problems = parse(text)
    assert not problems, problems
    assert parse("a:\nb: c\nc:")[1], "a row that points up is refused"
    assert parse("no colon")[1]
    headers = read_headers({
        "towpath/sys/CMakeLists.txt": "towpath_module(sys\n PUBLIC a.h\n  b/c.h INTERNAL fd.h SOURCES a.cc)\nf(HEADERS x.h)",
        "towpath/core/CMakeLists.txt": "towpath_module(core PUBLIC a.h status.h)",
        "towpath/run/CMakeLists.txt": "towpath_module(run INTERNAL mutex.h)",
        "towpath/agent/CMakeLists.txt": "towpath_module(agent PUBLIC agent.h SOURCES agent.cc)",
        "towpath/backends/shm/CMakeLists.txt": "towpath_module(backends/shm INTERNAL shm.h)",
        "towpath/kv/CMakeLists.txt": "towpath_module(kv INTERNAL pool.h)"})
    assert {"towpath/sys/a.h", "towpath/sys/b/c.h"} < headers.public and "towpath/sys/fd.h" in headers.internal, headers
    good = {
        "towpath/sys/fd.cc": "#include <towpath/core/status.h>\n#include <sys/uio.h>\n#include <liburing.h>",
        "towpath/layout/plan_test.cc": "#include <towpath/memory/testing/fake.h>\n#include <towpath/run/mutex.h>",
        "towpath/backends/shm/shm_test.cc": "#include <towpath/backend/conformance/suite.h>",
        "towpath/backends/shm/shm_fixture.h": "#include <gtest/gtest.h>",
        "towpath/backend/conformance/suite.h": "#include <towpath/agent/agent.h>\n#include <gtest/gtest.h>",
        "towpath/standard/standard.cc": "#include <towpath/backends/shm/shm.h>",
        "towpath/sys/private.h": "#include <liburing.h>",
        "tools/replay.cc": "#include <towpath/kv/pool.h>\n#include <fmt/format.h>\n#include \"tools/x.h\"",
    }
    assert not check(table, good, headers), check(table, good, headers)
    bad = {
        "core may not include sys": ("towpath/core/a.h", "<towpath/sys/fd.h>"),
        "agent may not include backends/shm": ("towpath/agent/a.cc", "<towpath/backends/shm/b.h>"),
        "backends/shm may not include backends/posix": ("towpath/backends/shm/a.cc", "<towpath/backends/posix/b.h>"),
        "backends/shm may not include agent": ("towpath/backends/shm/a_test.cc", "<towpath/agent/agent.h>"),
        "for tests only": ("towpath/layout/a.cc", "<towpath/memory/testing/fake.h>"),
        "fixture.h: it is for tests": ("towpath/layout/a.cc", "<towpath/layout/a_fixture.h>"),
        "has no row": ("towpath/attic/a.cc", "<towpath/core/a.h>"),
        "from the root": ("towpath/core/a.cc", '"a.h"'),
        "it is PUBLIC, and towpath/sys/fd.h is not": ("towpath/sys/a.h", "<towpath/sys/fd.h>"),
        "core/own.h is its module's own": ("towpath/sys/fd.cc", "<towpath/core/own.h>"),
        "sys/own.h is its module's own": ("tools/replay.cc", "<towpath/sys/own.h>"),
        "in a public header": ("towpath/sys/a.h", "<liburing.h>"),
        "may not include <fmt/format.h>": ("towpath/kv/a.cc", "<fmt/format.h>"),
        "no row in layers.txt": ("towpath/kv/a.cc", "<rocksdb/db.h>"),
        "may not include <gtest/gtest.h>": ("towpath/kv/a.cc", "<gtest/gtest.h>"),
    }
    for expected, (path, target) in bad.items():
        found = check(table, {path: f"\n#include {target}"}, headers)
        assert len(found) == 1 and expected in found[0] and found[0].startswith(f"{path}:2: "), (expected, found)
    print(f"check_layers: {len(good)} good and {len(bad)} bad files distinguished")


def read_tracked(*patterns):
    """path -> text of the files that git tracks, or would after `git add`."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return {path: (ROOT / path).read_text() for path in sorted(set(listed)) if (ROOT / path).is_file()}


def main():
    table_text = (ROOT / "layers.txt").read_text()
    if "--self-test" in sys.argv[1:]:
        self_test(table_text)
        return 0
    table, problems = parse(table_text)
    files = read_tracked("*.h", "*.cc")
    problems += check(table, files, read_headers(read_tracked("towpath/*CMakeLists.txt")))
    print("\n".join(problems) if problems else f"check_layers: {len(files)} files, every include points up")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
