"""Wheels for aarch64, made and tried on another machine: compiled by Debian's cross-compiler against the libraries in the
root of `./dev platforms aarch64`; programs of that machine run by qemu's user mode. Used by scripts/package.py and
scripts/package_test.py. Takes root."""
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import debian_roots
import platforms
from packages import PACKAGES

NAME = "aarch64"
BUILD = platforms.ROOT / "build"
TRIPLET = platforms.ARM
EMULATOR = "/usr/lib/binfmt.d/qemu-aarch64.conf"  # what the kernel is to be told; of the package qemu-user-static
KERNEL = "/proc/sys/fs/binfmt_misc"


class Cross:
    """How wheels are compiled; as Native of scripts/package.py says it for this machine."""
    machine, folder, tree = NAME, BUILD / "wheel-aarch64", BUILD / "portable-aarch64"

    def __init__(self):
        debian_roots.check_tools()
        platform, = (one for one in platforms.PLATFORMS if one.arm)
        self.root = platforms.root_of(platform, PACKAGES["build"].split(), None)
        self.libraries = f"{self.root}/usr/lib/{TRIPLET}"
        # Where libraries are described, as if they were this machine's: CMake looks for them in the root.
        self.pkg_config = f"{self.libraries}/pkgconfig:{self.root}/usr/share/pkgconfig"

    def options(self, *further):
        """CMake's, by name: the compiler, and that all is looked for in the root and in `further` folders."""
        only = {f"CMAKE_FIND_ROOT_PATH_MODE_{kind}": "ONLY" for kind in ("LIBRARY", "INCLUDE", "PACKAGE")}
        return {**platforms.CROSS_COMPILER, **only, "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER", "CMAKE_SYSROOT": self.root,
                "CMAKE_FIND_ROOT_PATH": ";".join(map(str, further)), "PYBIND11_USE_CROSSCOMPILING": "ON"}

    def static_libraries(self):
        """Options and variables of scripts/static_libraries.py."""
        return (["--root", self.root, *(f"-D{name}={value}" for name, value in self.options().items())],
                {"PKG_CONFIG_LIBDIR": self.pkg_config})

    def variables(self, version, headers):
        """Those that make a Python of this machine build for that one. Its own headers serve: only pyconfig.h differs, by lines
        that an extension does not read. Debian's looks for it by the name of the machine, so there is one of that name."""
        named = self.folder / f"headers{version}" / TRIPLET
        named.parent.mkdir(parents=True, exist_ok=True)
        named.unlink(missing_ok=True)
        named.symlink_to(Path(headers).parent / sysconfig.get_config_var("MULTIARCH"))
        return {"PKG_CONFIG_LIBDIR": f"{self.folder}/libraries/lib/pkgconfig:{self.pkg_config}",
                "_PYTHON_HOST_PLATFORM": f"linux-{NAME}", "CXXFLAGS": f"-I{named.parent}",
                "SETUPTOOLS_EXT_SUFFIX": f".cpython-{version.replace('.', '')}-{TRIPLET}.so"}

    def repair(self):
        """auditwheel's options, and where the tools are that it calls."""
        return ["--ldpaths", self.libraries], [f"/usr/{TRIPLET}/bin"]


def run_inside(root, tree, script):
    """Runs a script in a root of that machine, with the tree at /src. Where the kernel does not know the emulator, it
    is told in a namespace that ends with the script (Linux 6.7 and newer)."""
    register = f"mount -t binfmt_misc binfmt_misc {KERNEL} && cat {EMULATOR} > {KERNEL}/register"
    mounts = [f"mount --rbind /{name} {root}/{name}" for name in ("proc", "dev", "sys")]
    outside = [f"test -e {KERNEL}/qemu-{NAME} || {{ {register}; }}", *mounts, f"mkdir -p {root}/src", f"mount --bind {tree} {root}/src",
               f"exec chroot {root} sh -ec {shlex.quote(script)}"]
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", "\n".join(outside)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8",
                               "HOME": "/root"})
