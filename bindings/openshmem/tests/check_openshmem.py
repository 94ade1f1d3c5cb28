#!/usr/bin/env python3
"""libtowpath_openshmem.so from outside: what it shows, that the tests call all of it, the wrappers that
compile programs, and how jobs of such programs end."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[1]
WATCHDOG_S = 240
# Only what symmetric memory needs, OpenSSL for PEs of several hosts: a PE starts in milliseconds.
MAY_NEED = re.compile(r"lib(c|m|gcc_s|stdc\+\+|dl|numa|uring|xxhash|crypto|ssl|(?:a|l|t|ub)san|clang_rt\.\w+)(-[\w.]+)?\.so(\.\d+)*|ld-linux[\w.-]*")
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
# As a profiler does it: functions of its own, by the names that programs call.
PROFILER = r"""
#include <pshmem.h>
#include <stdio.h>
static int puts_seen, inits_seen, level_seen, value;
#ifdef __cplusplus
extern "C" {
#endif
void shmem_int_put(int* dest, const int* source, size_t count, int pe) {
  ++puts_seen;
  pshmem_int_put(dest, source, count, pe);
}
int shmem_init_thread(int requested, int* provided) { return ++inits_seen, pshmem_init_thread(requested, provided); }
void shmem_pcontrol(int level, ...) { level_seen = level; }
#ifdef __cplusplus
}
#endif
int main(void) {
  const int seven = 7;
  int provided;
  shmem_init_thread(SHMEM_THREAD_SINGLE, &provided);
  shmem_pcontrol(3);
  shmem_int_put(&value, &seven, 1, 1 - shmem_my_pe());
  shmem_barrier_all();
  if (value == 7) printf("PE %d: %d put, level %d, %d init\n", pshmem_my_pe(), puts_seen, level_seen, inits_seen);
  pshmem_init();
  pshmem_finalize();
  return inits_seen != 1;
}
"""
# Not linked with the library.
OPENS = r"""
#include <dlfcn.h>
int main(int argc, char** argv) {
  void* library = dlopen(argv[argc - 1], RTLD_NOW);
  if (!library) return 1;
  ((void (*)(void))dlsym(library, "shmem_init"))();
  ((void (*)(void))dlsym(library, "shmem_finalize"))();
  return dlclose(library);
}
"""
# Its handler was registered first, so it is called behind the library's own.
ENDS_AT_EXIT = r"""
#include <shmem.h>
#include <stdlib.h>
int main(void) {
  (void)atexit(shmem_finalize);
  shmem_init();
  shmem_init();
  return 0;
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

    def build(self, text, *options, wrapper="towpath-shmcc", ending="c", compilers=()):
        source, program = self.folder / f"program.{ending}", self.folder / "program"
        source.write_text(text)
        options = [*options, *filter(None, ARGS.sanitize.split(";"))]
        done = subprocess.run([f"{ARGS.wrappers}/{wrapper}", *options, "-Wall", "-Wextra", "-Werror", source, "-o", program],
                              capture_output=True, text=True, env={**os.environ, **dict(compilers)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_pes(self, pes, program, expect=0, **variables):
        done = subprocess.run([ARGS.run, "run", "-n", str(pes), "--heap", "4M", "--", program], timeout=WATCHDOG_S,
                              capture_output=True, text=True, env={**os.environ, **variables})
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def ring(self, ending="shmem_finalize();\n  return 0;"):
        return RING.replace("%s", ending)

    def test_the_library_shows_what_the_header_declares_and_the_tests_call_it(self):
        shown = {name for name in names("-D", "--defined-only", ARGS.library) if name != "TOWPATH"}
        declared = set(re.findall(r"\b((?:shmem_|sh|start_|_my_|_num_)\w+) ?\(",
                                  output(ARGS.cc, "-E", "-P", "-std=c99", HEADERS / "shmem.h")))
        seconds = {f"p{name}" for name in declared if name.startswith("shmem_")}
        self.assertEqual(shown ^ (declared | seconds), set())
        shown -= seconds
        called = names("-u", ARGS.test)
        self.assertEqual(shown - called, {"shmem_global_exit"}, "the tests do not call these; that one is called below")
        self.assertGreater(len(shown), 1600)

    def test_each_choice_by_type_is_made_in_the_tests(self):
        choices = set(re.findall(r"#define (shmem_\w+)\(", (HEADERS / "shmem_generic.h").read_text()))
        called = set(re.findall(r"\b(shmem_\w+)\(", (HEADERS / "tests" / "test_generic.c").read_text()))
        self.assertEqual(choices - called, set())
        self.assertGreater(len(choices), 60)

    def test_a_profiler_stands_between_the_program_and_the_library(self):
        for wrapper, ending in (("towpath-shmcc", "c"), ("towpath-shmc++", "cc")):
            done = self.run_pes(2, self.build(PROFILER, wrapper=wrapper, ending=ending))
            # One call of the program's, though the library has such functions call each other.
            self.assertEqual(sorted(done.stdout.splitlines()), ["PE 0: 1 put, level 3, 1 init", "PE 1: 1 put, level 3, 1 init"])

    def test_the_second_names_are_the_same_functions(self):
        at = {}
        for line in output(ARGS.nm, "-D", "--defined-only", ARGS.library).splitlines():
            address, *_, name = line.split()
            at[name.split("@")[0]] = address
        for name, address in at.items():
            if name.startswith("pshmem_"):
                self.assertEqual(address, at[name[1:]], name)

    def test_the_library_needs_little(self):
        dynamic = output(ARGS.readelf, "-d", ARGS.library)
        self.assertIn(f"[{ARGS.soname}]", dynamic)
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
            self.assertRegex(needed, MAY_NEED)

    def test_programs_of_all_kinds(self):
        wanted = {f"PE {pe} has {(pe + 2) % 3}" for pe in range(3)}
        for options in ([], ["-no-pie"], ["-pie", "-Wl,-z,relro,-z,now"], ["-std=c99", "-O2"]):
            with self.subTest(options=options):
                program = self.build(self.ring(), *options)
                self.assertEqual(set(self.run_pes(3, program).stdout.splitlines()), wanted)
        self.run_pes(2, self.build(SUM, wrapper="towpath-shmc++", ending="cc"))

    def test_every_compiler_takes_every_header_by_every_name(self):
        text = "".join(f"#include <{name}>\n" for name in ("shmem.h", "shmemx.h", "mpp/shmem.h", "mpp/shmemx.h")) + SUM
        for variable, wrapper, ending, compilers, standards in (
                ("SHMEM_CC", "towpath-shmcc", "c", ("gcc", "clang"), ("c99", "c11", "gnu17")),
                ("SHMEM_CXX", "towpath-shmc++", "cc", ("g++", "clang++", "clang++-14"), ("c++11", "c++17", "gnu++20"))):
            if ARGS.sanitize:  # whose libraries are of the compiler that built ours
                compilers = (ARGS.cc if variable == "SHMEM_CC" else ARGS.cxx,)
            for compiler in filter(shutil.which, compilers):
                for standard in standards:
                    with self.subTest(compiler=compiler, standard=standard):
                        self.run_pes(1, self.build(text, f"-std={standard}", wrapper=wrapper, ending=ending,
                                                   compilers={variable: compiler}))

    def test_the_wrapper_shows_what_it_does(self):
        shown = output(f"{ARGS.wrappers}/towpath-shmcc", "--show")
        self.assertIn("-ltowpath_openshmem", shown)
        source = self.folder / "part.c"
        source.write_text(SUM)
        output(f"{ARGS.wrappers}/towpath-shmcc", "-c", source, "-o", self.folder / "part.o")

    def test_the_wrapper_may_lie_in_a_folder_with_a_space(self):
        folder = self.folder.resolve() / "a folder"
        folder.mkdir()
        wrapper = shutil.copy(f"{ARGS.wrappers}/installed/towpath-shmcc", folder)
        done = subprocess.run([wrapper, "one.c", "-DTEXT=a b"], check=True, capture_output=True, text=True,
                              env={**os.environ, "SHMEM_CC": "printf <%s>\\n"})
        words = re.findall(r"<(.*)>\n", done.stdout)
        self.assertEqual([word[:2] for word in words], ["-I", "on", "-D", "-L", "-W", "-l"], done.stdout)
        self.assertTrue(words[0].startswith(f"-I{folder}/"), words)

    def test_the_example_counts(self):
        program = self.build((HEADERS.parents[1] / "examples" / "openshmem_primes.c").read_text(), "-O2")
        self.assertEqual(self.run_pes(4, program).stdout, "4 PEs found 9592 primes below 100000\n")

    def test_a_program_says_what_the_environment_asks_for(self):
        program = self.build(SUM)
        self.assertEqual(self.run_pes(2, program, SHMEM_VERSION="0", SHMEM_DEBUG="no").stderr, "")
        name, = self.run_pes(2, program, SHMEM_VERSION="").stderr.splitlines()
        self.assertRegex(name, r"^Towpath \d+\.\d+\.\d+, OpenSHMEM 1\.6$")
        described = re.findall(r"^  (\w+)  ", self.run_pes(2, program, SHMEM_INFO="any").stderr, re.M)
        self.assertEqual(described, ["SHMEM_SYMMETRIC_SIZE", "SHMEM_VERSION", "SHMEM_INFO", "SHMEM_DEBUG", "TOWPATH_SHMEM_HEAP",
                                     "TOWPATH_SHMEM_HUGE_PAGES", "TOWPATH_SHMEM_NODE", "TOWPATH_SHMEM_NETWORK"])
        lines = sorted(self.run_pes(2, program, SHMEM_DEBUG="1").stderr.splitlines())
        self.assertEqual(lines, [f"{name}: PE {pe} of 2, its heap 4 MiB in ordinary pages" for pe in range(2)])

    def test_a_program_may_open_the_library_and_close_it(self):
        source, program = self.folder / "opens.c", self.folder / "opens"
        source.write_text(OPENS)
        output(ARGS.cc, *filter(None, ARGS.sanitize.split(";")), source, "-ldl", "-o", program)
        self.assertEqual(subprocess.run([program, ARGS.library], timeout=WATCHDOG_S).returncode, 0)

    def test_a_program_may_end_without_finalize(self):
        self.run_pes(3, self.build(self.ring("return 0;")))

    def test_a_program_that_has_ended_may_finalize_in_an_exit_handler(self):
        done = self.run_pes(2, self.build(ENDS_AT_EXIT))
        self.assertNotIn("finalized", done.stderr)

    def test_one_pe_ends_all(self):
        endless = "if (shmem_my_pe() == 1) shmem_global_exit(%s);\n  for (;;) shmem_sync_all();"
        for status in (0, 5):
            done = self.run_pes(3, self.build(self.ring(endless.replace("%s", str(status)))), expect=status)
            self.assertNotIn("signal", done.stderr)

    def test_a_death_is_reported_to_those_that_wait(self):
        for call in ("shmem_barrier_all()", "shmem_barrier(0, 0, 2, sync)", "shmem_fcollect32(sync, &token, 1, 0, 0, 2, sync + 2)"):
            with self.subTest(call=call):
                program = self.build(self.ring(f"static long sync[8];\n  if (shmem_my_pe() == 1) __builtin_trap();\n"
                                               f"  {call};\n  printf(\"went on %ld\\n\", sync[0]);\n  return 0;"))
                done = subprocess.run([ARGS.run, "run", "-n", "2", "--", program], capture_output=True, text=True,
                                      timeout=WATCHDOG_S)
                self.assertRegex(done.stderr, "openshmem: PE 0: peer_lost: (barrier|collect) of team 0")
                self.assertNotIn("went on", done.stdout)
                self.assertNotEqual(done.returncode, 0)

    def run_hosts(self, *program, expect):
        """On two hosts, as far as PEs can determine."""
        done = subprocess.run([ARGS.run, "run", "--hosts", "localhost,localhost", "--launcher", "sh -c {command}", "-n", "3",
                               "--", *program], capture_output=True, text=True, timeout=WATCHDOG_S)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def test_a_program_runs_on_several_hosts(self):
        done = self.run_hosts(self.build(self.ring()), expect=0)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"PE {pe} has {(pe + 2) % 3}" for pe in range(3)])

    def test_strided_puts_and_gets_reach_other_hosts(self):
        done = self.run_hosts(ARGS.test, "rma.strided", expect=0)
        self.assertIn("good   rma.strided_gets_reach_far", done.stdout)

    def test_one_pe_ends_all_of_several_hosts(self):
        # Also those that compute, and are in no call that could notify them.
        endless = "if (shmem_my_pe() == 1) shmem_global_exit(%s);\n  for (;;) sleep(1);"
        for status in (0, 5):
            text = "#include <unistd.h>\n" + self.ring(endless.replace("%s", str(status)))
            self.run_hosts(self.build(text), expect=status)

    def test_an_end_before_the_beginning_is_reported(self):
        program = self.build("#include <shmem.h>\nint main(void) { shmem_finalize(); shmem_init(); return 0; }\n")
        self.assertIn("before the PE was initialised", self.run_pes(1, program, expect=1).stderr)

    def test_a_comparison_that_is_none_is_reported(self):
        for call in ("shmem_int_wait_until(&token, 6, 0)", "(void)shmem_int_test(&token, -1, 0)",
                     "(void)shmem_int_wait_until_any(&token, 1, NULL, 6, 0)", "(void)shmem_signal_wait_until(&word, 6, 0)"):
            with self.subTest(call=call):
                program = self.build(self.ring(f"static uint64_t word;\n  {call};\n  return (int)word;"))
                self.assertRegex(self.run_pes(1, program, expect=1).stderr, "comparison (6|-1)")

    def test_a_psync_that_was_not_set_is_reported(self):
        for found in (77777, 1, -1):  # 1: the number of the world's team
            with self.subTest(found=found):
                program = self.build(self.ring(f"static long sync[4] = {{0, {found}}};\n"
                                               "  shmem_barrier(1, 0, 2, sync + (shmem_my_pe() == 2));\n  return 0;"))
                self.assertIn(f"PE 2: invalid_argument: a pSync that holds {found} (hint", self.run_pes(3, program, expect=1).stderr)

    def test_what_is_not_symmetric_is_reported(self):
        program = self.build(self.ring("int here = 0;\n  shmem_int_p(&here, 1, 0);\n  return 0;"))
        self.assertIn("4 bytes at 0x", self.run_pes(1, program, expect=1).stderr)

    def test_sizes_that_wrap_are_reported(self):
        # Each would be a few bytes, modulo 2^64.
        many = "((size_t)1 << 62) + 1"
        for call in (f"shmem_int_put(&token, &token, {many}, 0)", f"shmem_int_get(&token, &token, {many}, 0)",
                     f"shmem_int_fcollect(SHMEM_TEAM_WORLD, &token, &token, {many})",
                     f"shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &token, &token, {many})",
                     "shmem_int_iput(&token, &token, (ptrdiff_t)1 << 62, 1, 2, 0)",
                     "shmem_int_alltoalls(SHMEM_TEAM_WORLD, &token, &token, (ptrdiff_t)1 << 62, 1, 1)"):
            with self.subTest(call=call):
                program = self.build(self.ring(f"{call};\n  return 0;"))
                self.assertRegex(self.run_pes(1, program, expect=1).stderr, "18446744073709551615 bytes|no memory is that large")


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "soname", "test", "nm", "readelf", "cc", "cxx", "run", "wrappers"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sanitize", default="", help="options for programs that use it, with ; between them")
    ARGS = parser.parse_args()
    os.environ.update(SHMEM_CC=ARGS.cc, SHMEM_CXX=ARGS.cxx)
    unittest.main(argv=[sys.argv[0]])


if __name__ == "__main__":
    main()
