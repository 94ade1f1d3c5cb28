"""The proxy beside llama-server, with a fake one that knows slots as the real one does. With the real: ./dev engines -k llama_server."""
import http.server
import json
import logging
import socket
import struct
import threading
import types
import urllib.error
import urllib.request

import pytest

from towpath import llama
from towpath.errors import Exhausted


class FakeServer:
    """Slots that know tokens; a state is a file of them. What a completion finds in its slot is its `cache_n`."""

    def __init__(self, folder, slots=2):
        self.folder, self.slots, self.refuses, self.model = folder, [[] for _ in range(slots)], "", "/m"
        self.tasks, self.task, self.adapters = {}, 0, []
        self.lock, self.under_way, self.most_at_once, self.go_on = threading.Lock(), 0, 0, threading.Event()
        self.arrived, self.bodies, self.headers = threading.Event(), [], []
        self.go_on.set()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):

            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path == "/lora-adapters":
                    return self.answer(501 if fake.adapters is None else 200, fake.adapters)
                self.answer(200, {"/props": {"total_slots": len(fake.slots), "model_path": fake.model},
                                  "/slots": [{"id": slot, "id_task": fake.tasks.get(slot)} for slot in range(len(fake.slots))],
                                  "/v1/models": {"data": []}}[self.path])

            def do_POST(self):
                text = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(text)
                fake.bodies.append(text)
                fake.headers.append(self.headers.items())
                if fake.refuses and fake.refuses in self.path:
                    return self.answer(500, {"error": "as a test wants it"})
                if self.path.startswith("/slots/"):
                    return self.answer(200, fake.move(int(self.path.split("/")[2].split("?")[0]), self.path, body["filename"]))
                if self.path != "/completion":
                    return self.answer(200, {"tokens": body})
                found = fake.complete(body["id_slot"], body["prompt"])
                if not body.get("stream"):
                    return self.answer(200, found)
                self.send_response(200)
                self.end_headers()
                for piece in (b"data: 1\n\n", b"data: [DONE]\n\n"):
                    self.wfile.write(piece)

            def answer(self, status, value):
                said = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def move(self, slot, path, name):
        file = self.folder / name
        if "save" in path:
            file.write_text(json.dumps(self.slots[slot]))
        else:
            self.slots[slot] = json.loads(file.read_text())
        return {}

    def complete(self, slot, prompt):
        with self.lock:
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
        self.arrived.set()
        self.go_on.wait()
        with self.lock:
            self.under_way -= 1
        knows = self.slots[slot]
        same = next((i for i, (a, b) in enumerate(zip(knows, prompt)) if a != b), min(len(knows), len(prompt)))
        self.slots[slot] = [*prompt, 1]
        self.tasks[slot] = self.task = self.task + 1
        return {"cache_n": same, "slot": slot}

    def forget(self):
        """As another life of it begins."""
        self.slots, self.tasks, self.task = [[] for _ in self.slots], {}, 0

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class Watched(llama.States):
    """That can be waited for: an answer is complete before its state is kept."""

    def __init__(self, *words):
        super().__init__(*words)
        self.changed, self.keeps = threading.Condition(), 0

    def keep(self, name, data):
        super().keep(name, data)
        with self.changed:
            self.keeps += 1
            self.changed.notify_all()

    def await_keeps(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: self.keeps >= count, 60)


class Pair:
    """A fake server and the proxy beside it."""

    def __init__(self, work, slots=2, limit=1 << 20):
        self.work, self.limit = work, limit
        (work / "slots").mkdir(exist_ok=True)
        self.fake = FakeServer(work / "slots", slots)
        self.begin()

    def begin(self):
        server = llama.Server(f"http://127.0.0.1:{self.fake.http.server_port}", self.work / "slots")
        self.proxy = llama.Proxy(server, lambda identity: Watched(self.work / "kv", self.limit, identity))
        self.front = llama.make_front(self.proxy, ("127.0.0.1", 0))
        self.front.daemon_threads = False
        threading.Thread(target=self.front.serve_forever, args=(0.02,), daemon=True).start()

    def end(self):
        """What is under way is kept first."""
        self.front.shutdown()
        self.front.server_close()

    def restart(self):
        self.end()
        self.fake.forget()
        self.begin()

    @property
    def states(self):
        return self.proxy.life.states

    @property
    def figures(self):
        return self.states.figures

    def ask(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.front.server_port}{path}", json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return answer.read()

    def complete(self, prompt):
        """How many of its tokens were there; its state is kept when this returns."""
        before = self.states.keeps
        found = json.loads(self.ask("/completion", {"prompt": prompt}))
        self.states.await_keeps(before + 1)
        return found["cache_n"]


