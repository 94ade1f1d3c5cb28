#!/usr/bin/env python3
"""OpenStack Swift with its S3 interface, for tests: a store that checks signatures, on free ports, in
a folder of its own, in one process and as whoever runs it.

As a program, `swift_store.py` prints "ready PORT", serves until its standard input ends, and leaves nothing
behind. It needs Debian's python3-swift and no service of the system. As a module, it starts that
program for a test: `with running_swift() as port:`.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import urllib.request

PYTHON = "/usr/bin/python3"  # the one that Debian's packages belong to
MISSING = "Swift is missing: apt-get install python3-swift"
ACCESS_KEY = "test:tester"
SECRET_KEY = "testing"
REGION = "us-east-1"
DOMAIN = "localhost"  # BUCKET.localhost is virtual-host style
SMALLEST_PART = 64 << 10  # instead of 5 MiB, so that tests of multipart uploads stay small

CONFIG = """
[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
log_level = ERROR
log_address = {folder}/no-log
user = {user}
"""
SERVER = CONFIG + """
[app:main]
use = egg:swift#{kind}
fallocate_reserve = 0
"""
PROXY = CONFIG + """
[pipeline:main]
pipeline = catch_errors s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:s3api]
use = egg:swift#s3api
location = {region}
storage_domain = {domain}
min_segment_size = {smallest}
max_upload_part_num = 10000
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
[filter:slo]
use = egg:swift#slo
"""


def is_installed():
    """Whether Debian's Python finds Swift."""
    return os.path.exists(PYTHON) and subprocess.run(
        [PYTHON, "-c", "import swift.common.middleware.s3api"], stderr=subprocess.DEVNULL).returncode == 0


@contextlib.contextmanager
def running_swift():
    """Gives the port, at 127.0.0.1, of a store without buckets."""
    with subprocess.Popen([PYTHON, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            said = server.stdout.readline().split()
            if said[:1] != ["ready"]:
                raise RuntimeError("Swift does not start")
            yield int(said[1])
        finally:
            server.stdin.close()


def environment(port):
    """What a program needs to find the store at a port, and to be let in."""
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


class Bucket:
    """A new one in the store at a port, by Swift's own interface, which signs nothing."""

    def __init__(self, port, name):
        self.name = name
        said = urllib.request.urlopen(urllib.request.Request(
            f"http://127.0.0.1:{port}/auth/v1.0",
            headers={"X-Auth-User": ACCESS_KEY, "X-Auth-Key": SECRET_KEY})).headers
        self.url = f"{said['X-Storage-Url']}/{name}"
        self.token = said["X-Auth-Token"]
        self._ask("PUT")

    def _ask(self, method):
        with urllib.request.urlopen(urllib.request.Request(
                self.url, method=method, headers={"X-Auth-Token": self.token})) as answer:
            return answer.read().decode()

    def names(self):
        """Of all objects."""
        return self._ask("GET").split()


def folder_with_attributes():
    """A new folder on a file system that keeps what Swift knows of an object beside its bytes; in
    memory if that does."""
    for place in ("/dev/shm", "/tmp", "/var/tmp"):
        if not os.access(place, os.W_OK):
            continue
        folder = tempfile.mkdtemp(prefix="towpath-swift-", dir=place)
        with contextlib.suppress(OSError):
            os.setxattr(folder, "user.swift.test", b"x")
            return folder
        os.rmdir(folder)
    raise RuntimeError("no file system here keeps extended attributes")


def build_ring(folder, kind, port):
    """All of `kind` lies on one device behind this port."""
    from swift.common.ring import RingBuilder
    ring = RingBuilder(part_power=4, replicas=1, min_part_hours=1)
    ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "d1", "weight": 1,
                  "replication_ip": "127.0.0.1", "replication_port": port})
    ring.rebalance()
    ring.get_ring().save(f"{folder}/{kind}.ring.gz")


class Cache:
    """What the proxy asks memcached for, in its own memory."""

    def __init__(self):
        self.kept = {}

    def get(self, key, raise_on_error=False):
        return self.kept.get(key)

    def set(self, key, value, **_):
        self.kept[key] = value

    def delete(self, key, **_):
        self.kept.pop(key, None)


def with_cache(app):
    """The app, which finds a cache where the middleware for memcached would have put one."""
    cache = Cache()

    def cached(env, start_response):
        env["swift.cache"] = cache
        return app(env, start_response)
    return cached


def listen():
    """A socket that does not wait for more to send, as those of Swift's own servers."""
    import socket

    import eventlet
    made = eventlet.listen(("127.0.0.1", 0))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def serve(folder):
    """Starts the four servers of a store as green threads of this process; gives the port."""
    import getpass

    import eventlet
    eventlet.patcher.monkey_patch(all=False, socket=True, select=True, thread=True)
    from eventlet import wsgi
    from swift.common import utils, wsgi as swift_wsgi
    with open(f"{folder}/swift.conf", "w", encoding="ascii") as out:
        out.write("[swift-hash]\nswift_hash_path_suffix = towpath\n")
    utils.set_swift_dir(folder)
    os.mkdir(f"{folder}/devices")
    os.mkdir(f"{folder}/devices/d1")

    sockets = {kind: listen() for kind in ("account", "container", "object", "proxy")}
    for kind in ("account", "container", "object"):
        build_ring(folder, kind, sockets[kind].getsockname()[1])
    for kind, socket in sockets.items():
        text = (PROXY if kind == "proxy" else SERVER).format(
            folder=folder, user=getpass.getuser(), kind=kind, region=REGION, domain=DOMAIN,
            smallest=SMALLEST_PART, secret=SECRET_KEY)
        file = f"{folder}/{kind}-server.conf"
        with open(file, "w", encoding="ascii") as out:
            out.write(text)
        app = swift_wsgi.loadapp(file, global_conf={"log_name": kind})
        eventlet.spawn(wsgi.server, socket, with_cache(app) if kind == "proxy" else app, utils.NullLogger(), protocol=swift_wsgi.SwiftHttpProtocol,
                       capitalize_response_headers=False, keepalive=True, max_size=1024)
    return sockets["proxy"].getsockname()[1]


def main():
    folder = folder_with_attributes()

    def leave(*_):
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # green threads are of no more use

    for number in (signal.SIGINT, signal.SIGTERM):  # to all of a test's processes, for one
        signal.signal(number, leave)
    try:
        print("ready", serve(folder), flush=True)
        import eventlet.hubs
        eventlet.hubs.trampoline(sys.stdin.fileno(), read=True)  # until it ends
    except Exception:  # whatever Swift raises: said, and nothing left behind
        traceback.print_exc()
    leave()


if __name__ == "__main__":
    main()
