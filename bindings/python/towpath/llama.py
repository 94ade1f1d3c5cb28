"""Keeps what llama-server knows of each conversation, proven, and gives it back before the next turn: a proxy beside it.

    llama-server -m MODEL --port 8080 --slots --slot-save-path /dev/shm/slots
    python3 -m towpath.llama --server http://127.0.0.1:8080 --slots /dev/shm/slots --directory /nvme/kv --disk 50GiB --port 8090

Users ask port 8090. A request goes to the slot that knows the longest beginning of its conversation; where the files know a
longer one, that is restored into a slot that is free, and when the answer is complete the slot's state is kept. So a
conversation goes on after others had its slot, and after a restart of either program. What was damaged is computed.

A state is of one model, its file and llama.cpp's build (`--name-space` for what else it depends on). When the disk is
full, those that were used longest ago go. Only whole requests are matched: a conversation by its first messages, a prompt
by its first characters or tokens. GET /towpath/figures answers with what was done.

Source of the interface: llama.cpp's tools/server/README.md (POST /slots/ID?action=save, restore; /props). Thread: one for
each connection.
"""
import argparse
import hashlib
import http.client
import http.server
import json
import logging
import os
import pathlib
import socket
import sys
import threading
import urllib.parse

from towpath._settings import size_in_bytes
from towpath.connector import Blobs
from towpath.errors import Corrupt, Error, NotFound

_logger = logging.getLogger("towpath.llama")
_GENERATES = ("/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions")
_LONGEST = 256 << 20  # of a request's body
_HOP = ("connection", "transfer-encoding", "keep-alive", "host")  # headers of one connection


def _digest(*parts):
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:32]


