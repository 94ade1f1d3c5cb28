#!/usr/bin/env python3
"""House rules that a compiler does not know: banned calls and what to write instead, orphans, large files,
leftovers, links to what is not there, and ratchets on length (scripts/ratchet.txt) and on words (scripts/words.txt).

    file:line: what is wrong: what to do instead

--self-test proves on made-up files that each rule can fail; --ratchet writes today's lengths and words down.
"""
import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RATCHET = "scripts/ratchet.txt"
WORDS = "scripts/words.txt"
FILE_LINES, FUNCTION_LINES, BLOB_BYTES = 500, 60, 200 * 1024


@dataclass
class Ban:
    pattern: str  # looked for in code, comments and strings taken out
    instead: str
    inside: str = r"towpath/.*"  # paths that it holds for
    outside: str = r"$^"  # and those among them that it does not
    raw: bool = False  # looks at comments and strings too


TEST = r".*(_test\.cc|_fixture\.(h|cc)|/test_[^/]*|/testing/.*|/conformance/.*)"
BANS = [
    Ban(r"\bgetenv\b", "pass an option; only standard/ reads the environment", outside="towpath/standard/.*"),
    Ban(r"\bstd::j?thread\b(?!::)", "run::Worker", outside=rf"towpath/run/.*|{TEST}"),
    Ban(r"\bstd::(recursive_|shared_)?(mutex|lock_guard|unique_lock|scoped_lock|condition_variable)\b",
        "run::Mutex, which -Wthread-safety understands", outside=rf"towpath/(core|sys|telemetry|run)/.*|{TEST}"),
    Ban(r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", "wait on a condition (run::eventually)",
        inside=r"(towpath|tests|tools|examples)/.*"),
    Ban(r"_clock::now\b|\bclock_gettime\b|\bgettimeofday\b", "take a Clock", outside=rf"towpath/(sys/clock\.cc|run/eventually\.h)|{TEST}"),
    Ban(r"\busing namespace std\s*;", "name what you use", inside=".*"),
    Ban(r"\busing namespace\b", "a header must not open a namespace for its readers", inside=r".*\.h"),
    Ban(r"(?<![_\w])assert\s*\(", "TOWPATH_CHECK, which says why and stays in release builds", inside=".*"),
    Ban(r"\bstd::c(out|err|log)\b|(?<!\w)(std::)?f?printf\s*\(|\bputs\s*\(", "return a Status, a Finding or an event",
        outside=rf"towpath/core/check\.cc|{TEST}"),
    Ban(r"\bthrow\b", "return error(...); no exception leaves the library but std::bad_alloc",
        outside=rf"{TEST}|towpath/net/openssl_memory\.cc"),
    Ban(r"\bvolatile\b", "std::atomic, with its partner named", outside=rf"{TEST}|towpath/run/deadline\.h"),
    Ban(r"GTEST_SKIP\(\)\s*;", "a skipped test says why: GTEST_SKIP() << reason", inside=".*"),
    Ban(r"\bDISABLED_", "mend the test or take it out", inside=".*"),
    Ban(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b", "finish it, or say it in the issue", inside=".*", raw=True),
    Ban(r"(?<![\w.$}])/(home|root|work)/\w", "a path of one machine: take it out", inside=".*", raw=True),
]

# Text -> structure ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def code_of(text):
    """C++ with comments and the insides of strings blanked, line for line."""
    def blank(found):
        token = found[0]
        keep = token[0] if token[0] in "\"'" else ""
        return keep + re.sub(r"[^\n]", " ", token[len(keep):len(token) - len(keep)]) + keep
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
                  blank, text, flags=re.S)


SCOPE = re.compile(r"((public|private|protected): )*(inline )?"
                   r"(namespace\b|extern\b(?!.*\()|(template\b.*> ?)?(class|struct|union|enum)\b)")


