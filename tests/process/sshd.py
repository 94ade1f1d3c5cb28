"""An ssh server for tests, with keys of its own, at a port by chance of this machine's own addresses."""
import getpass
import os
import shutil
import subprocess
from pathlib import Path

from slurm import free_port, search

SERVER = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AcceptEnv UCX_* *SAN_OPTIONS
"""
CLIENT = """Host *
  Port {port}
  User {user}
  HostName 127.0.0.1
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
  BatchMode yes
  LogLevel ERROR
  SendEnv UCX_* *SAN_OPTIONS
"""


def why_not():
    missing = [name for name in ("sshd", "ssh", "ssh-keygen") if shutil.which(name, path=search()) is None]
    return f"there is no {', '.join(missing)} (apt-get install openssh-server openssh-client)" if missing else None


class Server:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.config = self.folder / "client"
        self._process = None

    def start(self):
        """None, or why it does not run."""
        for key in "key", "host_key":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        place = {"folder": self.folder, "port": free_port(), "user": getpass.getuser()}
        (self.folder / "server").write_text(SERVER.format(**place))
        self.config.write_text(CLIENT.format(**place))
        words = [shutil.which("sshd", path=search()), "-D", "-e", "-f", str(self.folder / "server")]
        if os.geteuid() == 0:  # it insists on a folder in /run, which a machine without the service lacks
            words = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"', "sh", *words]
        log = (self.folder / "log").open("w")
        self._process = subprocess.Popen(words, stdout=log, stderr=log)
        log.close()
        for _ in range(50):
            asked = subprocess.run(["ssh", "-F", self.config, "-o", "ConnectTimeout=1", "-o", "ConnectionAttempts=5", "any",
                                    "true"], capture_output=True, text=True)
            if asked.returncode == 0 or self._process.poll() is not None:
                break
        return None if asked.returncode == 0 else f"no way in by ssh: {asked.stderr}{(self.folder / 'log').read_text()}"

    def stop(self):
        self._process.kill()
        self._process.wait()
