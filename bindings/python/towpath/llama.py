"""Keeps what llama-server knows of each conversation, proven, and gives it back before the next turn: a proxy beside it.

    llama-server -m MODEL --port 8080 --slot-save-path /dev/shm/slots
    python3 -m towpath.llama --server http://127.0.0.1:8080 --slots /dev/shm/slots --directory /nvme/kv --disk 50GiB --port 8090

Users ask port 8090. A request goes to the slot that knows the longest beginning of its conversation; where the files know a
longer one, that is restored into a slot that is free, and when the answer is complete the slot's state is kept. So a
conversation goes on after others had its slot, and after a restart of either program. What was damaged is computed.

A state is of one model, its file, the server's LoRA adapters and llama.cpp's build (`--name-space` for what else it depends on). When the disk is
full, those that were used longest ago go. Only whole requests are matched: a conversation by its first messages, a prompt
by its first characters or tokens. GET /towpath/figures answers with what was done.

Source of the interface: llama.cpp's tools/server/README.md (POST /slots/ID?action=save, restore; /props). Thread: one for
each connection.
"""
import argparse
import contextlib
import fcntl
import hashlib
import http.client
import http.server
import json
import logging
import os
import pathlib
import secrets
import select
import socket
import sys
import threading
import typing
import urllib.parse

from towpath._llama import Conversation, States, as_bytes
from towpath._settings import size_in_bytes
from towpath.errors import Error

_logger = logging.getLogger("towpath.llama")
_COMPLETIONS = ("/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions")
_OF_ONE_CONNECTION = ("connection", "transfer-encoding", "keep-alive", "host", "expect")  # headers
_LONGEST = 64 << 20  # of a request's body
_BODIES = 16  # read at one time
_TIMEOUT_S = 60  # for a client's next bytes, and for what the server answers without computing
_TROUBLE = (OSError, http.client.HTTPException, ValueError, KeyError)  # what a server's answer may end with


class Refused(OSError):
    """llama-server answered, and not with 200."""


def _facts_of_file(path):
    """Nothing of another's file system: the guide says what to do."""
    try:
        file = os.stat(path or "")
    except OSError:
        return []
    return [file.st_size, file.st_mtime_ns]


class Server:
    """The llama-server behind. Raises one of _TROUBLE where it does not answer as it should, or the URL is of no such place."""

    def __init__(self, url, folder, name_space=""):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.username or parts.path.strip("/") or parts.query:
            raise ValueError(f"{url!r} is no place of llama-server (hint: http://HOST:PORT and no more; https is not spoken)")
        self._address, self._folder, self._name_space = (parts.hostname, parts.port or 80), pathlib.Path(folder), name_space

    def begin(self, method, path, body, headers, timeout=None):
        """A connection that has sent a request. `headers`: pairs."""
        connection = http.client.HTTPConnection(*self._address, timeout=timeout)
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        return connection

    def ask_json(self, method, path, body=None):
        key = os.environ.get("LLAMA_API_KEY")  # as llama-server has it: for the proxy's own questions
        headers = [("Content-Type", "application/json"), *([("Authorization", f"Bearer {key}")] if key else [])]
        with contextlib.closing(self.begin(method, path, None if body is None else as_bytes(body), headers, _TIMEOUT_S)) as asked:
            response = asked.getresponse()
            said = response.read()
        if response.status != 200:
            raise Refused(f"llama-server answers {response.status} to {method} {path}: {said[:300].decode(errors='replace')}")
        return json.loads(said)

    def slots(self):
        return self.ask_json("GET", "/props")["total_slots"]

    def task_of(self, slot):
        """The number of the last task that it had; None: it had none, or the server does not say."""
        try:
            return next((one.get("id_task") for one in self.ask_json("GET", "/slots") if one["id"] == slot), None)
        except _TROUBLE:
            return None

    def identity(self):
        """What a state depends on."""
        props, models = self.ask_json("GET", "/props"), self.ask_json("GET", "/v1/models")
        facts = [self._name_space, props.get("total_slots"), props.get("model_path"), props.get("build_info"),
                 props.get("chat_template"), [model.get("meta") for model in models.get("data", ())]]
        facts += [found for found in (_facts_of_file(props.get("model_path")), self._adapters()) if found]
        return hashlib.sha256(as_bytes(facts)).hexdigest()

    def _adapters(self):
        """The server's own, which it applies to every request that names none, and their files."""
        try:
            adapters = self.ask_json("GET", "/lora-adapters")
        except Refused:
            return []
        return [[one.get("id"), one.get("path"), one.get("scale"), *_facts_of_file(one.get("path"))] for one in adapters]

    @contextlib.contextmanager
    def _file(self):
        """Of a name that no other process uses."""
        path = self._folder / f"towpath-{secrets.token_hex(16)}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def save(self, slot):
        """The bytes of a slot's state."""
        with self._file() as path:
            self.ask_json("POST", f"/slots/{slot}?action=save", {"filename": path.name})
            return path.read_bytes()

    def restore(self, slot, data):
        with self._file() as path:
            path.write_bytes(data)
            self.ask_json("POST", f"/slots/{slot}?action=restore", {"filename": path.name})


