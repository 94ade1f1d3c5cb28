#!/usr/bin/env python3
"""Makes the folder of libraries that a portable wheel has inside: archives alone, and descriptions of them for
pkg-config, so that CMake finds these before the system's shared ones.

    static_libraries.py FOLDER [--root ROOT] [-DNAME=VALUE]...

liburing and OpenSSL are Debian's own archives (that of xxHash does not choose by the processor). libcurl is built
from Debian's source with what Towpath uses, HTTP over OpenSSL, since the archive of Debian would bring 30 more
libraries. Does nothing when all is there, of the versions that are installed and made as it would be made now. For
another machine, ROOT has its packages, PKG_CONFIG_LIBDIR is set to what describes them, and further options tell CMake
how it is compiled for.
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import debian_roots

# By the name that pkg-config knows: its archives, with those that they need after them, and the package that has them.
DEBIANS = {"liburing": (["uring"], "liburing-dev"), "libcrypto": (["crypto"], "libssl-dev"),
           "libssl": (["ssl", "crypto"], "libssl-dev")}
CURL = "libcurl4-openssl-dev"  # has the version of the source that is built
# Further packages whose code a wheel has: their headers are compiled in, or auditwheel copies their libraries. The
# pybind11 of a wheel is newer, and has the licence of this one.
LICENSED = ["pybind11-dev", "libxxhash-dev", "libfmt-dev", "nlohmann-json3-dev", "libcli11-dev", "prometheus-cpp-dev",
            "libcivetweb1", "zlib1g"]
CURL_OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release", "CMAKE_POSITION_INDEPENDENT_CODE": "ON", "CMAKE_INSTALL_LIBDIR": "lib",
    "BUILD_SHARED_LIBS": "OFF", "BUILD_CURL_EXE": "OFF", "BUILD_TESTING": "OFF", "ENABLE_MANUAL": "OFF",
    "HTTP_ONLY": "ON", "CURL_USE_OPENSSL": "ON", "CURL_ZLIB": "OFF", "CURL_USE_LIBSSH2": "OFF",
    "CURL_USE_LIBPSL": "OFF", "USE_LIBIDN2": "OFF", "USE_NGHTTP2": "OFF",
    # Each distribution keeps its authorities elsewhere: towpath/net/http looks for them.
    "CURL_CA_BUNDLE": "none", "CURL_CA_PATH": "none", "CURL_CA_FALLBACK": "ON",
    # It finds that out by running a program; else it would use select(), which knows descriptors below 1024 alone.
    "HAVE_POLL_FINE": "ON",
}


def run(command, **options):
    print(f"+ {shlex.join(str(word) for word in command)}"[:300], flush=True)
    subprocess.run(command, check=True, **options)


def answer(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def installed(root, package):
    return answer("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Version}", package)


def fetch_source(name, version, work):
    """Unpacks Debian's source of that version, patched, with lists of packages of its own."""
    (work / "sources.list").write_text("".join(f"deb-src {mirror} {suite} main\n" for mirror, suite in debian_roots.mirrors()))
    (work / "lists/partial").mkdir(parents=True)
    apt = ["apt-get", "-qq", f"-o=Dir::Etc::SourceList={work}/sources.list", "-o=Dir::Etc::SourceParts=-",
           f"-o=Dir::State::Lists={work}/lists", "-o=APT::Sandbox::User=root"]
    run([*apt, "update"])
    run([*apt, "source", f"{name}={version}"], cwd=work, stdout=subprocess.DEVNULL)
    folder, = (path for path in work.glob(f"{name}-*") if path.is_dir())
    return folder


def build_curl(folder, version, further):
    """Into FOLDER/lib and FOLDER/include."""
    with tempfile.TemporaryDirectory() as work:
        source = fetch_source("curl", version, Path(work))
        options = {**CURL_OPTIONS, "CMAKE_INSTALL_PREFIX": folder}
        if shutil.which("ccache"):
            options["CMAKE_C_COMPILER_LAUNCHER"] = "ccache"
        run(["cmake", "-S", source, "-B", f"{work}/build", "-G", "Ninja", *(f"-D{k}={v}" for k, v in options.items()), *further],
            stdout=subprocess.DEVNULL)
        run(["cmake", "--build", f"{work}/build", "--target", "install"], stdout=subprocess.DEVNULL)
        shutil.copy(source / "COPYING", folder / "licenses/libcurl")


def describe(folder, name, version, libraries):
    """Replaces what pkg-config says of `name`."""
    flags = " ".join(f"-l{library}" for library in libraries)
    (folder / f"lib/pkgconfig/{name}.pc").write_text(
        f"Name: {name}\nDescription: {name}, as an archive\nVersion: {version}\n"
        f"Libs: -L{folder}/lib {flags}\nCflags: -I{folder}/include\n")


def stamp(versions, further):
    """What decides how the folder comes out: the versions of packages, and how what comes from them is built and taken."""
    return "".join(f"{line}\n" for line in [*(f"{package} {version}" for package, version in versions.items()),
                                            CURL_OPTIONS, DEBIANS, LICENSED, further])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=lambda text: Path(text).resolve())
    arguments.add_argument("--root", default="", help="with the packages of another machine")
    args, further = arguments.parse_known_args()
    try:
        make(args.folder, args.root, further)
    except (debian_roots.Missing, OSError, subprocess.CalledProcessError) as why:
        said = (getattr(why, "stderr", None) or "").strip()
        sys.exit(f"static libraries: {why}{said and ': ' + said} (hint: they are made of Debian's packages and sources, so on"
                 " Debian alone; `pip wheel .` makes a wheel of this machine's libraries anywhere)")


def make(folder, root, further):
    packages = [CURL, *LICENSED, *(package for _, package in DEBIANS.values())]
    made_of = stamp({package: installed(root, package) for package in packages}, further)
    done = folder / "done"  # written last
    if done.is_file() and done.read_text() == made_of:
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib/pkgconfig").mkdir(parents=True)
    (folder / "licenses").mkdir()
    build_curl(folder, installed(root, CURL), further)
    for name, (libraries, package) in DEBIANS.items():
        for library in libraries:
            shutil.copy(f"{root}{answer('pkg-config', '--variable=libdir', name)}/lib{library}.a", folder / "lib")
        describe(folder, name, answer("pkg-config", "--modversion", name), libraries)
        shutil.copy(f"{root}/usr/share/doc/{package}/copyright", folder / "licenses" / name)
    for package in LICENSED:
        shutil.copy(f"{root}/usr/share/doc/{package}/copyright", folder / "licenses" / package.removesuffix("-dev"))
    describe(folder, "libcurl", answer("pkg-config", "--modversion", "libcurl"), ["curl", "ssl", "crypto"])
    done.write_text(made_of)


if __name__ == "__main__":
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    main()
