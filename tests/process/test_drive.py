"""A whole drive as the place of blocks: the kernel's loop devices, which are block devices over a file."""
import fcntl
import json
import os
import signal
import subprocess
import time
import unittest

import towpath_command
from towpath_command import CommandTest, COULD_NOT_RUN, main

DRIVE_BYTES = 256 << 20
REPLAY = ("replay", "--requests", 150, "--quiet")


def losetup(*words):
    return subprocess.run(["losetup", *map(str, words)], check=True, capture_output=True, text=True).stdout.strip()


class DriveTest(CommandTest):
    def setUp(self):
        super().setUp()
        backing = self.folder / "backing"
        with backing.open("wb") as file:
            file.truncate(DRIVE_BYTES)
        try:
            self.drive = losetup("--find", "--show", backing)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no loop device: {getattr(error, 'stderr', '') or error}")
        self.addCleanup(losetup, "--detach", self.drive)

    def tiers(self, place=None):
        return ("--tiers", f"host=256,disk={place or self.drive}/kv:{DRIVE_BYTES}")

    def found_on_disk(self, seed, *words, place=None):
        self.run_command(*REPLAY, "--seed", seed, *self.tiers(place), "--json", "report.json", *words)
        return json.loads((self.folder / "report.json").read_text())["hits"]["disk"]

    def test_blocks_outlive_the_process_and_its_death(self):
        first = self.found_on_disk(5)
        again = self.found_on_disk(5, "--buffered")
        self.assertGreater(again, first, "a drive that knows the blocks of the run before")
        fresh = self.found_on_disk(6, place=self.folder / "directory")
        running = subprocess.Popen([towpath_command.COMMAND, *map(str, REPLAY), "--seed", "6", *self.tiers()],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        written = self.sectors_written()
        deadline = time.monotonic() + 60
        while running.poll() is None and self.sectors_written() < written + 4096 and time.monotonic() < deadline:
            os.sched_yield()
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        with open(self.drive, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # its worker, and what io_uring has of the drive, may go a little later
        self.assertGreaterEqual(self.sectors_written(), written + 4096, "it was killed before it wrote")
        self.assertGreater(self.found_on_disk(6), fresh, "what the killed one had synced")

    def sectors_written(self):
        with open(f"/sys/block/{os.path.basename(self.drive)}/stat", encoding="ascii") as file:
            return int(file.read().split()[6])

    def test_a_drive_with_something_else_on_it_is_refused_untouched(self):
        with open(self.drive, "r+b", buffering=0) as file:
            file.seek(1024)
            file.write(b"a file system")
        os.sync()
        before = self.sectors_written()
        refused = self.run_command(*REPLAY, *self.tiers(), expect=COULD_NOT_RUN)
        self.assertIn("holds something that is not a store", refused.stderr)
        os.sync()
        self.assertEqual(self.sectors_written(), before)

    def test_a_drive_that_another_has_is_refused(self):
        self.found_on_disk(5)  # it has the words of a process that has ended
        mounted = os.open(self.drive, os.O_RDWR | os.O_EXCL)  # as mount(2) takes it
        self.addCleanup(os.close, mounted)
        refused = self.run_command(*REPLAY, *self.tiers(), expect=COULD_NOT_RUN)
        self.assertIn("is open", refused.stderr)


if __name__ == "__main__":
    main()
