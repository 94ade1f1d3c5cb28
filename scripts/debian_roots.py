"""Roots of Debian and of its kin: made once by mmdebstrap, entered with the tree mounted at /src. Used by
scripts/platforms.py and scripts/package_test.py. Takes root."""
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "towpath/roots"


class Missing(Exception):
    """What is needed for a root and is not here; the text says it in one line."""


def mirrors():
    """Where this machine gets Debian's packages from: (address, suite), as apt knows them."""
    said = subprocess.run(["apt-cache", "policy"], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ *\d+ (http\S+) (\S+)/main \S+ Packages\n(?: +release .*\bo=Debian\b)", said, flags=re.M)
    if not found:
        raise Missing("apt knows no mirror of Debian, which roots are made from; run apt-get update, or this on a Debian")
    return found


def mirror():
    """That of whole releases."""
    return next(address for address, suite in mirrors() if "-" not in suite)


def ubuntu_source(mirror, suite):
    """Debian has no keys of Ubuntu's: what comes from there is not verified, and is run in a root of its own alone."""
    return f"deb [trusted=yes] {mirror} {suite} main universe"


def check_tools():
    if os.geteuid() != 0:
        raise Missing("roots are made and entered by root")
    if not shutil.which("mmdebstrap"):
        raise Missing("mmdebstrap is missing: apt-get install mmdebstrap")


def bootstrap(folder, suite, packages, *, variant="apt", architectures=(), hooks=(), source=None,
              may_lag=False):
    """Makes a root in `folder`; answers what mmdebstrap and the hooks said. `may_lag`: of a suite that is not released the
    mirror may have a list that says it is out of date."""
    check_tools()
    done = subprocess.run(
        ["mmdebstrap", f"--variant={variant}", *([f"--architectures={','.join(architectures)}"] if architectures else []),
         *([f"--include={','.join(packages)}"] if packages else []), *(f"--customize-hook={hook}" for hook in hooks),
         *(['--aptopt=Acquire::Check-Valid-Until "false"'] if may_lag else []),
         suite, str(folder), source or mirror()],
        text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Missing(f"mmdebstrap {suite}: status {done.returncode}: {' '.join(done.stdout.split()[-120:])}")
    return done.stdout


def kept(name, suite, packages, **options):
    """The root of this name, made when it is not there or had other packages; what was compiled in it is kept."""
    folder, mark, cache = FOLDER / name, FOLDER / f"{name}.packages", FOLDER / f"{name}.ccache"
    wanted = " ".join([suite, *packages])
    if not mark.is_file() or mark.read_text() != wanted:
        FOLDER.mkdir(parents=True, exist_ok=True)
        if (folder / "ccache").is_dir() and not cache.is_dir():
            (folder / "ccache").rename(cache)
        shutil.rmtree(folder, ignore_errors=True)
        bootstrap(folder, suite, packages, **options)
        if cache.is_dir():
            cache.rename(folder / "ccache")
        mark.write_text(wanted)
    hosts = folder / "etc/hosts"  # no package has it
    if not hosts.exists():
        hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
    return folder


def enter(root, tree, words, log):
    """Runs a command in the root, in /src, where the tree is; /build is the root's own. The mounts end with it.
    Answers its status; what it says goes to `log`."""
    mounts = [f"mkdir -p {root}/src {root}/build {root}/ccache", f"mount --bind {tree} {root}/src", f"mount -t proc proc {root}/proc",
              f"mount -t tmpfs tmpfs {root}/tmp", f"mount --rbind /dev {root}/dev", f"mount --rbind /sys {root}/sys"]
    inside = f"cd /src && CCACHE_DIR=/ccache {shlex.join(words)}"
    script = " && ".join([*mounts, f"exec chroot {root} sh -c {shlex.quote(inside)}"])
    return subprocess.run(["unshare", "--mount", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=log,
                          stderr=subprocess.STDOUT).returncode