def functions_of(text):
    """(name, first line, lines) of each function body. Trusts clang-format, not a parser: a body is a
    brace pair after a parameter list, in a namespace or class."""
    found, stack, statement, start, number = [], [], "", 1, 1
    for token in re.findall(r"[{};]|[^{};]+", re.sub(r"(?m)^[ \t]*#.*", "", code_of(text))):
        if token == "{":
            scope = bool(SCOPE.match(" ".join(statement.split())))
            if all(kind == "scope" for kind, _, _ in stack) and not scope and "(" in statement:
                stack.append(("function", name_of(statement), start))
            else:
                stack.append(("scope" if scope else "block", "", number))
        elif token == "}":
            kind, name, first = stack.pop() if stack else ("block", "", number)
            if kind == "function":
                found.append((name, first, number - first + 1))
        if token in "{};":
            statement = ""
            continue
        if not statement.strip():
            start = number + token[:len(token) - len(token.lstrip())].count("\n")
        statement += token
        number += token.count("\n")
    return found


def name_of(statement):
    test = re.search(r"\bTEST(?:_[FP])?\s*\(\s*(\w+)\s*,\s*(\w+)", statement)
    if test:
        return f"{test[1]}.{test[2]}"
    found = re.search(r"([\w:~]+|operator\S+)\s*\(", statement)
    return found[1] if found else "?"


# The rules --------------------------------------------------------------------------------------


def banned(files):
    for path, text in files.items():
        cpp = path.endswith((".h", ".cc"))
        code = code_of(text) if cpp else ""
        for ban in BANS:
            looked_at = text if ban.raw else code
            if not re.fullmatch(ban.inside, path) or re.fullmatch(ban.outside, path) or not re.search(ban.pattern, looked_at):
                continue
            for number, line in enumerate(looked_at.splitlines(), 1):
                found = re.search(ban.pattern, line)
                if found:
                    yield f"{path}:{number}: {found[0].strip()}: {ban.instead}"


def headers(files):
    """A header opens with what it is, and says its thread rule."""
    for path, text in files.items():
        if path.startswith("towpath/") and path.endswith(".h"):
            if not text.startswith("//"):
                yield f"{path}:1: no opening comment: say what this is, what it is not, and the thread rule"
            elif "#pragma once" not in text:
                yield f"{path}:1: no #pragma once"
            elif "Thread:" not in text and not re.fullmatch(TEST, path):
                yield f"{path}:1: no thread rule: `Thread: any | loop | immutable`"


def orphans(files):
    """Sources that no CMakeLists.txt names, and headers that neither one names nor a file includes."""
    cmake = {str(Path(path).parent): text for path, text in files.items() if path.endswith("CMakeLists.txt")}
    cmake["."] = cmake.get(".", "") + "".join(text for path, text in files.items() if path.endswith(".cmake"))
    included = set(re.findall(r'#\s*include\s*[<"]([^>"]+)', "\n".join(files.values())))
    for path in files:
        if not path.endswith((".h", ".cc")) or path in included or path.startswith("tests/compile_fail/"):
            continue
        folders = [str(parent) for parent in Path(path).parents]
        names = [str(Path(path).relative_to(folder)) for folder in folders]
        if not any(re.search(rf"((?<![\w/])|(?<=}}/)){re.escape(name)}(?!\w)", cmake.get(folder, ""))
                   for folder, name in zip(folders, names)):
            yield f"{path}:1: an orphan: name it in a CMakeLists.txt, or delete it"


def large(sizes):
    for path, size in sizes.items():
        if size > BLOB_BYTES:
            yield f"{path}:1: {size} bytes: keep large data out of the tree (limit {BLOB_BYTES})"


def lengths(files):
    """What is longer than it should be: name -> lines."""
    found = {}
    for path, text in files.items():
        if not path.endswith((".h", ".cc", ".py")) and path != "dev":
            continue
        if text.count("\n") > FILE_LINES:
            found[path] = text.count("\n")
        if path.endswith((".h", ".cc")):
            for name, _, lines in functions_of(text):
                if lines > FUNCTION_LINES:
                    key = f"{path}:{name}"
                    found[key] = max(lines, found.get(key, 0))
    return found


def ratchet(files, allowed_text):
    allowed = {}
    for line in allowed_text.splitlines():
        body = line.partition("#")[0].split()
        if body:
            allowed[body[1]] = int(body[0])
    for name, lines in lengths(files).items():
        limit = allowed.get(name, FUNCTION_LINES if ":" in name else FILE_LINES)
        if lines > limit:
            yield f"{name}: {lines} lines, at most {limit}: split it (or argue, and change {RATCHET})"


