"""`towpath replay`: whoever is killed leaves nothing behind, and the other one ends. Runs by itself: it looks at
what is everybody's."""
import ctypes
import os
import random
import re
import signal
import subprocess
from pathlib import Path

import towpath_command
from towpath_command import COULD_NOT_RUN, CommandTest, WATCHDOG_S, main, take_signals

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
ENDLESS = 10**12


def left_behind():
    """What a process could leave: shared memory with a name of ours, abstract sockets."""
    sockets = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()
               if "replay-" in line]
    return sorted(name for name in os.listdir("/dev/shm") if "towpath" in name or "replay" in name), sockets


class DeathTest(CommandTest):
    """Either process is killed at some moment; the other ends, says so, and leaves nothing."""

    def setUp(self):
        super().setUp()
        self.assertEqual(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1), 0)
        self.before = left_behind()

    def start(self):
        self.decode = subprocess.Popen(
            [towpath_command.COMMAND, "replay", "--directory", str(self.folder), "--requests",
             str(ENDLESS), "--host-blocks", "400", "--disk-blocks", "4000", "--timeout", "10"],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=take_signals)
        self.addCleanup(self.decode.kill)
        self.addCleanup(self.decode.stderr.close)
        self.addCleanup(self.decode.stdout.close)
        children = Path(f"/proc/{self.decode.pid}/task/{self.decode.pid}/children")
        while not (found := children.read_text().split()):
            self.assertIsNone(self.decode.poll(), "ended before it began")
        self.prefill = int(found[0])

    def wait_for_requests(self, count):
        """Until the live line shows so many."""
        said = b""
        while count > 0:
            more = os.read(self.decode.stderr.fileno(), 4096)
            self.assertTrue(more, f"ended too early: {said}")
            said = (said + more)[-8192:]
            reported = re.findall(rb"([\d,]+) requests", said)
            if reported and int(reported[-1].replace(b",", b"")) >= count:
                self.assertTrue(set(left_behind()[1]) - set(self.before[1]), "what is looked for has another name")
                return

    def check_nothing_is_left(self):
        for left, before in zip(left_behind(), self.before):
            self.assertEqual(sorted(set(left) - set(before)), [])  # what others had may have gone
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_decode_ends_when_prefill_is_killed(self):
        for moment in (0, 1, random.Random(1).randrange(100, 2000)):
            with self.subTest(requests=moment):
                self.start()
                self.wait_for_requests(moment)
                os.kill(self.prefill, signal.SIGKILL)
                _, said = self.decode.communicate(timeout=WATCHDOG_S)
                self.assertEqual(self.decode.returncode, COULD_NOT_RUN, said)
                self.assertRegex(said.decode(), r"the prefill-0 process was ended by signal 9 \(KILL\)")
                self.check_nothing_is_left()

    def check_prefill_ends(self):
        _, said = self.decode.communicate(timeout=WATCHDOG_S)  # until prefill has closed it
        _, status = os.waitpid(self.prefill, 0)  # it is ours now
        self.assertEqual(os.waitstatus_to_exitcode(status), COULD_NOT_RUN, said)
        self.assertRegex(said.decode(), "decode")
        self.check_nothing_is_left()

    def test_prefill_ends_when_decode_is_killed(self):
        for moment in (0, 1, random.Random(2).randrange(100, 2000)):
            with self.subTest(requests=moment):
                self.start()
                self.wait_for_requests(moment)
                self.decode.kill()
                self.check_prefill_ends()

    def test_an_interrupted_prefill_whose_decode_is_elsewhere_leaves_no_files(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                prefill = subprocess.Popen([towpath_command.COMMAND, "replay", "--role", "prefill", "--run", f"replay-{os.getpid()}",
                                            "--directory", str(self.folder)], preexec_fn=take_signals)
                self.addCleanup(prefill.kill)
                while not any(self.folder.rglob("lock")):
                    self.assertIsNone(prefill.poll(), "ended before it began")
                prefill.send_signal(number)
                self.assertEqual(prefill.wait(WATCHDOG_S), -number)
                self.check_nothing_is_left()

    def test_a_signal_of_the_terminal_to_all_leaves_nothing_behind(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                self.start()
                self.wait_for_requests(random.Random(number).randrange(100, 2000))
                os.killpg(self.decode.pid, number)
                self.check_prefill_ends()


if __name__ == "__main__":
    main()
