#!/usr/bin/env python3
"""Compares the libraries with an interface in C, libtowpath_c and libnixl_capi, with what is promised (tests/abi): a
function that is gone, or whose types changed, fails. So does a new one, as long as the tree has the version of the
promise: it would be released without one. `./dev package` calls it.

    check_abi.py [--record]        --record: what is built becomes the promise of the tree's version

--self-test proves on changed copies of a promise, without a build, that each kind of break is found.

Takes abidiff (Debian: abigail-tools). Libraries and their types come from a build of their own, in build/abi, with
what a debugger needs to know of the interface.
"""
import argparse
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from package import ROOT, VERSION, numbers  # noqa: E402

WORK = ROOT / "build/abi"  # as deep as the presets: ccache gives what they compiled
PROMISED = ROOT / "tests/abi"
PROMISED_VERSION = PROMISED / "version"
# By target: its header, whose types alone are its interface.
LIBRARIES = {"towpath_c": "bindings/c/towpath.h", "nixl_capi": "bindings/nixl/nixl_capi.h"}
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DTOWPATH_UNITY=ON", "-DTOWPATH_WERROR=ON",
           "-DTOWPATH_ABI=ON", "-DBUILD_TESTING=OFF", "-DTOWPATH_BENCH=OFF", "-DTOWPATH_TOOLS=OFF", "-DTOWPATH_PYTHON=OFF"]
INTERFACE_ALONE = ["--drop-private-types", "--exported-interfaces-only", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path",
                   "--no-elf-needed"]


def run(command, **options):
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    return done.returncode, done.stdout


def must(command):
    status, said = run(command)
    if status != 0:
        sys.exit(f"abi: status {status}: {' '.join(map(str, command))}\n{said[-4000:]}")


def describe(target, header):
    """Writes what the library offers, in abidw's words; answers the file."""
    written, public = WORK / f"{target}.abi", WORK / "public" / target
    public.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / header, public)  # there are private ones beside it
    must(["abidw", "--headers-dir", str(public), *INTERFACE_ALONE, "--out-file", str(written),
          str((WORK / header).parent / f"lib{target}.so")])
    return written


def users(corpus, type_id):
    """What uses a type, by this name or another of it."""
    for user in corpus.iterfind(f".//*[@type-id='{type_id}']"):
        if user.tag in ("typedef-decl", "qualified-type-def"):
            yield from users(corpus, user.get("id"))
        else:
            yield user


def may_grow(corpus, struct):
    """Whether a later library may have more members at the end of it: it begins with its size, which says what a caller
    has, and functions take one at a time. Where they lie in an array, each would lie elsewhere."""
    first = struct.find("data-member/var-decl")
    return first is not None and first.get("name") == "size" and all(
        user.tag == "pointer-type-def" and {holder.tag for holder in users(corpus, user.get("id"))} <= {"parameter"}
        for user in users(corpus, struct.get("id")))


def cut_growth(promised, built):
    """Takes from what is built the members behind the promised end of structs that may grow."""
    for struct in promised.iterfind(".//class-decl[@size-in-bits]"):
        end = int(struct.get("size-in-bits"))
        for grown in built.iterfind(f".//class-decl[@name='{struct.get('name')}'][@size-in-bits]"):
            if int(grown.get("size-in-bits")) > end and may_grow(promised, struct):
                for member in grown.findall("data-member"):
                    if int(member.get("layout-offset-in-bits")) >= end:
                        grown.remove(member)
                grown.set("size-in-bits", str(end))


def compare(promised, built, newer):
    """How what is built is not as promised, as abidiff reports it. A newer version than the promised one may have more
    functions, and what cut_growth() takes out."""
    if newer:
        corpus, built = ElementTree.parse(built), built.with_suffix(".cut.abi")
        cut_growth(ElementTree.parse(promised).getroot(), corpus.getroot())
        corpus.write(built)
    status, said = run(["abidiff", *(["--no-added-syms"] if newer else []), str(promised), str(built)])
    return said if status != 0 else ""


# Proof ------------------------------------------------------------------------------------------