def words_of(text):
    """(word, lines that may have it, what to say) of each row of the list of words."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            lines, word, instead = (part.strip() for part in line.split("|"))
            yield word, int(lines), instead


def lines_with(listed, files):
    """word -> where it stands: alone, in snake_case or in CamelCase; a line counts once."""
    found = {word: {} for word in listed}
    any_of = "|".join(re.escape(word).replace("\\ ", "[ _]") for word in listed)
    pattern = re.compile(rf"(?<![a-z])(?:{any_of})(?![a-z])")
    for path, text in files.items():
        # The changelog says what a name was; tests/abi repeats the headers.
        if path not in (WORDS, "scripts/check_tidy.py", "CHANGELOG.md") and not path.startswith("tests/abi/"):
            for number, line in enumerate(re.sub("(?<=[a-z])(?=[A-Z])", "_", text).lower().splitlines(), 1):
                for word in pattern.findall(line) if listed else ():
                    found[word.replace("_", " ")][f"{path}:{number}"] = True
    return {word: list(places) for word, places in found.items()}


def words(files):
    """A word that was given up comes back in no more lines than it is left in."""
    listed = {word: (most, instead) for word, most, instead in words_of(files.get(WORDS, ""))}
    for word, found in lines_with(listed, files).items():
        most, instead = listed[word]
        if len(found) > most:
            yield f"{found[-1]}: `{word}` is in {len(found)} lines, at most {most}: {instead} (git grep -niw '{word}')"


def fewer_words(files):
    """The list with today's numbers."""
    found = lines_with([word for word, _, _ in words_of(files[WORDS])], files)
    return re.sub(r"(?m)^ *\d+ \| ([^|]+?) *\|", lambda row: f"{len(found[row[1]]):4} | {row[1]:<18} |", files[WORDS])


def prose_of(text):
    """A page without what stands in its boxes, line for line."""
    return re.sub(r"(?ms)^ *```.*?^ *```", lambda box: "\n" * box[0].count("\n"), text)


