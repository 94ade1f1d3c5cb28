#!/usr/bin/env python3
"""libtowpath_openshmem.so from outside: what it shows, that the tests call all of it, the wrappers that
compile programs, and how jobs of such programs end."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[1]
WATCHDOG_S = 240
# Only what symmetric memory needs: a PE starts in milliseconds.
MAY_NEED = re.compile(r"lib(c|m|gcc_s|stdc\+\+|dl|numa|uring|xxhash|(?:a|l|t|ub)san|clang_rt\.\w+)(-[\w.]+)?\.so(\.\d+)*|ld-linux[\w.-]*")
ARGS = None

RING = r"""
#include <shmem.h>
#include <stdio.h>
static int token = -1;
int main(void) {
  shmem_init();
  shmem_int_p(&token, shmem_my_pe(), (shmem_my_pe() + 1) % shmem_n_pes());
  shmem_barrier_all();
  printf("PE %d has %d\n", shmem_my_pe(), token);
  %s
}
"""
SUM = "#include <shmem.h>\nint main() { shmem_init(); shmem_sync_all(); shmem_finalize(); return 0; }\n"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def names(*command):
    return {line.split()[-1].split("@")[0] for line in output(ARGS.nm, *command).splitlines()}


class OpenshmemTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def build(self, text, *options, wrapper="towpath-shmcc", ending="c"):
        source, program = self.folder / f"program.{ending}", self.folder / "program"
        source.write_text(text)
        options = [*options, *filter(None, ARGS.sanitize.split(";"))]
        done = subprocess.run([f"{ARGS.wrappers}/{wrapper}", *options, "-Wall", "-Wextra", "-Werror", source, "-o", program],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_pes(self, pes, program, expect=0):
        done = subprocess.run([ARGS.run, "run", "-n", str(pes), "--heap", "4M", "--", program], timeout=WATCHDOG_S,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def ring(self, ending="shmem_finalize();\n  return 0;"):
        return RING.replace("%s", ending)

    def test_the_library_shows_what_the_header_declares_and_the_tests_call_it(self):
        shown = {name for name in names("-D", "--defined-only", ARGS.library) if name != "TOWPATH"}
        declared = set(re.findall(r"\b((?:shmem_|sh|start_|_my_|_num_)\w+) ?\(",
                                  output(ARGS.cc, "-E", "-P", "-std=c99", HEADERS / "shmem.h")))
        self.assertEqual(shown ^ (declared & shown), set())
        self.assertEqual(declared - shown, set())
        called = names("-u", ARGS.test)
        self.assertEqual(shown - called, {"shmem_global_exit"}, "the tests do not call these; that one is called below")
        self.assertGreater(len(shown), 1600)

    def test_the_library_needs_little(self):
        dynamic = output(ARGS.readelf, "-d", ARGS.library)
        self.assertIn("[libtowpath_openshmem.so.0]", dynamic)
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
            self.assertRegex(needed, MAY_NEED)

    def test_programs_of_all_kinds(self):
        wanted = {f"PE {pe} has {(pe + 2) % 3}" for pe in range(3)}
        for options in ([], ["-no-pie"], ["-pie", "-Wl,-z,relro,-z,now"], ["-std=c99", "-O2"]):
            with self.subTest(options=options):
                program = self.build(self.ring(), *options)
                self.assertEqual(set(self.run_pes(3, program).stdout.splitlines()), wanted)
        self.run_pes(2, self.build(SUM, wrapper="towpath-shmc++", ending="cc"))

    def test_the_wrapper_shows_what_it_does(self):
        shown = output(f"{ARGS.wrappers}/towpath-shmcc", "--show")
        self.assertIn("-ltowpath_openshmem", shown)
        source = self.folder / "part.c"
        source.write_text(SUM)
        output(f"{ARGS.wrappers}/towpath-shmcc", "-c", source, "-o", self.folder / "part.o")

    def test_the_example_counts(self):
        program = self.build((HEADERS.parents[1] / "examples" / "openshmem_primes.c").read_text(), "-O2")
        self.assertEqual(self.run_pes(4, program).stdout, "4 PEs found 9592 primes below 100000\n")

    def test_a_program_may_end_without_finalize(self):
        self.run_pes(3, self.build(self.ring("return 0;")))

    def test_one_pe_ends_all(self):
        endless = "if (shmem_my_pe() == 1) shmem_global_exit(%s);\n  for (;;) shmem_sync_all();"
        for status in (0, 5):
            done = self.run_pes(3, self.build(self.ring(endless.replace("%s", str(status)))), expect=status)
            self.assertNotIn("signal", done.stderr)

    def test_a_death_is_told_to_those_that_wait(self):
        program = self.build(self.ring("if (shmem_my_pe() == 1) __builtin_trap();\n  shmem_barrier_all();\n  return 0;"))
        done = subprocess.run([ARGS.run, "run", "-n", "2", "--", program], capture_output=True, text=True,
                              timeout=WATCHDOG_S)
        self.assertIn("openshmem: PE 0: peer_lost: barrier of team 0", done.stderr)

    def run_hosts(self, program, expect):
        """On two hosts, as far as PEs can tell; where UCX is installed."""
        done = subprocess.run([ARGS.run, "run", "--hosts", "localhost,localhost", "--launcher", "sh -c {command}", "-n", "3",
                               "--", program], capture_output=True, text=True, timeout=WATCHDOG_S)
        if "apt-get install libucx" in done.stderr:
            self.skipTest("no UCX")
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def test_a_program_runs_on_several_hosts(self):
        done = self.run_hosts(self.build(self.ring()), expect=0)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"PE {pe} has {(pe + 2) % 3}" for pe in range(3)])

    def test_one_pe_ends_all_of_several_hosts(self):
        # Also those that compute, and are in no call that could tell them.
        endless = "if (shmem_my_pe() == 1) shmem_global_exit(%s);\n  for (;;) sleep(1);"
        for status in (0, 5):
            text = "#include <unistd.h>\n" + self.ring(endless.replace("%s", str(status)))
            self.run_hosts(self.build(text), expect=status)

    def test_what_is_not_symmetric_is_told(self):
        program = self.build(self.ring("int here = 0;\n  shmem_int_p(&here, 1, 0);\n  return 0;"))
        self.assertIn("4 bytes at 0x", self.run_pes(1, program, expect=1).stderr)


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "test", "nm", "readelf", "cc", "cxx", "run", "wrappers"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sanitize", default="", help="options for programs that use it, with ; between them")
    ARGS = parser.parse_args()
    os.environ.update(SHMEM_CC=ARGS.cc, SHMEM_CXX=ARGS.cxx)
    unittest.main(argv=[sys.argv[0]])


if __name__ == "__main__":
    main()