class Known(typing.NamedTuple):
    """What a slot knows: a conversation, and the server's number of the task that left it so."""
    name: str = ""
    task: typing.Optional[int] = None


class Slots:
    """The slots that are free, and what each knows. Thread: any."""

    def __init__(self, count):
        self._changed = threading.Condition()
        self._free = dict.fromkeys(range(count), Known())  # the one that is free for longest first
        self._soon = {}  # by slot that is being kept: the conversation that it will know

    def names(self):
        with self._changed:
            return {known.name for known in self._free.values()} | set(self._soon.values())

    def take(self, conversation):
        """(slot, what it knows): the one that knows the longest beginning, for which it is waited; else the one that is free
        for longest."""
        with self._changed:
            while True:
                wanted = conversation.known({known.name for known in self._free.values()} | set(self._soon.values()))
                best = wanted[0] if wanted else None
                for slot, known in self._free.items():
                    if known.name == best:
                        return slot, self._free.pop(slot)
                if best is None and self._free:
                    slot = next(iter(self._free))
                    return slot, self._free.pop(slot)
                self._changed.wait()

    def will_know(self, slot, name):
        with self._changed:
            self._soon[slot] = name

    def give_back(self, slot, known):
        with self._changed:
            self._soon.pop(slot, None)
            self._free[slot] = known
            self._changed.notify_all()


class Life(typing.NamedTuple):
    """A server as long as its identity is one: its states, and what its slots know."""
    identity: str
    states: States
    slots: Slots


class Proxy:
    """`make_states` opens those of an identity."""

    def __init__(self, server, make_states):
        self.server, self._make_states, self._lock, self.life = server, make_states, threading.Lock(), None
        self.bodies = threading.Semaphore(_BODIES)
        self.follow_server()

    def follow_server(self):
        """The life that the server is in now."""
        identity = self.server.identity()
        with self._lock:
            if self.life is None or identity != self.life.identity:
                if self.life is not None:
                    _logger.info("the server has another model, or is another build: it has other states")
                self.life = Life(identity, self._make_states(identity), Slots(self.server.slots()))
            return self.life

    def prepare(self, conversation):
        """(the server's life, a slot of it that knows as much of the conversation as there is to be had)"""
        life = self.follow_server()
        slot, known = life.slots.take(conversation)
        try:
            is_as_left = known.task is not None and self.server.task_of(slot) == known.task
            wanted = conversation.known(life.states.names() | ({known.name} if is_as_left else set()))
            if is_as_left and known.name in wanted:
                wanted = wanted[:wanted.index(known.name)]
            self._restore(life, slot, wanted)
        except BaseException:
            life.slots.give_back(slot, Known())
            raise
        return life, slot

    def _restore(self, life, slot, wanted):
        """The first of them that can be had, if any."""
        for name in wanted:
            data = life.states.restore(name)
            if data is None:
                continue
            try:
                if self.server.identity() != life.identity:  # reading may have taken a while
                    return
                self.server.restore(slot, data)
                life.states.count("restored")
            except _TROUBLE as why:
                life.states.count("failed", why)
            return

    def keep(self, life, slot, name):
        """What the slot knows now."""
        task = self.server.task_of(slot)
        try:
            data = self.server.save(slot)
            if self.server.identity() != life.identity or self.server.task_of(slot) != task:
                return Known()  # it may be another's
            life.states.keep(name, data)
        except _TROUBLE as why:
            life.states.count("failed", why)
        return Known(name, task)


