"""A cluster of Slurm's for tests: munged, slurmctld and slurmd of this machine alone, in a folder of their own, at ports by
chance. Nothing of an installed cluster is read or touched."""
import getpass
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path

START_S = 30
HOST = socket.gethostname().split(".")[0]
CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/linear
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def why_not():
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if shutil.which(name, path=search()) is None]
    return f"there is no {', '.join(missing)} (apt-get install slurmctld slurmd slurm-client munge)" if missing else None


def search():
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def wait_for_end_of_owner(place):
    """Of the daemon of a step: it is no child of ours, listens at a socket, and would never end if slurmd did first."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(place))
            pid, _, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            owner = os.pidfd_open(pid)
        except OSError:
            return  # it has ended
    select.select([owner], [], [], START_S)
    os.close(owner)


class Cluster:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.environment = {**os.environ, "PATH": search(), "SLURM_CONF": f"{folder}/slurm.conf"}
        self._processes = []

    def start(self):
        """None, or why it does not run."""
        for name in "state", "spool":
            (self.folder / name).mkdir()
        (self.folder / "key").write_bytes(os.urandom(64))
        (self.folder / "key").chmod(0o400)
        (self.folder / "slurm.conf").write_text(CONF.format(
            host=HOST, user=getpass.getuser(), controller=free_port(), daemon=free_port(), folder=self.folder,
            cpus=len(os.sched_getaffinity(0))))
        self._run("munged", "--foreground", "--force", "--key-file", self.folder / "key", "--socket",
                  self.folder / "munge.sock", "--pid-file", self.folder / "munged.pid", "--seed-file", self.folder / "seed",
                  "--log-file", self.folder / "munged.log")
        self._run("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        self._run("slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", HOST)
        end, said = time.monotonic() + START_S, ""
        while time.monotonic() < end:  # srun itself waits for the controller, and for the node
            try:
                asked = self.srun("none", 1, "true", watchdog_s=START_S)
            except subprocess.TimeoutExpired as late:
                return f"Slurm does not run here: {late}"
            if asked.returncode == 0:
                return None
            said = asked.stderr.strip()
        return f"Slurm does not run here: {said}"

    def _run(self, *words):
        log = (self.folder / f"{words[0]}.out").open("w")
        self._processes.append(subprocess.Popen(words, env=self.environment, stdout=log, stderr=log))
        log.close()

    def stop(self):
        for place in (self.folder / "spool").glob(f"{HOST}_*.*"):
            wait_for_end_of_owner(place)
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def srun(self, mpi, pes, *words, watchdog_s):
        return subprocess.run(["srun", f"--mpi={mpi}", "--overcommit", "-n", str(pes), *words], env=self.environment,
                              capture_output=True, text=True, timeout=watchdog_s)
