"""Debian's etcd for tests: on free ports, with a folder of its own."""
import contextlib
import shutil
import socket
import subprocess
import tempfile
import threading

BINARY = shutil.which("etcd")
MISSING = "etcd is missing: apt-get install etcd-server"
READY = "ready to serve client requests"  # as it says itself, 3.4 and 3.5 alike
WATCHDOG_S = 120


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def running_etcd():
    """Gives HOST:PORT of an etcd that serves; at the end it is killed and its data is gone."""
    address, peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with (tempfile.TemporaryDirectory(prefix="towpath-etcd-") as folder,
          subprocess.Popen(
              [BINARY, "--data-dir", f"{folder}/data", "--listen-client-urls", f"http://{address}",
               "--advertise-client-urls", f"http://{address}",
               "--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}",
               "--initial-cluster", f"default=http://{peer}"],
              stderr=subprocess.PIPE, text=True) as server):
        try:
            wait_until_ready(server)
            yield address
        finally:
            server.kill()


def wait_until_ready(server):
    watchdog = threading.Timer(WATCHDOG_S, server.kill)
    watchdog.start()
    said = []
    try:
        for line in server.stderr:
            said.append(line)
            if READY in line:
                break
        else:
            raise RuntimeError(f"etcd does not start:\n{''.join(said)}")
    finally:
        watchdog.cancel()
    # Read on: it would stand still when the pipe is full.
    threading.Thread(target=server.stderr.read, daemon=True).start()
