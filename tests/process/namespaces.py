"""Two network namespaces joined by a veth pair: two machines. Needs root and iproute2."""
import os
import shutil
import subprocess
import time
from pathlib import Path

HERE, THERE = f"tp{os.getpid()}a", f"tp{os.getpid()}b"
ADDRESS = "10.77.0.1"  # of HERE
WATCHDOG_S = 90


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def why_not():
    if os.geteuid() != 0:
        return "network namespaces need root: run the tests as root"
    if shutil.which("ip") is None:
        return "there is no `ip` (apt-get install iproute2)"
    try:  # made and entered: a chroot and many containers can do the first alone
        for words in (["netns", "add", HERE], ["netns", "exec", HERE, "true"],
                      ["-n", HERE, "link", "add", "va", "type", "veth", "peer", "name", "vb"]):
            tried = subprocess.run(["ip", *words], capture_output=True, text=True)
            if tried.returncode != 0:
                return (f"`ip {' '.join(words)}` here: {' '.join(tried.stderr.split()) or tried.returncode} (hint: it takes "
                        "CAP_SYS_ADMIN, CAP_NET_ADMIN and a / that is a mount)")
        return None
    finally:
        subprocess.run(["ip", "netns", "del", HERE], capture_output=True)


def join(test):
    """Makes both, linked and up, for the time of `test`."""
    for name in HERE, THERE:
        test.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", "va", "netns", HERE, "type", "veth", "peer", "name", "vb", "netns", THERE)
    ip("-n", HERE, "addr", "add", f"{ADDRESS}/24", "dev", "va")
    ip("-n", THERE, "addr", "add", "10.77.0.2/24", "dev", "vb")
    ip("-n", HERE, "link", "set", "va", "up")
    ip("-n", THERE, "link", "set", "vb", "up")
    for name, device in (HERE, "va"), (THERE, "vb"):  # UCX uses what runs when it starts
        wait_for(test, lambda: read(name, device, "operstate") == "up")


def read(namespace, device, what):
    """A line of /sys/class/net, as the namespace sees it."""
    path = f"/sys/class/net/{device}/{what}"
    return subprocess.run(["ip", "netns", "exec", namespace, "cat", path],
                          capture_output=True, text=True).stdout.strip()


def wait_for(test, condition):
    end = time.monotonic() + WATCHDOG_S
    while not condition():
        test.assertLess(time.monotonic(), end, "the watchdog barked")


def runs(process):
    """Whether the process of this number does."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text() != ""  # empty: nobody has reaped it yet
    except OSError:
        return False
