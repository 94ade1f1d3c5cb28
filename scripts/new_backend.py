#!/usr/bin/env python3
"""new_backend.py NAME: a folder towpath/backends/NAME that builds and passes the conformance suite, made of
towpath/backends/tutorial, and its lines in the five files that name all backends. docs/tutorial goes on from there.

--self-test makes one in a copy of the tree, and holds that to the house rules.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = "tutorial"
SOURCE = Path("towpath/backends") / MODEL
CANDIDATES = Path("tests/conformance") / f"{MODEL}_candidates.cc"
# Where all backends are named: the file, what is there, and what stands there afterwards.
LINES = [
    ("towpath/backends/CMakeLists.txt", rf" {MODEL}\)", r" {name} tutorial)"),
    ("tests/conformance/CMakeLists.txt", r"(towpath_conformance\(tutorial )",
     r"towpath_conformance({name} {name}_candidates.cc towpath_backends_{name})\n\1"),
    ("towpath/standard/CMakeLists.txt", r" backends/object ", r" backends/object backends/{name} "),
    ("towpath/standard/standard.cc", r"(#include <towpath/backends/object/object_backend\.h>\n)",
     r"\1#include <towpath/backends/{name}/{name}_backend.h>\n"),
    ("towpath/standard/standard.cc", r"(  add_nixl_aliases\(registry\);\n)", r"  add(backends::{name}::{name}_type());\n\1"),
    ("towpath/standard/standard_test.cc", r'"ucx_device", "object"\)', r'"ucx_device", "object", "{name}")'),
]


# Of C++ in small letters: no namespace can be called so.
KEYWORDS = set("""alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static
static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
virtual void volatile wchar_t while xor xor_eq""".split())


class Refused(Exception):
    pass


def renamed(text, name):
    camel = "".join(part.capitalize() for part in name.split("_"))
    return re.sub(rf"(?<!docs/){MODEL}", name, text.replace(MODEL.capitalize(), camel))


def make(root, name):
    """The files that were made or changed. Nothing is written before all that is needed was found."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}", name):
        raise Refused(f"'{name}' is no name for a folder and a namespace: take small letters, digits and _")
    # Within a namespace of a module's name the module itself could not be named any more.
    if name in KEYWORDS or name in ("std", "towpath") or (root / "towpath" / name).is_dir():
        raise Refused(f"'{name}' means something else to a compiler here: take another name")
    target = SOURCE.with_name(name)
    if (root / target).exists():
        raise Refused(f"{target} is there already")
    changed = {}
    for path, there, then in LINES:
        text = changed.get(path, (root / path).read_text())
        text, count = re.subn(there, then.replace("{name}", name), text, count=1)
        if count == 0:
            raise Refused(f"{path} has nothing like {there}: mend LINES of scripts/new_backend.py")
        changed[path] = text
    (root / target).mkdir()
    made = {root / target / renamed(path.name, name): path.read_text() for path in (root / SOURCE).iterdir()}
    made[root / CANDIDATES.with_name(f"{name}_candidates.cc")] = (root / CANDIDATES).read_text()
    for path, text in made.items():
        path.write_text(renamed(text, name))
    for path, text in changed.items():
        (root / path).write_text(text)
    return [*(path.relative_to(root) for path in made), *changed]


def self_test():
    for wrong in ("Tape", "a/b", "", "posix", "class", "std", "memory", "backend"):
        try:
            make(ROOT, wrong)
        except Refused:
            continue
        raise AssertionError(f"'{wrong}' was not refused")
    with tempfile.TemporaryDirectory() as folder:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.split("\0")
        for path in filter(None, listed):
            if (ROOT / path).is_file():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, Path(folder) / path)
        made = make(Path(folder), "magnetic_tape")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        for script in ("check_layers.py", "check_tidy.py"):
            said = subprocess.run([sys.executable, f"scripts/{script}"], cwd=folder, capture_output=True, text=True)
            assert said.returncode == 0, said.stdout
        assert "MagneticTapeBackend" in (Path(folder) / "towpath/backends/magnetic_tape/magnetic_tape_backend.cc").read_text()
        print(f"new_backend: {len(made)} files of a new backend keep the house rules")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    name = sys.argv[1]
    try:
        made = make(ROOT, name)
    except Refused as refused:
        print(f"new_backend: {refused}", file=sys.stderr)
        return 1
    print("\n".join(str(path) for path in made))
    print(f"\nNext: ./dev test -k '^conformance.{name}$', then docs/tutorial/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
