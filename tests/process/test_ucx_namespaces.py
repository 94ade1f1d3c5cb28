"""Two network namespaces joined by a veth pair are two machines: bytes cross over UCX, and when the
link between them is cut, both sides say so in the heartbeat's time. Needs root and iproute2."""
import os
import shutil
import subprocess
import time
import unittest

import towpath_command
from towpath_command import COULD_NOT_RUN, CommandTest, OK, main

HERE, THERE = f"tp{os.getpid()}a", f"tp{os.getpid()}b"
ADDRESS = "10.77.0.1"
TIMEOUT_S = 5  # the backend's default; nobody is lost before, and soon after
WATCHDOG_S = 90


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def why_not():
    if os.geteuid() != 0:
        return "network namespaces need root: run the tests as root"
    if shutil.which("ip") is None:
        return "there is no `ip` (apt-get install iproute2)"
    if subprocess.run(["ip", "netns", "add", HERE], capture_output=True).returncode != 0:
        return "no network namespace can be made here: run with CAP_SYS_ADMIN"
    ip("netns", "del", HERE)
    return None


@unittest.skipIf(why_not(), why_not() or "")
class UcxNamespacesTest(CommandTest):
    def setUp(self):
        super().setUp()
        for name in HERE, THERE:
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "va", "netns", HERE, "type", "veth", "peer", "name", "vb", "netns", THERE)
        ip("-n", HERE, "addr", "add", f"{ADDRESS}/24", "dev", "va")
        ip("-n", THERE, "addr", "add", "10.77.0.2/24", "dev", "vb")
        ip("-n", HERE, "link", "set", "va", "up")
        ip("-n", THERE, "link", "set", "vb", "up")
        for name, device in (HERE, "va"), (THERE, "vb"):  # UCX uses what runs when it starts
            self.wait_for(lambda: self.read(name, device, "operstate") == "up")
        token = self.folder / "token"
        token.write_text("0123456789abcdef0123456789abcdef\n")
        token.chmod(0o600)
        self.meeting = f"tcp://{ADDRESS}:7771?token-file={token}"

    @staticmethod
    def read(namespace, device, what):
        """A line of /sys/class/net, as the namespace sees it."""
        path = f"/sys/class/net/{device}/{what}"
        return subprocess.run(["ip", "netns", "exec", namespace, "cat", path],
                              capture_output=True, text=True).stdout.strip()

    def wait_for(self, condition):
        end = time.monotonic() + WATCHDOG_S
        while not condition():
            self.assertLess(time.monotonic(), end, "the watchdog barked")

    def start(self, namespace, role, *words):
        # Another IPC and mount namespace too: shared memory must not shorten the way.
        command = ["ip", "netns", "exec", namespace, "unshare", "--ipc", towpath_command.COMMAND,
                   "replay", "--role", role, "--backend", "UCX", "--rendezvous", self.meeting,
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
        told, _ = decode.communicate(timeout=WATCHDOG_S)
        self.assertEqual(decode.returncode, OK, told)
        self.assertIn("PASSED", told)
        self.assertIn("messages over UCX", told)
        prefill.communicate(timeout=WATCHDOG_S)

    def test_cut_link_is_told_in_time(self):
        prefill = self.start(HERE, "prefill")
        decode = self.start(THERE, "decode", "--requests", 10**9, "--quiet")
        # In the middle: bytes flow over the pair.
        self.wait_for(lambda: decode.poll() is not None or
                      int(self.read(THERE, "vb", "statistics/rx_bytes")) > 50_000_000)
        self.assertIsNone(decode.poll(), "decode ended early")
        ip("-n", HERE, "link", "set", "va", "down")
        cut = time.monotonic()
        told, _ = decode.communicate(timeout=WATCHDOG_S)
        self.assertGreater(time.monotonic() - cut, TIMEOUT_S / 2, told)
        self.assertEqual(decode.returncode, COULD_NOT_RUN, told)
        self.assertRegex(told, "silent for|was lost")
        prefill.communicate(timeout=WATCHDOG_S)
        self.assertNotEqual(prefill.returncode, OK)


if __name__ == "__main__":
    main()
