"""Two network namespaces joined by a veth pair are two machines: bytes cross over TCP, by sockets and by UCX, and when the
link between them is cut, both sides say so in the heartbeat's time. Needs root and iproute2."""
import os
import subprocess
import time
import unittest

import towpath_command
from namespaces import ADDRESS, HERE, THERE, WATCHDOG_S, ip, join, read, wait_for, why_not
from towpath_command import COULD_NOT_RUN, CommandTest, OK, main

TIMEOUT_S = 5  # the backend's default; nobody is lost before, and soon after


@unittest.skipIf(why_not(), why_not() or "")
class TcpNamespacesTest(CommandTest):
    backend = "tcp"
    way = "messages over TCP"

    def setUp(self):
        super().setUp()
        join(self)
        token = self.folder / "token"
        token.write_text("0123456789abcdef0123456789abcdef\n")
        token.chmod(0o600)
        self.meeting = f"tcp://{ADDRESS}:7771?token-file={token}"

    def start(self, namespace, role, *words):
        # Another IPC and mount namespace too: shared memory must not shorten the way.
        command = ["ip", "netns", "exec", namespace, "unshare", "--ipc", towpath_command.COMMAND,
                   "replay", "--role", role, "--backend", self.backend, "--rendezvous", self.meeting,
                   "--directory", str(self.folder), *map(str, words)]
        process = subprocess.Popen(command, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_bytes_cross_and_are_verified(self):
        prefill = self.start(HERE, "prefill")
        decode = self.start(THERE, "decode", "--requests", 300, "--quiet")
        reported, _ = decode.communicate(timeout=WATCHDOG_S)
        self.assertEqual(decode.returncode, OK, reported)
        self.assertIn("PASSED", reported)
        self.assertIn(self.way, reported)
        said, _ = prefill.communicate(timeout=WATCHDOG_S)
        self.assertEqual(prefill.returncode, OK, said)

    def test_cut_link_is_reported_in_time(self):
        prefill = self.start(HERE, "prefill")
        decode = self.start(THERE, "decode", "--requests", 10**9, "--quiet")
        # In the middle: bytes flow over the pair.
        wait_for(self, lambda: decode.poll() is not None or
                 int(read(THERE, "vb", "statistics/rx_bytes")) > 50_000_000)
        self.assertIsNone(decode.poll(), "decode ended early")
        ip("-n", HERE, "link", "set", "va", "down")
        cut = time.monotonic()
        reported, _ = decode.communicate(timeout=WATCHDOG_S)
        self.assertGreater(time.monotonic() - cut, TIMEOUT_S / 2, reported)
        self.assertEqual(decode.returncode, COULD_NOT_RUN, reported)
        self.assertRegex(reported, "silent for|was lost")
        prefill.communicate(timeout=WATCHDOG_S)
        self.assertNotEqual(prefill.returncode, OK)


HAS_UCX = os.environ.get("TOWPATH_HAS_UCX") == "ON"  # tests/process/CMakeLists.txt says it


@unittest.skipUnless(HAS_UCX, "this build has no UCX: apt-get install libucx-dev")
class UcxNamespacesTest(TcpNamespacesTest):
    backend = "UCX"
    way = "messages over UCX"


if __name__ == "__main__":
    main()