def _as_bytes(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Conversation:
    """What a request is about: pieces of which a later request of the same conversation has the same first ones."""

    def __init__(self, body):
        messages, prompt = body.get("messages"), body.get("prompt")
        if isinstance(messages, list) and messages:
            kind = {key: body.get(key) for key in ("model", "tools", "chat_template_kwargs", "lora", "grammar")}
            self.kind, self.pieces = "chat", [_as_bytes(kind)] + [_as_bytes(one) for one in messages]
        elif isinstance(prompt, str) and prompt:
            self.kind, self.pieces = "text", [char.encode("utf-8", "surrogatepass") for char in prompt]
        elif isinstance(prompt, list) and prompt and all(type(one) is int for one in prompt):
            self.kind, self.pieces = "tokens", [b"%d " % token for token in prompt]
        else:
            self.kind, self.pieces = "", []

    @property
    def name(self):
        return f"{self.kind}-{len(self.pieces)}-{_digest(*self.pieces)}"

    def known(self, names):
        """Those of `names` that are beginnings of this one, the longest first."""
        lengths = sorted({int(name.split("-")[1]) for name in names if name.startswith(f"{self.kind}-")})
        found, hashed, at = [], hashlib.sha256(), 0
        for length in lengths:
            if length > len(self.pieces):
                break
            for piece in self.pieces[at:length]:
                hashed.update(piece)
            at = length
            name = f"{self.kind}-{length}-{hashed.hexdigest()[:32]}"
            if name in names:
                found.insert(0, name)
        return found


class States:
    """States in a folder, `limit` bytes at most. Thread: any."""

    def __init__(self, folder, limit, context):
        self._blobs, self._limit, self._context = Blobs(folder), limit, context
        self._lock = threading.Lock()
        kept = [one for one in self._blobs.list() if one["name"] and not one["error"] and one["context"] == context]
        age = {one["name"]: os.stat(os.path.join(folder, one["file"])).st_mtime for one in kept}
        self._lengths = {one["name"]: one["length"] for one in sorted(kept, key=lambda one: age[one["name"]])}
        self.figures = {"restored": 0, "kept": 0, "damaged": 0, "evicted": 0, "failed": 0}

    def names(self):
        with self._lock:
            return set(self._lengths)

    def restore(self, name):
        """The bytes; None: it is not there any more, or not as it was."""
        with self._lock:
            if name not in self._lengths:
                return None
            self._lengths[name] = self._lengths.pop(name)  # used last
        try:
            return self._blobs.restore(name, context=self._context)
        except NotFound:
            return None  # evicted meanwhile
        except Error as why:
            self.count("damaged" if isinstance(why, Corrupt) else "failed", why)
            self._drop([name])
            return None

    def keep(self, name, data):
        if len(data) > self._limit:
            return
        with self._lock:
            self._lengths.pop(name, None)
            kept, oldest = sum(self._lengths.values()) + len(data), []
            for other, length in self._lengths.items():
                if kept <= self._limit:
                    break
                oldest.append(other)
                kept -= length
            self._lengths[name] = len(data)  # its room is taken before it is written
        self._drop(oldest)
        for _ in oldest:
            self.count("evicted")
        try:
            self._blobs.save(name, data, context=self._context)
            self.count("kept")
        except Error as why:
            self.count("failed", why)
            self._drop([name])

    def count(self, what, why=None):
        """One more of the figures; `why` is for the log."""
        with self._lock:
            self.figures[what] += 1
        if why is not None:
            _logger.warning("%s", why)

    def _drop(self, names):
        for name in names:
            with self._lock:
                is_ours = self._lengths.pop(name, None) is not None
            try:
                if is_ours:
                    self._blobs.remove(name)
            except NotFound:
                pass
            except Error as why:
                _logger.warning("%s", why)


class Server:
    """The llama-server behind. Raises OSError where it does not answer as it should."""

    def __init__(self, url, folder, name_space=""):
        parts = urllib.parse.urlsplit(url)
        self._address, self._folder, self._name_space = (parts.hostname, parts.port or 80), pathlib.Path(folder), name_space

    def ask(self, method, path, body=None, headers=None):
        """A response whose body is still to be read. Its connection ends with it."""
        key = os.environ.get("LLAMA_API_KEY")  # as llama-server has it
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        connection = http.client.HTTPConnection(*self._address)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def ask_json(self, method, path, body=None):
        response = self.ask(method, path, None if body is None else _as_bytes(body), {"Content-Type": "application/json"})
        said = response.read()
        if response.status != 200:
            raise OSError(f"llama-server answers {response.status} to {method} {path}: {said[:300].decode(errors='replace')}")
        return json.loads(said)

    def slots(self):
        return self.ask_json("GET", "/props")["total_slots"]

    def task_of(self, slot):
        """The number of the last task that it had; None: it had none, or the server does not say."""
        try:
            return next(one.get("id_task") for one in self.ask_json("GET", "/slots") if one["id"] == slot)
        except (OSError, KeyError, StopIteration):
            return None

    def identity(self):
        """What a state depends on."""
        props, models = self.ask_json("GET", "/props"), self.ask_json("GET", "/v1/models")
        facts = [self._name_space, props.get("model_path"), props.get("build_info"), props.get("chat_template"),
                 [model.get("meta") for model in models.get("data", ())]]
        try:
            file = os.stat(props.get("model_path") or "")
            facts.append([file.st_size, file.st_mtime_ns])
        except OSError:
            pass  # another's file system: its size is in the facts above
        return _digest(_as_bytes(facts))

    def save(self, slot):
        """The bytes of a slot's state."""
        path = self._folder / f"towpath-{slot}"
        try:
            self.ask_json("POST", f"/slots/{slot}?action=save", {"filename": path.name})
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)

    def restore(self, slot, data):
        path = self._folder / f"towpath-{slot}"
        try:
            path.write_bytes(data)
            self.ask_json("POST", f"/slots/{slot}?action=restore", {"filename": path.name})
        finally:
            path.unlink(missing_ok=True)


class Slots:
    """The slots that are free, and what each knows: a conversation, and the server's number of the task that it was left
    with. Thread: any."""

    def __init__(self, count):
        self._changed = threading.Condition()
        self._free = dict.fromkeys(range(count), ("", None))  # the one that is free for longest first

    def take(self, wanted):
        """(slot, what it knows): the one that knows the best of `wanted`, else the one that is free for longest. Waits."""
        def rank(slot):
            name, _ = self._free[slot]
            return wanted.index(name) if name in wanted else len(wanted)

        with self._changed:
            self._changed.wait_for(lambda: self._free)
            slot = min(self._free, key=rank)
            return slot, self._free.pop(slot)

    def give_back(self, slot, knows):
        with self._changed:
            self._free[slot] = knows
            self._changed.notify()