@pytest.fixture
def pair(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "towpath.llama")
    made = Pair(tmp_path)
    yield made
    made.end()
    made.fake.close()


TALKS = [[number] * 50 for number in range(10, 14)]


def test_conversations_go_on_in_any_slot_and_after_a_restart(pair):
    assert [pair.complete(talk) for talk in TALKS] == [0] * 4
    assert [pair.complete([*talk, 1, 2]) for talk in TALKS] == [51] * 4, "with the answer's token"
    pair.restart()
    assert pair.complete([*TALKS[0], 1, 2, 1, 3]) == 53, "the longest beginning that is known"
    assert pair.complete([*TALKS[1], 9]) == 50, "another branch of it"
    assert pair.figures["failed"] == 0 and not list((pair.work / "slots").iterdir()), "no file is left with the server"


def test_a_slot_that_knows_it_is_taken_as_it_is(pair):
    pair.complete(TALKS[0])
    pair.complete(TALKS[1])
    assert pair.complete([*TALKS[0], 1, 2]) == 51
    assert pair.figures["restored"] == 0


def test_a_server_that_began_anew_alone_is_given_its_states(pair):
    pair.complete(TALKS[0])
    pair.fake.forget()
    assert pair.complete([*TALKS[0], 1, 2]) == 51
    assert pair.figures["restored"] == 1


def test_a_server_that_has_another_model_now_gets_none_of_the_old_one_s_states(pair):
    pair.complete(TALKS[0])
    pair.fake.forget()
    pair.fake.model = "/another"
    json.loads(pair.ask("/completion", {"prompt": [*TALKS[0], 1, 2]}))
    pair.states.await_keeps(1)
    assert pair.figures["restored"] == 0
    pair.fake.forget()
    pair.fake.model = "/m"
    json.loads(pair.ask("/completion", {"prompt": TALKS[1]}))
    assert pair.complete([*TALKS[0], 1, 2]) == 51, "they are there for the first model"


def test_a_server_with_other_adapters_of_its_own_gets_none_of_the_states(pair):
    adapter, fake = pair.work / "adapter.gguf", pair.fake
    adapter.write_bytes(b"1")
    changes = (lambda: fake.adapters.append({"id": 0, "path": str(adapter), "scale": 1.0}),
               lambda: fake.adapters[0].update(scale=0.5), lambda: adapter.write_bytes(b"trained on"))
    pair.complete(TALKS[0])
    for change in changes:
        change()
        pair.restart()
        assert pair.complete([*TALKS[0], 1, 2]) == 0 and pair.figures["restored"] == 0
    pair.restart()
    assert pair.complete([*TALKS[0], 1, 2, 1, 3]) == 53, "they are there for the same ones"


def test_a_server_that_does_not_say_its_adapters_has_none(pair):
    pair.complete(TALKS[0])
    pair.fake.adapters = None
    pair.restart()
    assert pair.complete([*TALKS[0], 1, 2]) == 51


def test_what_is_damaged_is_computed(pair):
    pair.complete(TALKS[0])
    (blob,) = (pair.work / "kv").glob("*.blob")
    stored = bytearray(blob.read_bytes())
    stored[-3] ^= 1
    blob.write_bytes(stored)
    pair.restart()
    assert pair.complete([*TALKS[0], 1, 2]) == 0
    assert pair.figures["damaged"] == 1 and pair.figures["restored"] == 0


