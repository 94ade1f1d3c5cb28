"""The server of a host's cache, for engines that start it themselves: the first one does, and it stays."""
import dataclasses
import errno
import os
import pathlib
import shutil
import socket
import stat
import struct
import subprocess
import time
from typing import Optional

from towpath import _towpath
from towpath._settings import read_fields, size_in_bytes

_START_S = 30  # for a server to answer; it opens files only when an engine comes
_LOGGED_EVERY_S = "600"  # the file of what it says lies in memory


@dataclasses.dataclass
class Server:
    """What `towpath serve` is started with where none is at `socket`, a path; "": one of this user's own. `memory`, `caches`
    (0: one for each rank) and what is below are of all engines together; `disk`, of a `directory`, is 16 GiB where it is 0."""
    memory: int
    socket: str = ""
    caches: int = 0
    directory: str = ""
    disk: int = 0
    direct: bool = False
    objects: str = ""
    policy: str = ""
    min_accesses: int = 0
    quota: int = 0


def read_server(given, key):
    """An address as it is; a table as a Server. Raises ValueError, with the value and what is meant instead."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        raise ValueError(f"towpath: {key} is {given!r}, and should be a socket such as 'unix:/run/towpath/serve', or a "
                         "table with the memory of a server to start")
    server = read_fields(Server, given, key, {"memory": size_in_bytes, "disk": size_in_bytes}, needed={"memory": '"64GiB"'},
                         prefix=f"{key}.")
    for of_files in ("disk", "direct"):
        if getattr(server, of_files) and not server.directory:
            raise ValueError(f"towpath: {key}.{of_files} is {given[of_files]!r}, and there is no {key}.directory that it could be of")
    return server


def address_of(server) -> str:
    """Of a text, itself; of a Server, where it is, started if nobody answers there."""
    if not isinstance(server, Server):
        return server
    address = f"unix:{server.socket}" if server.socket else _towpath.own_server_address()
    path = address.partition(":")[2]
    if not _answers(path):
        _start(server, path)
    return address


def _process_at(path) -> Optional[int]:
    """Its number; 0: of another container; None: nobody answers."""
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex("\0" + path[1:] if path.startswith("@") else path) != 0:
            return None
        return struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def _answers(path) -> bool:
    return _process_at(path) is not None


def _command() -> str:
    packed = pathlib.Path(__file__).resolve().parent / "bin" / "towpath"
    found = os.environ.get("TOWPATH_COMMAND") or (str(packed) if packed.exists() else shutil.which("towpath"))
    if not found:
        raise RuntimeError("towpath: the command `towpath`, which is the server, is not found (hint: an installed wheel has it; "
                           "in a tree of sources put build/release/tools into PATH)")
    return found


def _open_log(name, flags):
    """Not a link, a FIFO or a file that somebody else has put there."""
    log = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    found = os.fstat(log)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return log
    os.close(log)
    raise PermissionError(errno.EPERM, "no file of this user's, which a server could write to", name)


def _start(server, path):
    words = [_command(), "serve", "--socket", path, "--interval", _LOGGED_EVERY_S]
    for name, value in dataclasses.asdict(server).items():
        if name != "socket" and value:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    log = pathlib.Path(f"/tmp/towpath-serve-{os.getpid()}.log" if path.startswith("@") else f"{path}.log")
    with open(log, "ab", opener=_open_log) as output:
        before = output.tell()  # what earlier servers said
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    end = time.monotonic() + _START_S
    while not _answers(path):
        has_failed = process.poll() not in (None, 0) and not _answers(path)
        if has_failed or time.monotonic() > end:
            said = log.read_bytes()[before:].decode(errors="replace").strip().splitlines()[-3:]
            status = process.poll()
            end_of_it = f"no answer within {_START_S} s" if status is None else f"status {status}"
            raise RuntimeError(f"towpath: the server did not start ({' '.join(words)}): "
                               f"{' / '.join(said) or f'{end_of_it}, without a word'}")
        time.sleep(0.02)
    if _process_at(path) != process.pid:  # another engine was first: ours must not wait for that one's end
        process.terminate()
        process.wait()
