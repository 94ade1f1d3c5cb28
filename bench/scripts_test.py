"""The scripts of bench/ take what its programs take, and `./dev bench` gives each what it knows. What `./dev engines` has
started ends with it."""
import importlib.util
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path += [str(BENCH.parent / "scripts"), str(BENCH)]  # last: its nixl.py is no package
import engines
import measurements


def load(script):
    name = f"{script}_of_bench"
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as dataclasses want it
    spec.loader.exec_module(module)
    return module


class ScriptsTest(unittest.TestCase):
    def test_each_script_takes_the_common_options(self):
        for name, (_, own) in measurements.SCRIPTS.items():
            with self.subTest(name):
                script = load(name)
                quick = script.arguments([*own, "--quick", "--only", "x", "--json", "f"])
                self.assertEqual((quick.only, quick.json), ("x", Path("f")))
                full = script.arguments([*own, "--full"])
                self.assertLess(quick.rounds, script.arguments(own).rounds)
                self.assertLess(script.arguments(own).rounds, full.rounds)
                self.assertEqual(script.arguments([*own, "--quick", "--rounds", "9"]).rounds, 9)

    def test_what_one_of_them_does_not_know_is_named(self):
        common = ["--quick", "--only", "x", "--rounds=3", "--json", "f", "--help"]
        self.assertIsNone(measurements.unknown_option(["plan", "shmem", *measurements.SCRIPTS], common))
        self.assertIsNone(measurements.unknown_option(["storage", "tiers"], ["--dir", "/tmp"]))
        self.assertIsNone(measurements.unknown_option(["oshmem"], ["--pes=2"]))
        for names, option in ((["storage", "plan"], "--dir"), (["oshmem", "shmem"], "--pes")):
            with self.subTest(names):
                self.assertIn(f"{names[1]} has no option {option}", measurements.unknown_option(names, [option, "2"]))

    def test_figures_of_several_go_to_files_of_their_own(self):
        self.assertEqual(measurements.options_of("plan", ["--json", "f", "--quick"], True), ["--json", "f.plan", "--quick"])
        self.assertEqual(measurements.options_of("plan", ["--json=f"], True), ["--json=f.plan"])
        self.assertEqual(measurements.options_of("plan", ["--json", "f"], False), ["--json", "f"])


INTERRUPTED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import engines
engines.heed_interrupts()
engine = "import os, time; print('12:00:00', os.getpid(), flush=True); " + sys.argv[2]
engines.run_one(sys.executable, "case", ["-c", engine], dict(os.environ), os.devnull)
"""


def runs(process):
    """Also of one that nobody has reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class EnginesTest(unittest.TestCase):
    def interrupted(self, engine, interrupts):
        """A run of one engine, whose number is given too, after a Ctrl-C."""
        running = subprocess.Popen([sys.executable, "-B", "-c", INTERRUPTED, BENCH.parent / "scripts", engine],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, interrupts))
        self.assertRegex(running.stdout.readline(), " case begins$")
        process = int(running.stdout.readline().split()[-1])
        running.send_signal(signal.SIGINT)
        return running, process

    def test_an_interrupt_ends_the_engines_that_were_started(self):
        running, engine = self.interrupted("time.sleep(600)", signal.SIG_DFL)
        running.communicate(timeout=60)
        end = time.monotonic() + 60
        while runs(engine) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(runs(engine))

    def test_two_run_at_once_where_there_is_memory_for_two(self):
        for gib, cores, at_once in ((23, 2, 2), (23, 1, 1), (15, 8, 1)):
            of_machine = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": gib << 18}
            with self.subTest(gib=gib, cores=cores), unittest.mock.patch("os.sysconf", of_machine.get), \
                    unittest.mock.patch("os.sched_getaffinity", lambda _: set(range(cores))):
                self.assertEqual(engines.usual_at_once(), at_once)

    def test_an_interrupt_that_is_ignored_from_the_start_ends_none(self):
        running, _ = self.interrupted("input()", signal.SIG_IGN)
        said, _ = running.communicate("go\n", timeout=60)
        self.assertEqual(running.returncode, 0)
        self.assertIn(" case is good", said)


if __name__ == "__main__":
    unittest.main()