@functools.lru_cache(maxsize=None)
def anchors_of(text):
    """Of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"(?m)^#+ (.*?)\s*$", prose_of(text))}


def links(files, sizes):
    """A page leads to files and headings that are there; so does a path below docs/ in any other file."""
    there = {*files, *sizes}
    there |= {str(folder) for path in there for folder in Path(path).parents}
    for path, text in files.items():
        page = path.endswith(".md")
        if path == "scripts/check_tidy.py" or not page and "docs/" not in text:
            continue
        found = r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)" if page else r"(?<![\w/])(docs/[\w/.-]+\.md)(?:#([\w-]+))?"
        for number, line in enumerate((prose_of(text) if page else text).splitlines(), 1):
            for name, anchor in re.findall(found, line):
                target = os.path.normpath(Path(path).parent / name) if page and name else name or path
                if target not in there:
                    yield f"{path}:{number}: {name}: there is no such file"
                elif anchor and anchor not in anchors_of(files.get(target, "")):
                    yield f"{path}:{number}: {name}#{anchor}: there is no such heading"


def check(files, sizes):
    return [*banned(files), *headers(files), *orphans(files), *large(sizes), *links(files, sizes),
            *ratchet(files, files.get(RATCHET, "")), *words(files)]


# Proof, and the tree ----------------------------------------------------------------------------


def self_test():
    def long(lines):
        return "int f(int a,\n      int b) {\n" + "  x();\n" * (lines - 3) + "}\n"

    assert functions_of("namespace a {\nclass B {\n  int c() {\n    if (x) {\n    }\n  }\n};\n}\n") == [("c", 3, 4)]
    assert functions_of("class C(\"m\") D {\n public:\n  struct E {\n    void f() {}\n  };\n};\n") == [("f", 4, 1)]
    assert functions_of('TEST(A, b) {\n  auto s = "}";  // }\n}\n') == [("A.b", 1, 3)]
    good = {
        "towpath/a/CMakeLists.txt": "HEADERS a.h SOURCES a.cc b/c.cc TESTS a_test.cc",
        "towpath/a/a.h": "// A. Thread: any.\n#pragma once\n",
        "towpath/a/a.cc": '// getenv("X"), assert(\nstatic_assert(true);\nauto a = "throw";\nsnprintf(b);\n',
        "towpath/a/b/c.cc": long(60),
        "towpath/a/a_test.cc": "std::thread worker;\n#include <towpath/a/private.h>\n",
        "towpath/a/private.h": "// Thread: any\n#pragma once\n",
    }
    assert not check(good, {"a": 10}), check(good, {"a": 10})
    sources = {"getenv": "getenv(a)", "run::Worker": "std::thread a;", "run::Mutex": "std::mutex a;",
               "eventually": "sleep_for(a)", "Clock": "auto a = std::chrono::steady_clock::now();",
               "name what": "using namespace std;", "TOWPATH_CHECK": "assert(a);", "a Finding": "std::printf(a);",
               "return error": "throw a;", "atomic": "volatile int a;", "says why": "GTEST_SKIP();",
               "mend the test": "TEST(A, DISABLED_b)", "finish it": "// TO" "DO: more", "one machine": '"/ro' 'ot/a"',
               "61 lines": long(61), "501 lines": "\n" * 501}
    for expected, text in sources.items():
        found = check({**good, "towpath/a/a.cc": text}, {})
        assert len(found) == 1 and expected in found[0], (expected, found)
    for expected, text in {"no opening": "#pragma once\n", "no thread rule": "// A.\n#pragma once\n",
                           "for its readers": "// Thread: any\n#pragma once\nusing namespace b;"}.items():
        found = check({**good, "towpath/a/a.h": text}, {})
        assert len(found) == 1 and expected in found[0], (expected, found)
    assert "an orphan" in check({**good, "towpath/a/d.cc": ""}, {})[0]
    assert "an orphan" in check({**good, "towpath/a/d.h": "// Thread: any\n#pragma once\n"}, {})[0]
    assert "large data" in check(good, {"a": BLOB_BYTES + 1})[0]
    assert not check({**good, "towpath/a/a.cc": long(70), RATCHET: "70 towpath/a/a.cc:f"}, {})
    assert check({**good, "towpath/a/a.cc": long(71), RATCHET: "70 towpath/a/a.cc:f"}, {})
    listed = {WORDS: "# c\n   1 | old name | say new\n", "towpath/a/a.cc": "// kOldName, ColdName, old_names\n"}
    assert not check({**good, **listed}, {})
    for text in ("OLD_NAME\nold name\n", "is_old_name\nOldName\n"):
        assert "2 lines, at most 1: say new" in check({**good, **listed, "towpath/a/a.cc": text}, {})[0], text
    assert fewer_words({**listed, "b.md": "old name"})[4:].startswith("   2 | old name")
    pages = {"docs/a.md": "# A: b_c, d\n```\n# x\n[in a box](none)\n```\n", "b.md": "[a](docs/a.md#a-b_c-d) [b](docs) [c](#e)\n## E\n[d](https://none)",
             "towpath/a/a.cc": "// docs/a.md#a-b_c-d\n"}
    assert not check({**good, **pages}, {}), check({**good, **pages}, {})
    for path, text, expected in (("b.md", "\n[a](docs/b.md)", "b.md:2: docs/b.md: there is no such file"),
                                 ("docs/b.md", "[a](a.md#x)", "docs/b.md:1: a.md#x: there is no such heading"),
                                 ("b.md", "[a](#x)", "b.md:1: #x: there is no such heading"),
                                 ("towpath/a/a.cc", "// docs/b.md\n", "towpath/a/a.cc:1: docs/b.md: there is no such file")):
        assert check({**good, **pages, path: text}, {}) == [expected], check({**good, **pages, path: text}, {})
    print(f"check_tidy: {len(sources) + 14} wrong files found out")


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return 0
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [path for path in sorted(set(listed)) if path and (ROOT / path).is_file()]
    sizes = {path: (ROOT / path).stat().st_size for path in paths}
    files = {}
    for path in paths:
        try:
            files[path] = (ROOT / path).read_text()
        except UnicodeDecodeError:
            pass  # data, not text
    if "--ratchet" in sys.argv[1:]:
        (ROOT / RATCHET).write_text(
            f"# Longer than a file ({FILE_LINES} lines) or a function ({FUNCTION_LINES}) should be, and how long each may\n"
            "# be. Numbers here only go down; `scripts/check_tidy.py --ratchet` writes them anew.\n"
            + "".join(f"{lines} {name}\n" for name, lines in sorted(lengths(files).items())))
        (ROOT / WORDS).write_text(fewer_words(files))
    problems = check(files, sizes)
    print("\n".join(problems) if problems else f"check_tidy: {len(files)} files, nothing to mend")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