class Changed:
    """A copy of the promise of libtowpath_c, and changes as those of a header would show in it."""

    def __init__(self):
        self.tree = ElementTree.parse(PROMISED / "towpath_c.abi")

    def struct(self, name):
        return self.tree.find(f".//class-decl[@name='towpath_{name}_t'][@size-in-bits]")

    def member(self, struct, name):
        return next(member for member in self.struct(struct) if member[0].get("name") == name)

    def retype(self, struct, name, like):
        self.member(struct, name)[0].set("type-id", self.member(struct, like)[0].get("type-id"))

    def widen(self, struct, name, like):
        self.retype(struct, name, like)
        behind = list(self.struct(struct)).index(self.member(struct, name)) + 1
        for member in list(self.struct(struct))[behind:]:
            shift(member, "layout-offset-in-bits", 64)
        shift(self.struct(struct), "size-in-bits", 64)

    def swap(self, struct, one, other):
        one, other = self.member(struct, one), self.member(struct, other)
        one[0], other[0] = other[0], one[0]

    def append(self, struct, like, padding=0):
        """A member of the type of that one of the scheduler's options: behind the end, or so far before it."""
        grown, type_id = self.struct(struct), self.member("scheduler_options", like)[0].get("type-id")
        at = str(int(grown.get("size-in-bits")) - padding)
        member = ElementTree.SubElement(grown, "data-member", {"access": "public", "layout-offset-in-bits": at})
        ElementTree.SubElement(member, "var-decl", {"name": "added", "type-id": type_id, "visibility": "default"})
        shift(grown, "size-in-bits", 0 if padding else 64)

    def hand_out(self, struct):
        """As an array, as the scheduler hands out its events."""
        array = self.tree.find(".//parameter[@name='events']").get("type-id")
        element = self.tree.find(f".//*[@id='{array}']").get("type-id")
        name = self.tree.find(f".//typedef-decl[@name='towpath_{struct}_t']").get("id")
        self.tree.find(f".//*[@id='{element}']").set("type-id", name)

    def add_function(self):
        for parent in list(self.tree.iter()):
            for child in map(copy.deepcopy, parent.findall("*[@name='towpath_worker_sync']")):
                for name in {"name", "mangled-name", "elf-symbol-id"} & set(child.keys()):
                    child.set(name, "towpath_added")
                parent.append(child)

    def take_out(self, function):
        for parent in list(self.tree.iter()):
            for child in parent.findall(f"*[@name='{function}']"):
                parent.remove(child)


def shift(element, name, bits):
    element.set(name, str(int(element.get(name)) + bits))


# What is changed of a promise, by what it is to a newer version.
GROWN = {
    "a function": lambda abi: abi.add_function(),
    "a member of the options": lambda abi: abi.append("scheduler_options", "salt"),
    "two members": lambda abi: (abi.append("prompt", "salt"), abi.append("prompt", "name_space")),
    "a member that is filled in": lambda abi: abi.append("worker_figures", "salt"),
}
BROKEN = {
    "another type": lambda abi: abi.retype("prompt", "tokens", "room"),
    "another type, and a member": lambda abi: (abi.retype("prompt", "tokens", "room"), abi.append("prompt", "salt")),
    "a wider member": lambda abi: abi.widen("scheduler_options", "workers", "salt"),
    "two swapped": lambda abi: abi.swap("scheduler_options", "salt", "name_space"),
    "a member in the padding": lambda abi: abi.append("scheduler_options", "workers", padding=32),
    "a larger error, which has no size": lambda abi: abi.append("error", "salt"),
    "larger elements of an array": lambda abi: abi.append("block_event", "salt"),
    "a function gone": lambda abi: abi.take_out("towpath_worker_sync"),
}


def differs(change, newer):
    abi = Changed()
    change(abi)
    with tempfile.TemporaryDirectory() as folder:
        abi.tree.write(built := Path(folder) / "built.abi")
        return bool(compare(PROMISED / "towpath_c.abi", built, newer))


def self_test():
    if not shutil.which("abidiff"):
        print("check_abi: not tried: abidiff is missing (hint: apt-get install abigail-tools)")
        return
    assert not differs(lambda abi: None, newer=False)
    for what, change in {**GROWN, **BROKEN}.items():
        assert differs(change, newer=False), what
        assert differs(change, newer=True) == (what in BROKEN), what
    abi = Changed()
    assert may_grow(abi.tree, abi.struct("prompt"))
    abi.hand_out("prompt")
    assert not may_grow(abi.tree, abi.struct("prompt")), "an array's elements, though they begin with their size"
    print(f"check_abi: a newer version may have {len(GROWN)} of {len(GROWN) + len(BROKEN)} changes, the promised one none")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--record", action="store_true", help="what is built becomes the promise")
    arguments.add_argument("--self-test", action="store_true", help="whether each kind of break is found")
    args = arguments.parse_args()
    if args.self_test:
        self_test()
        return 0
    if not shutil.which("abidiff"):
        sys.exit("abi: abidiff is missing: apt-get install abigail-tools")
    must(["cmake", "-S", ".", "-B", str(WORK), "-G", "Ninja", *OPTIONS])
    must(["cmake", "--build", str(WORK), "-j", str(len(os.sched_getaffinity(0))), "--target", *LIBRARIES])
    newer, broken = numbers(VERSION) > numbers(PROMISED_VERSION.read_text()), 0
    hint = (f"scripts/check_abi.py --record, where {VERSION} may change it" if newer else
            f"scripts/check_abi.py --record; after the release of {VERSION}, a higher version in CMakeLists.txt")
    for target, header in LIBRARIES.items():
        built, promised = describe(target, header), PROMISED / f"{target}.abi"
        if args.record:
            shutil.copy(built, promised)
            PROMISED_VERSION.write_text(f"{VERSION}\n")
            continue
        said = compare(promised, built, newer)
        print(f"abi: lib{target}: {f'not as promised (hint: {hint})' if said else 'as promised'}\n{said}".rstrip(), flush=True)
        broken += bool(said)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
