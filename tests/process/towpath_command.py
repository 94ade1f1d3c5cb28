"""Runs the `towpath` command under test; its path is the first argument of the test."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

OK, FOUND_WRONG, USAGE, COULD_NOT_RUN = range(4)
COMMAND = ""  # set by main()
WATCHDOG_S = 120  # a command that hangs fails its test here, not the whole run


class CommandTest(unittest.TestCase):
    """A folder of its own, and the command."""

    environment = {}  # of the command, over that of the test

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="towpath-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_command(self, *words, expect=OK, before=None):
        """Runs `towpath WORDS`; its status must be `expect`. Gives what it printed. `before` is
        called in the new process first."""
        done = subprocess.run([COMMAND, *map(str, words)], cwd=self.folder, text=True,
                              capture_output=True, timeout=WATCHDOG_S, preexec_fn=before,
                              env={**os.environ, **self.environment})
        self.assertEqual(done.returncode, expect, f"{words}\n{done.stdout}{done.stderr}")
        return done


def take_signals():
    """A test that runs in the background of a shell, or under nohup, ignores them, and so would what it starts."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def main():
    """Runs the tests of the calling script."""
    global COMMAND
    COMMAND = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)  # which says why a test is skipped
