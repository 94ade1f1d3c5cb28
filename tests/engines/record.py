"""Records what a real vLLM calls: two lives of an engine, between which a bit is flipped in its files."""
import argparse
import os
import pathlib
import shutil

import cases
import harness
from harness import Engine, make_model, prompt, say

ARGS = {"num_gpu_blocks_override": 12, "max_num_batched_tokens": 128, "max_model_len": 320, "max_num_seqs": 4,
        "block_size": 32, "dtype": "float32"}
KINDS = {"background": {}, "in_step": cases.SYNCHRONOUS}


def record(model, work, file, settings):
    file.unlink(missing_ok=True)
    connector = {**harness.towpath(directory=str(work / "kv"), memory="16MiB", **settings),
                 "kv_connector": "RecordingConnector", "kv_connector_module_path": "recording"}
    here = pathlib.Path(__file__).resolve().parent
    environment = {"TOWPATH_RECORDING": str(file), "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
    shared = prompt(5, 64)
    together = [shared + prompt(60 + i, 30) for i in range(3)]
    with Engine(model, connector, environment, **ARGS) as engine:
        engine.generate([prompt(1, 100)], 20)
        engine.generate([prompt(1, 100)], 3)
        engine.generate(together, 40)
        engine.generate([shared + prompt(70, 9)], 3, salt="tenant")
        assert engine.figures()["preemptions"] > 0, "nothing was preempted"
        engine.sync()
    harness.flip(harness.segments(work / "kv")[0], 2 * 4096 + 999)
    with Engine(model, connector, environment, **ARGS) as engine:
        longer = prompt(1, 100) + prompt(99, 60)  # what is computed upon the failed block must not be kept
        engine.generate([longer], 3)
        assert engine.figures()["worker"]["failed_blocks"] == 1, engine.figures()
        engine.generate([longer, together[1]], 3)
    say(f"{file.name}: {file.stat().st_size:,} bytes")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--work", required=True)
    options.add_argument("--model", required=True)
    options.add_argument("--into", required=True)
    args = options.parse_args()
    work, into = pathlib.Path(args.work), pathlib.Path(args.into)
    for kind, settings in KINDS.items():
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        record(small_model(pathlib.Path(args.model)), work, into / f"vllm_{kind}.jsonl", settings)


def small_model(folder):
    """Two layers are enough for calls."""
    return make_model(folder.with_name(folder.name + "-small"), layers=2)


if __name__ == "__main__":
    main()
