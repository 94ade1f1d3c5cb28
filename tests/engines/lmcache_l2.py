"""LMCache's own conformance and speed tests of an L2 adapter, on ours and, in turns with it, on LMCache's `fs`."""
import json
import os
import shutil
import subprocess
import sys

from harness import beside, say

ROUNDS = 5
CHECK = """
import asyncio, sys
from lmcache.v1.check.check_mode_test_l2_adapter import run_test_mode
asyncio.run(run_test_mode("a/model", l2_adapter=[sys.argv[1]], num_keys=16))
"""


def _run(*words, more=120):
    path = f"{os.environ['TOWPATH_LMCACHE']}:{os.environ['PYTHONPATH']}"
    done = subprocess.run([sys.executable, *map(str, words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=more, env={**os.environ, "PYTHONPATH": path, "LMCACHE_TRACK_USAGE": "false"})
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def _bench(work, adapter):
    """Store and load of 64 chunks of 1 MiB, verified; in MB/s."""
    result = work / "result.json"
    said = _run(f"{os.environ['TOWPATH_LMCACHE']}/bin/lmcache", "bench", "l2", "--num-keys", 64, "--data-size-kb", 1024,
                "--rounds", 3, "--no-skip-verify", "--lookup-max-hit-rate", 1, "--format", "json", "--output", result,
                "--l2-adapter", adapter)
    assert "All 64 keys data verified OK" in said, said[-3000:]
    figures = {one["operation"]: one for one in json.loads(result.read_text())["metrics"].values() if "operation" in one}
    for operation in ("Store", "Lookup", "Load"):
        assert figures[operation]["total_success"] == 3 * 64, figures[operation]
    return figures["Store"]["throughput_avg_mbps"], figures["Load"]["throughput_avg_mbps"]


def lmcache(work):
    """No engine runs: LMCache's way from vLLM to its server asks for a GPU."""
    folders = {name: work / name for name in ("towpath", "fs")}
    adapters = {
        "towpath": json.dumps({"type": "native_plugin", "module_path": "towpath.lmcache", "class_name": "TowpathL2",
                               "adapter_params": {"directory": str(folders["towpath"]), "disk": "4GiB"}}),
        "fs": json.dumps({"type": "fs", "base_path": str(folders["fs"])})}
    said = _run("-c", CHECK, adapters["towpath"])
    assert "FAIL" not in said and "Failed" not in said and "16/16 found" in said and "16/16 correctly absent" in said, said
    say("LMCache's check is good")
    speeds = {name: [] for name in adapters}
    for _ in range(ROUNDS):
        for name, adapter in adapters.items():
            shutil.rmtree(folders[name], ignore_errors=True)
            folders[name].mkdir()
            speeds[name].append(_bench(work, adapter))
    parts = [beside(what, *([pair[which] / 1000 for pair in speeds[name]] for name in adapters), "fs")
             for which, what in enumerate(("store", "load"))]
    return f"LMCache's check good; 64 chunks of 1 MiB, verified: {'; '.join(parts)}"
