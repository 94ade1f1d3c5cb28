"""What the tests of engines share: the model, engines in processes, prompts."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHILD = pathlib.Path(__file__).with_name("engine_child.py")
BLOCK = 32  # tokens; 8 layers of 4 heads of 2 * 64 bf16: 512 KiB
VOCABULARY = 8192

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "WARNING", "DO_NOT_TRACK": "1", "PYTHONDONTWRITEBYTECODE": "1",
}


def make_model(folder, layers=8):
    """33.6 million random parameters, with eight layers; once, also where two tests ask for it at a time."""
    if (folder / "config.json").exists():
        return folder
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(1234)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1536, num_hidden_layers=layers,
                         num_attention_heads=8, num_key_value_heads=4, head_dim=64, initializer_range=0.05,
                         max_position_embeddings=8192, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                         dtype="bfloat16")
    made = folder.with_name(f"{folder.name}.{os.getpid()}")
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(made)
    with contextlib.suppress(OSError):  # the other test was sooner
        made.rename(folder)
    shutil.rmtree(made, ignore_errors=True)
    return folder


def segments(directory):
    """The files of blocks below a connector's directory, the first that was written first."""
    return sorted(directory.glob("*/segment-*"))


def flip(path, place, bit=4):
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))


def towpath(**extra):
    """A kv_transfer_config with our connector. It loads what it has, whatever that costs beside a model so small."""
    extra = {"load": "always", **extra}
    return {"kv_connector": "TowpathConnector", "kv_connector_module_path": "towpath.vllm", "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute", "kv_connector_extra_config": extra}


def nixl(role, port):
    return {"environment": {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port)},
            "connector": {"kv_connector": "NixlConnector", "kv_role": role, "kv_buffer_device": "cpu",
                          "kv_load_failure_policy": "recompute"}}


def multi(children):
    """A kv_transfer_config with vLLM's MultiConnector, of several."""
    return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"connectors": children}}


ASK = {"kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
                              "remote_block_ids": None, "remote_host": None, "remote_port": None}}


class Server:
    """A `towpath serve` at `socket`, with files in `directory`. `with` ends it; kill() does what its name says."""

    def __init__(self, socket, directory, memory="1GiB", caches=1):
        self.process = subprocess.Popen(
            [str(ROOT / "build" / "release" / "tools" / "towpath"), "serve", "--socket", str(socket), "--memory", memory,
             "--directory", str(directory), "--caches", str(caches), "--interval", "1"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().startswith("serving at"), self.process.wait()

    def await_written(self, blocks):
        """Until its files have so many, as its table says."""
        for line in self.process.stdout:
            cells = re.split(r"\s{2,}", line.strip())
            if cells[0].startswith("kv-") and int(cells[7].replace(",", "")) >= blocks:
                return
        raise EngineDied(f"the server ended with {self.process.wait()}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def spent_by(stat):
    """The session of a process, and its processor seconds until now (proc_pid_stat(5): fields 6, 14 and 15)."""
    _, _, behind_name = stat.read_text().rpartition(")")
    fields = behind_name.split()
    return int(fields[3]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class EngineDied(Exception):
    pass


class Engine:
    """An engine_child.py. `with` closes it; kill() does what its name says."""

    def __init__(self, model, connector=None, environment=None, log=None, **args):
        from_here, to_child = os.pipe()
        from_child, to_here = os.pipe()
        args = {"max_model_len": 4096, "block_size": BLOCK, "max_num_batched_tokens": 4096,
                "enable_prefix_caching": False, **args}
        config = {"model": str(model), "connector": connector, "args": args}
        self.ended = False
        with open(log, "w") if log else contextlib.nullcontext(sys.stderr) as output:
            self.process = subprocess.Popen(
                [sys.executable, str(CHILD), str(from_here), str(to_here), json.dumps(config)],
                env={**os.environ, **ENVIRONMENT, **(environment or {})}, pass_fds=(from_here, to_here), stdout=output,
                stderr=output)
        os.close(from_here)
        os.close(to_here)
        self._commands, self._answers = os.fdopen(to_child, "w"), os.fdopen(from_child)
        self._read()

    def _read(self):
        line = self._answers.readline()
        if not line:
            raise EngineDied(f"the engine ended with {self.process.wait()}")
        return json.loads(line)

    def __getattr__(self, name):

        def call(**order):
            self._commands.write(json.dumps({"do": name, **order}) + "\n")
            self._commands.flush()
            return self._read()

        return call

    def generate(self, prompts, max_tokens=16, **more):
        return self.__getattr__("generate")(prompts=prompts, max_tokens=max_tokens, **more)

    def processor_seconds(self):
        return spent_by(pathlib.Path("/proc", str(self.process.pid), "stat"))[1]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None and not self.ended:
            self.stop()
        elif not self.ended:
            self.kill()

    def stop(self):
        self.ended = True
        self.__getattr__("close")()
        code = self.process.wait(timeout=120)
        assert code == 0, f"the engine ended with {code}"

    def kill(self):
        self.ended = True
        self.process.kill()
        self.process.wait()


def one_by_one(engine, prompts, **more):
    answers = [engine.generate([one], **more) for one in prompts]
    return [answer["tokens"][0] for answer in answers], [answer["cached"][0] for answer in answers]


def beside(what, ours, theirs, rival):
    """Speeds taken in turns, in GB/s: our median, and how many times theirs."""
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    return (f"{what} {statistics.median(ours):.2f} GB/s, {statistics.median(ratios):.1f} times `{rival}` "
            f"({ratios[0]:.1f} to {ratios[-1]:.1f})")


def free_port():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def prompt(seed, length):
    numbers = random.Random(seed)
    return [numbers.randrange(10, VOCABULARY) for _ in range(length)]


def say(text):
    """A line of progress: a test that says nothing for long is ended."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
