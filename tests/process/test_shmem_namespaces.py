"""Two network namespaces joined by a veth pair are two hosts of one job: `towpath run --hosts` starts its
PEs, and when the link is cut all of them are notified and the job ends. Needs root and iproute2."""
import os
import signal
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

import towpath_command
from namespaces import ADDRESS, HERE, THERE, WATCHDOG_S, ip, join, read, runs, wait_for, why_not
from towpath_command import CommandTest, OK

NVSHMEM_LIBRARY, NVSHMEM = sys.argv.pop(), sys.argv.pop()
OPENSHMEM, RING = sys.argv.pop(), sys.argv.pop()
# Another IPC namespace too: shared memory must not shorten the way.
HAS_UCX = os.environ.get("TOWPATH_HAS_UCX") == "ON"  # tests/process/CMakeLists.txt says it
LAUNCHER = "ip netns exec {host} unshare --ipc sh -c {command}"
SH = ["sh", "-c"]


@unittest.skipIf(why_not(), why_not() or "")
class ShmemNamespacesTest(CommandTest):
    def setUp(self):
        super().setUp()
        join(self)
        self.options = ["--hosts", f"{HERE},{THERE}", "--launcher", LAUNCHER, "--meet", f"{ADDRESS}:7772"]

    def start(self, pes, *words):
        job = subprocess.Popen([towpath_command.COMMAND, "run", "-n", str(pes), *self.options, "--", *words],
                               cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def cross(self):
        return int(read(THERE, "vb", "statistics/rx_bytes"))

    def start_ring(self):
        """A job of two PEs whose token goes around, and their processes."""
        before = self.cross()
        job = self.start(2, *SH, f"echo $TOWPATH_SHMEM_PE $$; exec {RING} {10**9}")
        pes = dict(map(int, job.stdout.readline().split()) for _ in range(2))
        wait_for(self, lambda: job.poll() is not None or self.cross() > before + 100_000)
        self.assertIsNone(job.poll(), "the job ended early")
        return job, [pes[0], pes[1]]

    def test_a_token_goes_around_two_hosts(self):
        for pes in (2, 5):
            done = self.run_command("run", "-n", pes, *self.options, "--", RING)
            self.assertEqual(done.stdout, f"{pes} PEs, 3 rounds: the token is {3 * pes}\n", done.stderr)

    def test_every_network_carries_a_job(self):
        for variables in ({"TOWPATH_SHMEM_NETWORK": "tcp"}, {"TOWPATH_SECURITY": "tls"}, {"TOWPATH_SHMEM_NETWORK": "ucx"}):
            if "ucx" in variables.values() and not HAS_UCX:
                continue
            with self.subTest(variables), unittest.mock.patch.dict(os.environ, variables):
                done = self.run_command("run", "-n", 3, *self.options, "--", RING)
                self.assertEqual(done.stdout, "3 PEs, 3 rounds: the token is 9\n", done.stderr)
                self.assertEqual("no secret guards" in done.stderr, "ucx" in variables.values(), done.stderr)

    def test_encryption_is_refused_over_ucx(self):
        with unittest.mock.patch.dict(os.environ, TOWPATH_SECURITY="tls", TOWPATH_SHMEM_NETWORK="ucx"):
            done = self.run_command("run", "-n", 2, *self.options, "--", RING, expect=1)
        self.assertIn("PE 0 asks for encryption, and PE 0 for ucx, which does not encrypt", done.stderr)

    def test_a_wish_to_encrypt_reaches_hosts_that_get_no_environment(self):
        bare = LAUNCHER.replace("sh -c", "env -i sh -c")
        self.options[3] = bare
        done = self.run_command("run", "-n", 2, *self.options, "--security", "tls", "--", *SH, "echo $TOWPATH_SECURITY")
        self.assertEqual(done.stdout, "tls\ntls\n", done.stderr)

    def listening(self, namespace):
        """Ports of TCP, as /proc/net/tcp and tcp6 have them."""
        ports = set()
        for table in "tcp", "tcp6":
            lines = subprocess.run(["ip", "netns", "exec", namespace, "cat", f"/proc/net/{table}"],
                                   capture_output=True, text=True).stdout.splitlines()[1:]
            ports |= {int(line.split()[1].split(":")[1], 16) for line in lines if line.split()[3] == "0A"}
        return ports

    def test_strangers_at_the_port_of_a_pe_change_nothing(self):
        job = self.start(2, RING, str(10**9))
        # Its own port, and while they meet that of the meeting.
        wait_for(self, lambda: job.poll() is not None or self.cross() > 1_000_000)
        self.assertIsNone(job.poll(), "the job ended early")
        ports = self.listening(HERE) - {7772}
        self.assertEqual(len(ports), 1, "one of ours, and none of UCX's")
        attack = ("import os, socket, sys\n"
                  "for i in range(200):\n"
                  "    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as port:\n"
                  "        port.sendall(bytes.fromhex('78563412bebafeca') if i % 2 else os.urandom(300))\n")
        subprocess.run(["ip", "netns", "exec", THERE, sys.executable, "-c", attack, ADDRESS, str(ports.pop())], check=True)
        before = self.cross()
        wait_for(self, lambda: job.poll() is not None or self.cross() > before + 1_000_000)
        self.assertIsNone(job.poll(), "the job ended")

    def test_openshmem_programs_put_into_variables_of_other_hosts(self):
        done = self.run_command("run", "-n", 4, "--heap", "16M", *self.options, "--", OPENSHMEM)
        self.assertIn("good   memory.addresses", done.stdout, done.stderr)
        self.assertNotIn("FAILED", done.stdout + done.stderr)

    def test_nvshmem_programs_meet_across_hosts_by_an_identifier(self):
        pipe = Path(self.folder) / "identifier"
        os.mkfifo(pipe)
        pes = [subprocess.Popen(["ip", "netns", "exec", host, NVSHMEM, NVSHMEM_LIBRARY, "id", str(rank), pipe],
                                stderr=subprocess.PIPE, text=True) for rank, host in enumerate((HERE, THERE))]
        for pe in pes:
            self.addCleanup(pe.kill)
            _, errors = pe.communicate(timeout=WATCHDOG_S)
            self.assertEqual(pe.returncode, 0, errors)

    def test_two_launchers_may_be_on_one_machine(self):
        done = self.run_command("run", "-n", 4, "--hosts", "localhost,localhost", "--launcher", "sh -c {command}", "--", RING)
        self.assertEqual(done.stdout, "4 PEs, 3 rounds: the token is 12\n", done.stderr)

    def test_pes_are_numbered_across_hosts_and_words_arrive_whole(self):
        done = self.run_command("run", "-n", 3, *self.options, "--prefix", "--", *SH,
                                "echo \"$TOWPATH_SHMEM_PE of $TOWPATH_SHMEM_PES: $0\"", "it's $HOME")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"[{pe}] {pe} of 3: it's $HOME" for pe in range(3)])

    def test_a_cut_link_is_reported_in_bounded_time(self):
        job = self.start(2, RING, str(10**9))
        before = self.cross()
        wait_for(self, lambda: job.poll() is not None or self.cross() > before + 1_000_000)
        self.assertIsNone(job.poll(), "the job ended early")
        ip("-n", HERE, "link", "set", "va", "down")
        _, errors = job.communicate(timeout=WATCHDOG_S)
        self.assertNotEqual(job.returncode, OK)
        for pe in 0, 1:
            self.assertRegex(errors, rf"peer_lost: PE {pe} \(process \d+ of another host\) died, or cannot be")

    def test_a_pe_that_is_killed_is_reported_to_those_elsewhere(self):
        job, pes = self.start_ring()
        os.kill(pes[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=WATCHDOG_S)
        self.assertIn(job.returncode, (1, 137), errors)  # of whichever part ended first
        self.assertIn("PE 1 was ended by signal 9", errors)
        self.assertRegex(errors, "peer_lost: (PE 1|the connection to PE 1 broke)")  # a wait's word, or a put's

    def test_a_pe_that_is_stopped_is_reported_to_those_elsewhere(self):
        networks = [{"TOWPATH_SHMEM_NETWORK": "tcp"}, {"TOWPATH_SECURITY": "tls"}]
        networks += [{"TOWPATH_SHMEM_NETWORK": "ucx"}] * HAS_UCX
        jobs = []
        for port, environment in enumerate(networks, 7772):  # at once: each lasts some seconds
            self.options[-1] = f"{ADDRESS}:{port}"
            with unittest.mock.patch.dict(os.environ, environment):
                jobs.append(self.start_ring())
            os.kill(jobs[-1][1][1], signal.SIGSTOP)
        for environment, (job, pes) in zip(networks, jobs):
            with self.subTest(environment):
                _, errors = job.communicate(timeout=WATCHDOG_S)
                self.assertNotEqual(job.returncode, OK)
                self.assertRegex(errors, r"peer_lost: PE 1 \(process \d+ of another host\) ")
                wait_for(self, lambda: not any(runs(pe) for pe in pes))

    def test_nobody_outlives_the_launcher(self):
        # As with ssh: the parts are no children of the launcher.
        self.options[3] = LAUNCHER.replace("unshare", "setsid --fork --wait unshare")
        job = self.start(2, *SH, "echo $$; exec sleep 100")
        pes = [int(job.stdout.readline()) for _ in range(2)]
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        wait_for(self, lambda: not any(runs(pe) for pe in pes))


if __name__ == "__main__":
    towpath_command.main()
