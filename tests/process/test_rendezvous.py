"""`towpath replay --rendezvous`: its two processes meet where the URL says, on one machine and on two
(network namespaces joined by a veth pair)."""
import subprocess
import unittest

import etcd
import namespaces
import towpath_command
from etcd import own_address
from towpath_command import COULD_NOT_RUN, CommandTest, USAGE, WATCHDOG_S, main

SMALL = ["--requests", "40", "--host-blocks", "400", "--disk-blocks", "4000", "--quiet"]


class RendezvousTest(CommandTest):
    def replay(self, url, *words, **more):
        return self.run_command("replay", "--directory", self.folder, *SMALL, "--rendezvous", url,
                                *words, **more)

    @unittest.skipUnless(etcd.BINARY, etcd.MISSING)
    def test_processes_meet_in_an_etcd(self):
        with etcd.running_etcd() as place:
            done = self.replay(f"etcd://{place}/towpath/test")
        self.assertIn("PASSED", done.stdout)

    def test_processes_meet_at_an_address(self):
        token = self.folder / "token"
        token.write_text("a secret of both sides\n")
        for url in (f"tcp://{own_address()}:2379", f"unix:{self.folder}/socket",
                    f"tcp://{own_address()}:2379?token-file={token}"):
            with self.subTest(url):
                self.assertIn("PASSED", self.replay(url).stdout)

    def test_each_side_may_be_started_by_hand(self):
        url = f"tcp://{own_address()}:2379"
        prefill = subprocess.Popen(
            [towpath_command.COMMAND, "replay", "--directory", str(self.folder), *SMALL, "--role",
             "prefill", "--rendezvous", url], stderr=subprocess.DEVNULL)
        done = self.replay(url, "--role", "decode")
        self.assertIn("PASSED", done.stdout)
        self.assertEqual(prefill.wait(WATCHDOG_S), 0)

    def test_what_cannot_be_reached_says_so(self):
        # On a busy machine the second may be over before the first word with the etcd is.
        no_etcd = "127.0.0.1:1 (does not answer|has not answered in time)"
        for url, status, why in (
                ("etcd://127.0.0.1:1/ns", COULD_NOT_RUN, no_etcd),
                ("tcp://0.0.0.0:1", COULD_NOT_RUN, "needs a token"),
                ("carrier-pigeon:7", USAGE, "scope:NAME")):
            with self.subTest(url):
                done = self.replay(url, "--timeout", "1", expect=status)
                self.assertRegex(done.stderr, why)

    @unittest.skipIf(namespaces.why_not(), namespaces.why_not() or "")
    def test_metadata_cross_from_one_machine_to_another(self):
        namespaces.join(self)
        token = self.folder / "token"
        token.write_text("a secret of both sides\n")
        # Over shm, which refuses the other machine by name: so its metadata was there and was read.
        words = [towpath_command.COMMAND, "replay", "--directory", str(self.folder), *SMALL,
                 "--timeout", "8", "--rendezvous", f"tcp://{namespaces.ADDRESS}:7777?token-file={token}"]
        prefill, decode = (subprocess.Popen(["ip", "netns", "exec", name, *words, "--role", role],
                                            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
                           for name, role in ((namespaces.HERE, "prefill"), (namespaces.THERE, "decode")))
        said = [process.communicate(timeout=WATCHDOG_S)[1] for process in (prefill, decode)]
        self.assertTrue(any(b"another network namespace" in each for each in said), said)


if __name__ == "__main__":
    main()
