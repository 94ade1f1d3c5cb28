"""Debian's etcd for tests: at a loopback address and with a folder of its own."""
import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
import threading

BINARY = shutil.which("etcd")
MISSING = "etcd is missing: apt-get install etcd-server"
READY = "ready to serve client requests"  # as it says itself, 3.4 and 3.5 alike
WATCHDOG_S = 120


_made = itertools.count()


def own_address():
    """Another for each process, and four in it, where every port is free. A port of 127.0.0.1 that was free a
    moment ago may be another process' now."""
    number = os.getpid() << 2 | (next(_made) & 3)
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


@contextlib.contextmanager
def running_etcd():
    """Gives HOST:PORT of an etcd that serves; at the end it is killed and its data is gone."""
    host = own_address()
    address, peer = f"{host}:2379", f"{host}:2380"
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