def test_another_model_s_states_are_not_found(pair):
    pair.complete(TALKS[0])
    states = llama.States(pair.work / "kv", 1 << 20, "another")
    assert states.names() == set()


def test_the_disk_has_a_bound_and_what_was_used_longest_ago_goes(tmp_path):
    states = llama.States(tmp_path, 1000, "model")
    for name in ("text-1-a", "text-1-b", "text-1-c"):
        states.keep(name, bytes(300))
    assert states.restore("text-1-a") == bytes(300)
    states.keep("text-1-d", bytes(300))
    assert states.names() == {"text-1-a", "text-1-c", "text-1-d"}
    other = llama.States(tmp_path, 1000, "of another model")
    other.keep("text-1-a", bytes(300))
    assert len(list(tmp_path.glob("*.blob"))) == 3, "of all models together"
    assert states.restore("text-1-d") == bytes(300) and other.restore("text-1-a") == bytes(300)
    states.keep("text-1-e", bytes(1001))
    assert len(states.names()) == len(list(tmp_path.glob("*.blob"))) == 3, "one without room takes none from others"


def test_one_slot_serves_one_at_a_time(tmp_path):
    pair = Pair(tmp_path, slots=1)
    pair.fake.go_on.clear()
    threads = [threading.Thread(target=pair.ask, args=("/completion", {"prompt": talk})) for talk in TALKS]
    for thread in threads:
        thread.start()
    assert pair.fake.arrived.wait(60)
    pair.fake.arrived.clear()
    assert not pair.fake.arrived.wait(0.5), "a second one came while the first was under way"
    pair.fake.go_on.set()
    for thread in threads:
        thread.join()
    pair.states.await_keeps(4)
    pair.end()
    assert pair.fake.most_at_once == 1
    pair.fake.close()


def test_the_next_turn_waits_for_the_slot_that_is_being_kept(pair):
    """Else it would be computed anew in another."""
    saving, move = threading.Event(), pair.fake.move

    def slow(slot, path, name):
        if "save" in path:
            saving.set()
            threading.Event().wait(0.3)
        return move(slot, path, name)

    pair.fake.move = slow
    json.loads(pair.ask("/completion", {"prompt": TALKS[0]}))
    assert saving.wait(60)
    assert json.loads(pair.ask("/completion", {"prompt": [*TALKS[0], 1, 2]})) == {"cache_n": 51, "slot": 0}


def test_slots_are_known_where_nothing_can_be_kept(tmp_path):
    pair = Pair(tmp_path, slots=4, limit=10)
    assert [pair.complete(talk) for talk in TALKS] == [0] * 4
    assert [pair.complete([*talk, 1, 2]) for talk in TALKS] == [51] * 4
    assert pair.figures["failed"] == 8, "and that is counted"
    pair.end()
    pair.fake.close()


def test_a_request_passes_with_its_order_and_its_own_key(pair, monkeypatch):
    monkeypatch.setenv("LLAMA_API_KEY", "the proxy's")
    pair.ask("/completion", {"prompt": TALKS[0], "z": 1, "a": 2})
    asked = next(body for body in pair.fake.bodies if b"prompt" in body)
    assert asked.index(b'"z"') < asked.index(b'"a"'), "a grammar is made of the order of keys"
    assert not any("the proxy's" in value for name, value in pair.fake.headers[0]), "its key is not a client's"


def test_adapters_part_conversations():
    plain, adapted = ({"prompt": "abc", "lora": lora} for lora in (None, [{"id": 0, "scale": 1}]))
    assert llama.Conversation(plain).name != llama.Conversation(adapted).name


def test_a_moment_without_memory_costs_no_state(pair, monkeypatch):
    pair.complete(TALKS[0])

    def fail(*_, **__):
        raise Exhausted("no descriptor")

    pair.states._blobs = types.SimpleNamespace(restore=fail)
    (name,) = pair.states.names()
    assert pair.states.restore(name) is None and pair.states.names() == {name}


