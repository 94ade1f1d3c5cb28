#!/usr/bin/env python3
"""The reference of the public C++ headers, by Doxygen: build/reference/html/index.html. What Doxygen warns of is an error, and
so is a public header without a page, and a name in the C++ of a guide that no public header has.

    --filter FILE   prints a header as Doxygen is to read it: the comment at its head is the file's
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import check_layers

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build/reference"
# What guards a thread's data is for clang; to a reader it is noise.
MACROS = ["GUARDED_BY", "PT_GUARDED_BY", "EXCLUDES", "REQUIRES", "ACQUIRE", "RELEASE", "TRY_ACQUIRE", "RETURN_CAPABILITY",
          "CAPABILITY", "ASSERT_CAPABILITY"]


def doxyfile(headers):
    settings = {
        "PROJECT_NAME": "Towpath", "QUIET": "YES", "OUTPUT_DIRECTORY": OUTPUT, "GENERATE_LATEX": "NO",
        "INPUT": " ".join(["docs/reference/README.md", *sorted(headers)]), "USE_MDFILE_AS_MAINPAGE": "docs/reference/README.md",
        "FULL_PATH_NAMES": "YES", "STRIP_FROM_PATH": "towpath", "INPUT_FILTER": f'"{sys.executable} {__file__} --filter"',
        "EXTRACT_ALL": "YES", "JAVADOC_AUTOBRIEF": "YES", "WARN_AS_ERROR": "FAIL_ON_WARNINGS", "WARN_IF_UNDOCUMENTED": "NO",
        "MACRO_EXPANSION": "YES", "EXPAND_ONLY_PREDEF": "YES", "BUILTIN_STL_SUPPORT": "YES", "HAVE_DOT": "NO",
        "CLASS_GRAPH": "NO", "SHOW_INCLUDE_FILES": "NO", "SORT_MEMBER_DOCS": "NO",
        "PREDEFINED": " ".join(f'"TOWPATH_{macro}(x)="' for macro in MACROS),
    }
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


def filtered(text):
    """Its first lines, which begin with `//`, are the description of the file: what is indented there is a figure or code."""
    lines = text.split("\n")
    end = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    head = [re.sub(r"^//(   +)", r"///     \1", line) if line.startswith("//   ") else "/" + line for line in lines[:end]]
    return "\n".join(["/// @file", *head, *lines[end:]])  # one line more: Doxygen's numbers are one too high


def page_of(header):
    """Doxygen's name for the page of a file."""
    escaped = re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), Path(header).name.replace("_", "__").replace(".", "_8"))
    return f"{escaped}.html"


def names_in_guides():
    """(file, namespace, name) of what the C++ in guides takes from the library."""
    for path, text in check_layers.read_tracked("docs/guides/*.md", "README.md").items():
        for block in re.findall(r"```cpp\n(.*?)```", text, re.S):
            yield from ((path, *found) for found in re.findall(r"\b([a-z]+)::(\w+)\b", block))


def hidden_names(headers):
    """What guides show, and a user cannot include."""
    texts = {path: text for path, text in check_layers.read_tracked("towpath/*.h").items() if not check_layers.module_of(path)[1]}
    for guide, namespace, name in sorted(set(names_in_guides())):
        declares = re.compile(rf"\b(class|struct|enum class|using)\s+{name}\b[^;]*[{{=]|\b{name}\(")
        where = [path for path, text in texts.items() if path.split("/")[1] == namespace and declares.search(text)]
        if where and not headers & set(where):
            yield f"{guide}: {namespace}::{name} is in {where[0]}, which is not PUBLIC"


def main():
    if sys.argv[1:2] == ["--filter"]:
        sys.stdout.write(filtered(Path(sys.argv[2]).read_text()))
        return 0
    headers = check_layers.read_headers(check_layers.read_tracked("towpath/*CMakeLists.txt")).public
    hidden = list(hidden_names(headers))
    if hidden:
        print("\n".join(hidden), file=sys.stderr)
        return 1
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    if subprocess.run(["doxygen", "-"], cwd=ROOT, input=doxyfile(headers), text=True).returncode != 0:
        return 1
    pages = {page.name for page in (OUTPUT / "html").rglob("*_8h.html")}
    missing = sorted(header for header in headers if not any(page.endswith(page_of(header)) for page in pages))
    for header in missing:
        print(f"reference: {header} has no page", file=sys.stderr)
    if not missing:
        print(f"reference: {len(headers)} public headers, {OUTPUT.relative_to(ROOT)}/html/index.html")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
