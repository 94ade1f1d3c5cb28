"""Our sidecar beside a real llama-server, of Debian's testing, in a root of its own, with a model of random weights."""
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request

import harness

TURNS, TOKENS = 3, 600


def make_model(path, layers=4, width=256, heads=8, kv_heads=4, inner=512):
    """Ten MiB; its vocabulary is bytes."""
    import gguf
    import numpy
    numbers, made = numpy.random.default_rng(7), gguf.GGUFWriter(str(path), "llama")
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
    kind = gguf.TokenType
    made.add_context_length(4096)
    made.add_embedding_length(width)
    made.add_block_count(layers)
    made.add_feed_forward_length(inner)
    made.add_head_count(heads)
    made.add_head_count_kv(kv_heads)
    made.add_layer_norm_rms_eps(1e-5)
    made.add_rope_dimension_count(width // heads)
    made.add_vocab_size(len(tokens))
    made.add_tokenizer_model("llama")
    made.add_token_list(tokens)
    made.add_token_scores([0.0] * len(tokens))
    made.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256)
    made.add_bos_token_id(1)
    made.add_eos_token_id(2)
    made.add_unk_token_id(0)
    made.add_add_bos_token(False)
    made.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ")

    def random_weights(name, *shape):
        made.add_tensor(name, (0.08 * numbers.standard_normal(shape)).astype(numpy.float32))

    def ones(name):
        made.add_tensor(name, numpy.ones(width, numpy.float32))

    random_weights("token_embd.weight", len(tokens), width)
    random_weights("output.weight", len(tokens), width)
    ones("output_norm.weight")
    of_kv = kv_heads * width // heads
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            ones(f"blk.{layer}.{name}.weight")
        for name, rows, columns in (("attn_q", width, width), ("attn_k", of_kv, width), ("attn_v", of_kv, width),
                                    ("attn_output", width, width), ("ffn_gate", inner, width), ("ffn_up", inner, width),
                                    ("ffn_down", width, inner)):
            random_weights(f"blk.{layer}.{name}.weight", rows, columns)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


def ask(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", None if body is None else json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
        return json.loads(answer.read())


def eventually(process, is_true, why):
    """Asks the program again and again. Between two questions its end is waited for: it has nothing else to wait on."""
    until = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < until, why()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            raise AssertionError(f"{process.args[0]} has ended: {why()}")


@contextlib.contextmanager
def running(words, port, log, path):
    """A program that listens at `port`: its process, killed at the end."""
    with open(log, "w") as output:
        process = subprocess.Popen([str(word) for word in words], stdout=output, stderr=output)
    try:
        def answers():
            with contextlib.suppress(OSError, urllib.error.HTTPError):
                ask(port, path)
                return True

        eventually(process, answers, lambda: log.read_text()[-2000:])
        yield process
    finally:
        process.kill()
        process.wait()


def complete(port, prompt):
    """(the answer's tokens, how many of the prompt's were there already)"""
    said = ask(port, "/completion", {"prompt": prompt, "n_predict": 12, "temperature": 0, "return_tokens": True,
                                     "cache_prompt": True})
    return said["tokens"], said["timings"]["cache_n"]


def chat(port, messages):
    said = ask(port, "/v1/chat/completions", {"messages": messages, "max_tokens": 12, "temperature": 0})
    return said["choices"][0]["message"]["content"], said["timings"]["cache_n"]


class Bench:
    """The programs, with two slots for more conversations."""

    def __init__(self, work, root):
        self.work, self.root, self.shared = work, root, root / "shared"
        (self.shared / "slots").mkdir(parents=True, exist_ok=True)
        make_model(self.shared / "model.gguf")
        self.sidecar = None

    def await_kept(self, port, states):
        """An answer is complete before its state is kept."""
        reported = []

        def is_kept():
            reported.append(ask(port, "/towpath/figures"))
            return reported[-1]["kept"] >= states

        eventually(self.sidecar, is_kept, lambda: reported[-1])
        return reported[-1]

    @contextlib.contextmanager
    def running(self):
        """The port to ask."""
        behind, port = harness.free_port(), harness.free_port()
        server = ["chroot", self.root, "llama-server", "-m", "/shared/model.gguf", "--port", behind, "-np", 2, "-c", 8192,
                  "-t", 1, "--slot-save-path", "/shared/slots"]
        sidecar = [sys.executable, "-m", "towpath.llama", "--server", f"http://127.0.0.1:{behind}", "--port", port,
                   "--slots", self.shared / "slots", "--directory", self.work / "kv"]
        with running(server, behind, self.work / "llama.log", "/props"), \
                running(sidecar, port, self.work / "sidecar.log", "/towpath/figures") as self.sidecar:
            yield port


def llama_server(work):
    """Four conversations in two slots; both programs are killed between turns; a bit is flipped."""
    sys.path.insert(0, os.environ.pop("TOWPATH_LLAMA_SERVER"))
    sys.path.insert(0, str(harness.ROOT / "scripts"))
    import debian_roots
    try:
        root = debian_roots.kept("llama", "forky", ["llama.cpp-tools"], may_lag=True)
    except debian_roots.Missing as why:
        return f"not run: {why}"
    bench, numbers = Bench(work, pathlib.Path(root)), random.Random(3)
    talks = [[numbers.randrange(3, 259) for _ in range(TOKENS)] for _ in range(4)]
    there = computed = 0
    for turn in range(TURNS):
        with bench.running() as port:
            harness.say(f"turn {turn}")
            for talk in talks:
                tokens, cached = complete(port, talk)
                # All but the answer's last token, which was not computed upon, and the user's.
                assert cached == (len(talk) - 41 if turn else 0), (turn, cached, len(talk))
                there, computed = there + cached, computed + len(talk) - cached
                # The answer, and what the user says to it.
                talk += tokens + [numbers.randrange(3, 259) for _ in range(40)]
            figures = bench.await_kept(port, len(talks))
            assert figures["failed"] == 0, figures
    harness.say("a chat, and a bit flipped in each state")
    with bench.running() as port:
        messages = [{"role": "user", "content": "x" * 300}]
        answer, _ = chat(port, messages)
        chat(port, [{"role": "user", "content": "another " * 40}])
        chat(port, [{"role": "user", "content": "a third " * 40}])
        more = [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": "and now?"}]
        again, cached = chat(port, more)
        assert cached > 300 and bench.await_kept(port, 4)["restored"] == 1, f"{cached} tokens were there"
        for blob in (work / "kv").glob("*.blob"):
            harness.flip(blob, blob.stat().st_size // 2)
    with bench.running() as port:
        assert chat(port, more) == (again, 0), "what was damaged is computed, to the same answer"
        figures = ask(port, "/towpath/figures")
        assert figures["damaged"] >= 1 and figures["restored"] == 0, figures
    return (f"4 conversations in 2 slots, both programs killed between turns: {there:,} of {there + computed:,} tokens were there; "
            f"a flipped bit: {figures['damaged']} states refused, the answer identical")
