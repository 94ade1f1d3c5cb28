"""An initramfs of programs and the shared libraries that they need: the cpio archive (format newc) that
Linux unpacks as its first root."""
import re
import subprocess
from pathlib import Path


def _entry(name, mode, content=b"", device=(0, 0)):
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    head += name.encode() + b"\0"
    head += b"\0" * (-len(head) % 4)
    return head + content + b"\0" * (-len(content) % 4)


def _libraries(program):
    """Paths of what the loader of this machine would map, itself included."""
    said = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", said)))


def initramfs(programs, others=None):
    """The bytes of one with these executables and other files, by the names they get in its root; `init` is one."""
    files = {path[1:]: Path(path) for program in programs.values() for path in _libraries(program)}
    files |= programs | (others or {})
    folders = sorted({str(parent) for name in files for parent in Path(name).parents} - {"."})
    return b"".join([
        *(_entry(folder, 0o040755) for folder in [*folders, "dev"]),
        _entry("dev/console", 0o020600, device=(5, 1)),
        *(_entry(name, 0o100755, path.read_bytes()) for name, path in files.items()),
        _entry("TRAILER!!!", 0),
    ])
