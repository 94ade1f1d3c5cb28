"""Whose certificates are believed: an authority that is named takes the place of the system's, of its folder too. The
system's are the test's own, in a mount namespace. Needs root and openssl."""
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import towpath_command
from towpath_command import CommandTest, OK, WATCHDOG_S, main

FRONT = Path(__file__).parent / "tls_front.py"
SYSTEM = Path("/etc/ssl/certs")  # where Debian's libcurl has its folder


def why_not():
    if os.geteuid() != 0 or not SYSTEM.is_dir():
        return f"to mount something over {SYSTEM} the tests must run as root, and it must be there"
    if shutil.which("openssl") is None:
        return "no certificates: apt-get install openssl"
    tried = subprocess.run(["unshare", "--mount", "mount", "--bind", "/tmp", SYSTEM], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"mounts are forbidden here: {tried.stderr.strip()}"


@unittest.skipIf(why_not(), why_not() or "")
class AuthoritiesTest(CommandTest):
    def make_certificate(self, name):
        """Of 127.0.0.1, that only itself vouches for."""
        folder = self.folder / name
        folder.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.folder / f"{name}.key", "-out", folder / "cert.pem"], check=True, capture_output=True)
        subprocess.run(["openssl", "rehash", folder], check=True, capture_output=True)
        return folder

    def doctor(self, system, port, authority):
        """What it reports of a store at `port`, where the system's authorities are those of the folder `system`."""
        words = ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {SYSTEM} && exec "$@"', system,
                 towpath_command.COMMAND, "doctor"]
        store = {"AWS_ENDPOINT_OVERRIDE": f"https://127.0.0.1:{port}", "AWS_DEFAULT_BUCKET": "kv-cold",
                 "AWS_CA_BUNDLE": str(authority)}
        done = subprocess.run(words, env={**os.environ, **store}, text=True, capture_output=True, timeout=WATCHDOG_S)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn(f"HEAD https://127.0.0.1:{port}", done.stdout, "the store was not asked")
        return done.stdout

    def test_a_named_authority_replaces_the_folder_of_the_system(self):
        servers, others = self.make_certificate("servers"), self.make_certificate("others")
        # Behind it is nothing: a server that is believed hangs up, which has no word of certificates.
        front = subprocess.Popen([sys.executable, FRONT, servers / "cert.pem", self.folder / "servers.key", "1"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(front.wait)
        self.addCleanup(front.stdout.close)
        self.addCleanup(front.stdin.close)
        port = front.stdout.readline().split()[1]
        refused = "denied: HEAD https"
        self.assertNotIn(refused, self.doctor(others, port, servers / "cert.pem"))
        self.assertIn(refused, self.doctor(servers, port, others / "cert.pem"))


if __name__ == "__main__":
    main()
