"""PEs that others start: mpirun, srun, and `towpath run --hosts` by ssh. Each where it is installed; servers are started by the
tests themselves."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import namespaces
import slurm
import sshd
import towpath_command
from towpath_command import CommandTest, OK, WATCHDOG_S

RING = sys.argv.pop()
SH = ["sh", "-c"]
ENDLESS = str(10**9)  # rounds


def start_server(test, server):
    """For the tests of a class; skips them where it does not run."""
    test.addClassCleanup(server.stop)
    why = server.start()
    if why:
        raise unittest.SkipTest(why)


def folder_of(test):
    """For a test, or for a class of them."""
    folder = tempfile.TemporaryDirectory(prefix="towpath-test-")
    (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(folder.cleanup)
    return folder.name


def second_dies(test):
    """For a shell of each of two PEs: PE 1 is killed when both have joined, which is when each has mapped the
    other's heap. Before that, a launcher may end them without a word."""
    first = os.path.join(folder_of(test), "process of PE 0")
    have_joined = (f"grep -q towpath-shmem-heap-0 /proc/$!/maps && test -s '{first}' && "
                   f"grep -q towpath-shmem-heap-1 /proc/$(cat '{first}')/maps")
    return (f"test $PMIX_RANK = 0 && echo $$ > '{first}' && exec {RING} {ENDLESS}; "
            f"{RING} {ENDLESS} & until {have_joined}; do sleep 0.1; done; kill -9 $!; wait")


def why_no_mpirun():
    if shutil.which("mpirun") is None:
        return "there is no mpirun (apt-get install openmpi-bin)"
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return None if "Open MPI" in said else "this mpirun is not Open MPI's: it may have no PMIx"


@unittest.skipIf(why_no_mpirun(), why_no_mpirun() or "")
class MpirunTest(unittest.TestCase):
    """PEs that a launcher with PMIx has started."""

    def mpirun(self, pes, *words):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "SHMEM_SYMMETRIC_SIZE": "4M"}
        return subprocess.run(["mpirun", "--oversubscribe", "-n", str(pes), *words], env=environment, text=True,
                              capture_output=True, timeout=WATCHDOG_S)

    def test_a_token_goes_around(self):
        done = self.mpirun(3, RING)
        self.assertEqual(done.stdout, "3 PEs, 3 rounds: the token is 9\n", done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "namespaces of processes need root: run the tests as root")
    def test_pes_that_share_no_memory_meet_too(self):
        elsewhere = f"test $PMIX_RANK = 0 && exec {RING}; exec unshare --pid --fork {RING}"
        done = self.mpirun(2, *SH, elsewhere)
        self.assertEqual(done.stdout, "2 PEs, 3 rounds: the token is 6\n", done.stderr)

    def test_a_death_is_reported(self):
        done = self.mpirun(2, *SH, second_dies(self))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("peer_lost", done.stderr)
        self.assertIn("PE 1", done.stderr)


@unittest.skipIf(slurm.why_not(), slurm.why_not() or "")
class SrunTest(unittest.TestCase):
    """PEs that Slurm has started, on one node."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm.Cluster(folder_of(cls))
        start_server(cls, cls.cluster)

    def srun(self, mpi, pes, *words):
        if mpi not in self.kinds():
            self.skipTest(f"this srun has no --mpi={mpi}: {self.kinds()}")
        return self.cluster.srun(mpi, pes, *words, watchdog_s=WATCHDOG_S)

    def kinds(self):
        listed = subprocess.run(["srun", "--mpi=list"], env=self.cluster.environment, capture_output=True, text=True)
        return (listed.stdout + listed.stderr).split()

    def test_a_token_goes_around(self):
        done = self.srun("pmix", 3, RING)
        self.assertEqual(done.stdout, "3 PEs, 3 rounds: the token is 9\n", done.stderr)

    def test_a_death_is_reported(self):
        done = self.srun("pmix", 2, *SH, second_dies(self))
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("peer_lost", done.stderr)

    def test_pes_are_not_alone_for_want_of_pmix(self):
        done = self.srun("pmi2", 2, RING)
        self.assertNotEqual(done.returncode, OK, done.stdout)
        self.assertIn("srun --mpi=pmix", done.stderr)


@unittest.skipIf(sshd.why_not(), sshd.why_not() or "")
class SshTest(CommandTest):
    """Two hosts by ssh, which are this one: their PEs share nothing all the same."""

    @classmethod
    def setUpClass(cls):
        cls.server = sshd.Server(folder_of(cls))
        start_server(cls, cls.server)

    def setUp(self):
        super().setUp()
        self.options = ["--hosts", "left,right", "--launcher", f"ssh -F {self.server.config} {{host}} {{command}}", "--meet",
                        f"127.0.0.1:{slurm.free_port()}"]

    def test_a_token_goes_around(self):
        done = self.run_command("run", "-n", 3, *self.options, "--", RING)
        self.assertEqual(done.stdout, "3 PEs, 3 rounds: the token is 9\n", done.stderr)

    def test_words_and_statuses_arrive_whole(self):
        done = self.run_command("run", "-n", 2, *self.options, "--", *SH, "echo \"$TOWPATH_SHMEM_PE: $0\"; exit 7", "it's $HOME",
                                expect=7)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{pe}: it's $HOME" for pe in range(2)])
        self.assertIn("ended with status 7", done.stderr)

    def test_nobody_outlives_the_launcher(self):
        job = subprocess.Popen([towpath_command.COMMAND, "run", "-n", "2", *self.options, "--", *SH, "echo $$; exec sleep 100"],
                               cwd=self.folder, stdout=subprocess.PIPE, text=True)
        pes = [int(job.stdout.readline()) for _ in range(2)]
        job.send_signal(signal.SIGKILL)
        job.communicate(timeout=WATCHDOG_S)
        namespaces.wait_for(self, lambda: not any(namespaces.runs(pe) for pe in pes))


if __name__ == "__main__":
    towpath_command.main()