def test_streams_and_other_questions_pass_as_they_are(pair):
    assert pair.ask("/completion", {"prompt": TALKS[0], "stream": True}) == b"data: 1\n\ndata: [DONE]\n\n"
    assert json.loads(pair.ask("/tokenize", {"content": "x"})) == {"tokens": {"content": "x"}}
    with pytest.raises(urllib.error.HTTPError):
        pair.fake.refuses = "/tokenize"
        pair.ask("/tokenize", {})


@pytest.mark.parametrize("refused", ["save", "restore"])
def test_a_server_that_moves_no_state_still_answers(pair, refused):
    pair.complete(TALKS[0])
    pair.restart()
    pair.fake.refuses = refused
    found = json.loads(pair.ask("/completion", {"prompt": [*TALKS[0], 1, 2]}))
    assert found["cache_n"] == (0 if refused == "restore" else 51)
    pair.end()  # after what is under way
    assert pair.figures["failed"] == 1
    pair.begin()


def test_a_client_that_hangs_up_gives_its_slot_back_at_once(tmp_path):
    pair = Pair(tmp_path, slots=1)
    pair.fake.go_on.clear()
    body = json.dumps({"prompt": TALKS[0]}).encode()
    with socket.create_connection(("127.0.0.1", pair.front.server_port)) as client:
        client.sendall(b"POST /completion HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert pair.fake.arrived.wait(60)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
    slot, known = pair.proxy.life.slots.take(llama.Conversation({"prompt": TALKS[1]}))
    assert (slot, known) == (0, llama.Known()), "while the server still computes"
    pair.proxy.life.slots.give_back(slot, known)
    pair.fake.go_on.set()
    pair.end()
    pair.fake.close()


@pytest.mark.parametrize("header,status", [(b"Transfer-Encoding: chunked", b"411"), (b"Content-Length: -1", b"411"),
                                           (b"Content-Length: 999999999999", b"413"), (b"Content-Length: " + b"9" * 5000, b"411")])
def test_bodies_without_an_end_are_refused(pair, header, status):
    with socket.create_connection(("127.0.0.1", pair.front.server_port)) as client:
        client.sendall(b"POST /completion HTTP/1.1\r\n" + header + b"\r\n\r\n")
        assert client.makefile("rb").readline().split()[1] == status
    assert pair.complete(TALKS[0]) == 0


def test_a_server_that_is_gone_is_reported(pair):
    pair.fake.close()
    with pytest.raises(urllib.error.HTTPError, match="502"):
        pair.ask("/completion", {"prompt": TALKS[0]})
    pair.fake = FakeServer(pair.work / "slots")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "localhost:8080", "https://127.0.0.1:1", "http://127.0.0.1:1/v1",
                                 "http://:8080", "http://127.0.0.1:99999"])
def test_a_url_of_no_llama_server_is_named(tmp_path, capsys, url):
    assert llama.main(["--server", url, "--slots", str(tmp_path), "--directory", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert "http://HOST:PORT" in said or "Port out of range" in said


@pytest.mark.parametrize("option,value,says", [("--disk", "5 GBs", "'64GiB'"), ("--port", "99999", "0 to 65535"),
                                               ("--port", "x", "0 to 65535")])
def test_a_value_that_makes_no_sense_is_reported_with_what_does(tmp_path, capsys, option, value, says):
    with pytest.raises(SystemExit) as end:
        llama.main(["--server", "http://127.0.0.1:1", "--slots", str(tmp_path), "--directory", str(tmp_path), option, value])
    assert end.value.code == 2 and says in capsys.readouterr().err


@pytest.mark.parametrize("whole,part", [
    ({"prompt": "abcdef"}, {"prompt": "abc"}), ({"prompt": [1, 23, 4]}, {"prompt": [1, 23]}),
    ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
     {"messages": [{"content": "a", "role": "user"}]})])
def test_a_beginning_is_known_and_nothing_else_is(whole, part):
    whole, part = llama.Conversation(whole), llama.Conversation(part)
    others = {llama.Conversation({"prompt": [12, 3]}).name, llama.Conversation({"prompt": "abd"}).name, "text-3-x"}
    assert whole.known({part.name, whole.name, *others}) == [whole.name, part.name]
    assert part.known({whole.name, *others}) == []