class Sidecar:
    """`make_states` opens those of a server's identity."""

    def __init__(self, server, make_states):
        self.server, self._make_states, self._lock = server, make_states, threading.Lock()
        self._identity, self.slots = server.identity(), Slots(server.slots())
        self.states = make_states(self._identity)

    def prepare(self, conversation):
        """A slot that knows as much of it as there is to be had."""
        slot, (knows, task) = self.slots.take(conversation.known(self.states.names()))
        try:
            if task is None or self.server.task_of(slot) != task:  # another has had it, or the server is another life
                knows = ""
                self._follow_server()
            wanted = conversation.known(self.states.names())
            self._restore(slot, wanted[:wanted.index(knows)] if knows in wanted else wanted)
        except BaseException:
            self.slots.give_back(slot, ("", None))
            raise
        return slot

    def _follow_server(self):
        with self._lock:
            identity = self.server.identity()
            if identity != self._identity:
                _logger.info("the server has another model, or is another build: its states are others")
                self._identity, self.states = identity, self._make_states(identity)

    def _restore(self, slot, wanted):
        """The first of them that can be had, if any."""
        for name in wanted:
            data = self.states.restore(name)
            if data is None:
                continue
            try:
                self.server.restore(slot, data)
                self.states.count("restored")
            except (OSError, http.client.HTTPException) as why:
                self.states.count("failed", why)
            return

    def keep(self, slot, name):
        """What the slot knows now."""
        try:
            self.states.keep(name, self.server.save(slot))
            return name, self.server.task_of(slot)
        except (OSError, http.client.HTTPException) as why:
            self.states.count("failed", why)
            return "", None


def _handler(sidecar):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # a body ends with its connection

        def log_message(self, format, *args):
            _logger.debug(format, *args)

        def do_GET(self):
            if self.path == "/towpath/figures":
                return self._answer_json(200, sidecar.states.figures)
            self._forward(self._body())

        do_HEAD = do_OPTIONS = do_PUT = do_DELETE = do_GET

        def do_POST(self):
            body = self._body()
            try:
                asked = json.loads(body) if body and self.path.split("?")[0] in _GENERATES else None
            except ValueError:
                asked = None  # the server says what is wrong with it
            conversation = Conversation(asked) if isinstance(asked, dict) else None
            if conversation is None or not conversation.pieces:
                return self._forward(body)
            try:
                slot, knows = sidecar.prepare(conversation), ("", None)
            except (OSError, http.client.HTTPException) as why:
                return self._say_gone(why)
            try:
                if self._forward(_as_bytes({"cache_prompt": True, **asked, "id_slot": slot})):
                    knows = sidecar.keep(slot, conversation.name)
            finally:
                sidecar.slots.give_back(slot, knows)

        def _body(self):
            """None: it was refused, and that is answered."""
            length = self.headers.get("Content-Length", "0")
            if "Transfer-Encoding" in self.headers or not length.isdecimal():
                return self._answer_json(411, {"error": {"code": 411, "message": "a body wants a Content-Length"}})
            if int(length) > _LONGEST:
                return self._answer_json(413, {"error": {"code": 413, "message": f"a body of {length} bytes, at most {_LONGEST}"}})
            return self.rfile.read(int(length))

        def _answer_json(self, status, value):
            said = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def _say_gone(self, why):
            self._answer_json(502, {"error": {"code": 502, "message": f"llama-server does not answer: {why}"}})

        def _forward(self, body):
            """Whether the server answered well, to the end."""
            if body is None:
                return False
            headers = {name: value for name, value in self.headers.items() if name.lower() not in (*_HOP, "content-length")}
            try:
                response = sidecar.server.ask(self.command, self.path, body or None, headers)
            except (OSError, http.client.HTTPException) as why:
                self._say_gone(why)
                return False
            with response:
                try:
                    self._pass_on(response)
                except (OSError, http.client.HTTPException) as why:  # either side has gone
                    _logger.info("%s %s ended early: %s", self.command, self.path, why)
                    self.close_connection = True
                    return False
            return response.status == 200

        def _pass_on(self, response):
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.end_headers()
            while piece := response.read1(65536):
                self.wfile.write(piece)
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)  # the answer is complete, and its state is still to be kept

    return Handler


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m towpath.llama", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, metavar="URL", help="of llama-server")
    parser.add_argument("--slots", required=True, metavar="DIR", help="its --slot-save-path; in memory is best: /dev/shm/slots")
    parser.add_argument("--directory", required=True, metavar="DIR", help="where states are kept")
    parser.add_argument("--disk", default=16 << 30, type=lambda text: size_in_bytes(text, "--disk"), help="at most; 16GiB")
    parser.add_argument("--name-space", default="", metavar="TEXT", help="what else states depend on")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8090)
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="towpath.llama: %(message)s")
    try:
        sidecar = Sidecar(Server(args.server, args.slots, args.name_space),
                          lambda identity: States(args.directory, args.disk, identity))
        front = http.server.ThreadingHTTPServer((args.host, args.port), _handler(sidecar))
    except (Error, OSError, KeyError) as why:
        print(f"towpath.llama: {why}", file=sys.stderr)
        return 3
    _logger.info("%d states are in %s; http://%s:%d asks %s", len(sidecar.states.names()), args.directory, args.host,
                 front.server_port, args.server)
    try:
        front.serve_forever()
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
