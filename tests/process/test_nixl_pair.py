"""Two programs that know NIXL's C interface and ask for UCX alone: on one host their bytes go through
shared memory, across machines over UCX, and the flight recorders report which. Needs, across, root and
iproute2."""
import json
import os
import subprocess
import sys
import unittest

from namespaces import HERE, THERE, WATCHDOG_S, join, why_not
from towpath_command import CommandTest, OK, main

PAIR = ""  # the program; set below


class NixlPairTest(CommandTest):
    def start(self, role, *before, **more):
        environment = {**os.environ, "NIXL_TELEMETRY_ENABLE": "1",
                       "NIXL_TELEMETRY_DIR": str(self.folder), **more}
        process = subprocess.Popen([*before, PAIR, role, str(self.folder)], text=True,
                                   env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        for clean in process.wait, process.stdout.close, process.kill:
            self.addCleanup(clean)
        return process

    def moved_by(self, owner, reader):
        """Which backend the reader's flight recorder names, when both have ended well."""
        said, _ = reader.communicate(timeout=WATCHDOG_S)
        self.assertEqual(reader.returncode, OK, said)
        said, _ = owner.communicate(timeout=WATCHDOG_S)
        self.assertEqual(owner.returncode, OK, said)
        flight, = self.folder.glob("reader.*.flight")
        reported = json.loads(self.run_command("flight", flight, "--json", "-").stdout)
        ended = [record for record in reported["records"] if record["event"] == "transfer_ended"]
        self.assertEqual([record["outcome"] for record in ended], ["done"])
        return ended[0]["backend"]

    def test_on_one_host_bytes_go_through_shared_memory(self):
        self.assertEqual(self.moved_by(self.start("owner"), self.start("reader")), "shm")

    def test_transports_without_shared_memory_are_heeded(self):
        without = {"UCX_TLS": "tcp"}
        self.assertEqual(
            self.moved_by(self.start("owner", **without), self.start("reader", **without)), "tcp")

    @unittest.skipIf(why_not(), why_not() or "")
    def test_across_machines_the_same_programs_use_tcp(self):
        join(self)
        owner = self.start("owner", "ip", "netns", "exec", HERE)
        reader = self.start("reader", "ip", "netns", "exec", THERE)
        self.assertEqual(self.moved_by(owner, reader), "tcp")


if __name__ == "__main__":
    PAIR = os.path.abspath(sys.argv.pop(2))
    main()