class Handler(http.server.BaseHTTPRequestHandler):
    """Of one connection, which has one request. A subclass has the `proxy`."""
    protocol_version = "HTTP/1.0"  # a body ends with its connection
    timeout = _TIMEOUT_S
    proxy = None

    def log_message(self, format, *args):
        _logger.debug(format, *args)

    def do_POST(self):
        with self.proxy.bodies:
            body = self._read_body()
        if body is None:
            return
        try:
            conversation, asked = self._conversation(body)
            if conversation is None:
                self._forward(body)
            else:
                self._complete(conversation, asked)
        except (Error, *_TROUBLE) as why:
            self._refuse(502, f"llama-server does not answer: {why}")

    do_GET = do_HEAD = do_OPTIONS = do_PUT = do_DELETE = do_POST

    def _read_body(self):
        """None: it was refused, and that is answered; or there is nothing more to do."""
        if self.path == "/towpath/figures" and self.command == "GET":
            return self._answer_json(200, self.proxy.life.states.figures)
        given = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not given.isdecimal() or len(given) > 18:
            return self._refuse(411, "a body wants a Content-Length")
        if int(given) > _LONGEST:
            return self._refuse(413, f"a body of {given} bytes, at most {_LONGEST}")
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(int(given))
        return body if len(body) == int(given) else self._refuse(400, "the body has ended early")

    def _conversation(self, body):
        """(None, None): it is none, or not one that can be understood; the server says what is wrong with it."""
        if self.command != "POST" or self.path.split("?")[0] not in _COMPLETIONS:
            return None, None
        try:
            asked = json.loads(body)
            found = Conversation(asked) if isinstance(asked, dict) else None
        except (ValueError, RecursionError):
            return None, None
        return (found, asked) if found is not None and found.length else (None, None)

    def _complete(self, conversation, asked):
        life, slot = self.proxy.prepare(conversation)
        known = Known()
        try:
            # The keys keep their order: a grammar or a template may depend on it.
            if self._forward(json.dumps({"cache_prompt": True, **asked, "id_slot": slot}).encode(),
                             lambda: life.slots.will_know(slot, conversation.name)):
                known = self.proxy.keep(life, slot, conversation.name)
        finally:
            life.slots.give_back(slot, known)

    def _answer_json(self, status, value):
        said = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _refuse(self, status, message):
        with contextlib.suppress(OSError):
            self._answer_json(status, {"error": {"code": status, "message": message}})

    def _forward(self, body, at_end=lambda: None):
        """Whether the server answered well, to the end; then `at_end` was called before the client knew."""
        headers = [(name, value) for name, value in self.headers.items()
                   if name.lower() not in (*_OF_ONE_CONNECTION, "content-length")]
        with contextlib.closing(self.proxy.server.begin(self.command, self.path, body, headers)) as asked:
            if not self._await_answer(asked.sock):
                return False
            with asked.getresponse() as response:
                try:
                    self._pass_on(response, at_end)
                except (OSError, http.client.HTTPException) as why:  # either side has gone
                    _logger.info("%s %s ended early: %s", self.command, self.path, why)
                    return False
        return response.status == 200

    def _await_answer(self, server):
        """False: the client has hung up, and the server need not compute."""
        poller = select.poll()
        poller.register(server, select.POLLIN)
        poller.register(self.connection, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if server.fileno() in ready:
                return True
            try:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    return False
                poller.unregister(self.connection)  # it says more, which nobody asked for
            except OSError:
                return False

    def _pass_on(self, response, at_end):
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.end_headers()
        while piece := response.read1(65536):
            self.wfile.write(piece)
        at_end()
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)  # the answer is complete, and its state is still to be kept


def make_front(proxy, address):
    """An HTTP server of the proxy's. The caller runs it."""
    return http.server.ThreadingHTTPServer(address, type("Handler", (Handler,), {"proxy": proxy}))


def lock(folder):
    """The folder is this process's until it ends. OSError: another has it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    held = open(os.path.join(folder, "lock"), "w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OSError(f"another process has {folder}: give each server's proxy a directory of its own") from None
    return held


def _size(text):
    try:
        return size_in_bytes(text, "it")
    except ValueError as why:
        raise argparse.ArgumentTypeError(why) from None


def _port(text):
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m towpath.llama", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, metavar="URL", help="of llama-server: http://HOST:PORT")
    parser.add_argument("--slots", required=True, metavar="DIR", help="its --slot-save-path; in memory is best: /dev/shm/slots")
    parser.add_argument("--directory", required=True, metavar="DIR", help="where states are kept; one proxy's")
    parser.add_argument("--disk", default=16 << 30, type=_size, help="at most; 16GiB")
    parser.add_argument("--name-space", default="", metavar="TEXT", help="what else states depend on")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8090)
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="towpath.llama: %(message)s")
    try:
        held = lock(args.directory)
        proxy = Proxy(Server(args.server, args.slots, args.name_space),
                      lambda identity: States(args.directory, args.disk, identity))
        front = make_front(proxy, (args.host, args.port))
    except (Error, *_TROUBLE) as why:
        print(f"towpath.llama: {why}", file=sys.stderr)
        return 3
    _logger.info("%d states are in %s; http://%s:%d asks %s", len(proxy.life.states.names()), args.directory, args.host,
                 front.server_port, args.server)
    with held, contextlib.suppress(KeyboardInterrupt):
        front.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
