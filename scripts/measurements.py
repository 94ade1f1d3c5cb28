"""The measurements of bench/ for `./dev bench`: which scripts there are beside the programs, and which options each has."""
import re
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent / "bench"

# Those that take more than a build, run when named. By the script: from which targets what it measures is built, and its options.
SCRIPTS = {"nixl": (["towpath_python_package"], ["--ours", "build/release/python", "--work", "build/nixl"]),
           "oshmem": (["openshmem", "towpath_command"], ["--ours", "build/release", "--work", "build/oshmem"]),
           "rails": (["towpath_python_package"], ["--ours", "build/release/python"])}


def chosen(name):
    """Programs and scripts with this in their name; no script unless one is named."""
    declared = re.findall(r"^towpath_bench\((\w+)", (BENCH / "CMakeLists.txt").read_text(), re.M)
    return (sorted(program for program in declared if name in program),
            [script for script in sorted(SCRIPTS) if name and name in script])


def unknown_option(names, options):
    """Why not all of these measurements take all of these options, as their sources say; None: they do."""
    for name in names:
        sources = [f"{name}.py", "script_options.py"] if name in SCRIPTS else [f"{name}.cc", "options.cc"]
        known = "".join((BENCH / source).read_text() for source in sources)
        for flag in (word.partition("=")[0] for word in options):
            if flag.startswith("--") and flag != "--help" and f'"{flag}"' not in known:
                return f"{name} has no option {flag}: `./dev bench {name} -- --help` lists what it has"
    return None


def options_of(name, options, is_one_of_several):
    """Figures of several go to FILE.NAME each."""
    if not is_one_of_several:
        return options
    return [f"{word}.{name}" if word.startswith("--json=") or before == "--json" else word
            for before, word in zip(["", *options], options)]
