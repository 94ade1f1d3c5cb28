"""What the tests of foreign crates share: cargo, and a copy of a crate that can be built."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

TIMEOUT_S = 1800  # of a build and its tests on a busy machine; what hangs is not waited for


class CannotRun(Exception):
    """Nothing was proven; the text says why."""


def cargo(*words, cwd, env=None, check=True):
    try:
        return subprocess.run(["cargo", *words], cwd=cwd, env=env, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=check, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"cargo {words[0]} did not end within {TIMEOUT_S} s") from None
    except FileNotFoundError:
        raise CannotRun("cargo is not installed: Rust 1.85 or newer is needed") from None


def fetch(crate, wanted, work):
    """Fetches the crate, as cargo's words ask for a version, and what it needs; returns its version and a copy of
    it that can be built."""
    asking = work / f"fetch-{re.sub(r'[^0-9A-Za-z.]+', '-', f'{crate}-{wanted}')}"
    asking.mkdir(parents=True, exist_ok=True)
    (asking / "Cargo.toml").write_text(
        f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "empty.rs"\n'
        f'[dependencies]\n{crate} = "{wanted}"\n[workspace]\n')
    (asking / "empty.rs").write_text("")
    (asking / "Cargo.lock").unlink(missing_ok=True)
    done = cargo("fetch", cwd=asking, check=False)
    if done.returncode != 0:
        raise CannotRun(f"no crate registry can be reached for {crate} {wanted}:\n{done.stdout.strip()}")
    found = cargo("metadata", "--format-version", "1", "--offline", "-q", cwd=asking)
    packages = json.loads(found.stdout[found.stdout.index("{"):])["packages"]
    package = next(one for one in packages if one["name"] == crate)
    copy = work / f"{crate}-{package['version']}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(Path(package["manifest_path"]).parent, copy)
    return package["version"], copy


def without_nixl(args, store=None):
    """What builds and tests of crates see: no NIXL to link, no CUDA, our libnixl_capi.so on the loader's path, and an
    etcd where one runs."""
    if not (args.library / "libnixl_capi.so").exists():
        raise CannotRun(f"no libnixl_capi.so in {args.library}")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NIXL_", "TOWPATH_", "CUDA_"))}
    env.update(NIXL_PREFIX=str(args.work / "no-nixl-here"), NIXL_LOG_LEVEL="FATAL", LD_LIBRARY_PATH=str(args.library))
    if store:
        env["NIXL_ETCD_ENDPOINTS"] = f"http://{store}"
    return env


def run_suite(name, folder, work, *, env, options=(), left_out=(), apart=False):
    """True when the suite of the crate in `folder` passed; prints what it came to. `left_out`: test -> why. `apart`: each
    test in a process of its own."""
    if apart:
        env = {**env, "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER": str(Path(__file__).parent / "apart.py")}
    skips = [word for test in left_out for word in ("--skip", test)]
    # Not in the crate's folder: it names a toolchain there that need not be installed.
    done = cargo("test", "--manifest-path", str(folder / "Cargo.toml"), "--no-fail-fast", "--tests", "--lib", *options,
                 "--", "--test-threads=1", *skips, cwd=work, env={**env, "CARGO_TARGET_DIR": str(work / f"target-{name}")},
                 check=False)
    log = work / f"{name}.log"
    log.write_text(done.stdout)
    counts = re.findall(r"test result: \w+\. (\d+) passed; (\d+) failed", done.stdout)
    passed, failed = (sum(int(pair[i]) for pair in counts) for i in (0, 1))
    for test in sorted(set(re.findall(r"^    (\w[\w:]*)$", done.stdout, re.M))):
        print(f"  FAILED {test}")
    if not counts:
        print(done.stdout[-3000:])
    print(f"  {passed} passed, {failed} failed; all of it: {log}")
    for line in re.findall(r"^left out: .*", done.stdout, re.M):
        print(f"  {line}")
    for test, why in dict(left_out).items():
        print(f"  left out: {test}: {why}")
    return done.returncode == 0 and passed > 0
