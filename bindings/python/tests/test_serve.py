"""`towpath serve`: workers of a host keep their blocks in one process."""
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from test_connector import AXES, caches, content, serve

from towpath import _server, errors
from towpath.connector import Peers, Scheduler, Worker

COMMAND = os.environ.get("TOWPATH_COMMAND") or shutil.which("towpath")
pytestmark = pytest.mark.skipif(not COMMAND, reason="there is no command `towpath` (TOWPATH_COMMAND)")
LIMIT_S = 60  # of what never comes


@contextlib.contextmanager
def server(place, *words, stderr=None):
    process = subprocess.Popen([COMMAND, "serve", "--socket", str(place), "--memory", "4MiB", *map(str, words)],
                               stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout.readline().startswith(f"serving at unix:{place}: 4.00 MiB of memory for 1 cache")
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0


def eventually(true):
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def open_worker(place, **more):
    layers = caches()
    return layers, Worker(layers, name_space="m", server=f"unix:{place}", **more)


def found(worker, scheduler):
    scheduler.update(worker.take_report())
    tokens, _ = scheduler.match("peek", range(12))
    scheduler.finish("peek")
    return tokens


def test_what_one_worker_keeps_another_loads(tmp_path):
    part = AXES["outer block token head dim"][1]
    with server(tmp_path / "serve", "--directory", tmp_path / "kv") as process:
        layers, worker = open_worker(tmp_path / "serve")
        with worker:
            eventually(lambda: worker.figures()["peers"] == 1)
            assert serve(Scheduler(4), worker, layers, "first", [0, 1, 2]) == 0
            worker.sync()
        layers, worker = open_worker(tmp_path / "serve")
        with worker:
            scheduler = Scheduler(4)
            eventually(lambda: found(worker, scheduler) == 8)
            assert serve(scheduler, worker, layers, "again", [5, 6, 7]) == 8
            for i in range(2):
                assert numpy.array_equal(part(layers[0], 5 + i), content(i, part(layers[0], 5 + i).shape))
        assert process.poll() is None
    assert process.returncode == 0


def test_a_server_whose_output_nobody_reads_serves_on(tmp_path):
    with server(tmp_path / "serve", "--interval", "0.1") as process:
        process.stdout.close()
        layers, worker = open_worker(tmp_path / "serve")
        with worker:
            eventually(lambda: worker.figures()["peers"] == 1)
            serve(Scheduler(4), worker, layers, "first", [0, 1, 2])
            worker.sync()
            end = time.monotonic() + 0.5  # of which the first table is another one
            while time.monotonic() < end:
                assert process.poll() is None
                worker.sync()
        process.stdout = None


def test_a_refused_engine_is_named_soon_however_seldom_figures_are_printed(tmp_path):
    said = tmp_path / "said"
    with open(said, "w") as output, server(tmp_path / "serve", "--interval", "86400", stderr=output):
        _, worker = open_worker(tmp_path / "serve")
        with worker:
            eventually(lambda: worker.figures()["peers"] == 1)
            with Worker(caches(), name_space="another model", server=f"unix:{tmp_path}/serve"):
                eventually(lambda: "is not served" in said.read_text())
    assert "--caches" in said.read_text()


def test_a_server_takes_all_the_descriptors_it_may(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
    try:
        with server(tmp_path / "serve") as process:
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_first_engine_starts_the_server_and_it_stays(tmp_path):
    wanted = _server.Server(memory=4 << 20, socket=str(tmp_path / "serve"), directory=str(tmp_path / "kv"), caches=2)
    with ThreadPoolExecutor() as engines:
        assert set(engines.map(_server.address_of, [wanted] * 4)) == {f"unix:{tmp_path}/serve"}
    os.kill(_server._process_at(wanted.socket), signal.SIGTERM)
    eventually(lambda: not _server._answers(wanted.socket))
    with pytest.raises(RuntimeError, match="the server did not start .* 1.00 TiB of memory are wanted"):
        _server.address_of(_server.Server(memory=1 << 40, socket=wanted.socket))


def test_a_server_that_an_engine_starts_needs_no_directory(tmp_path):
    wanted = _server.Server(memory=4 << 20, socket=str(tmp_path / "serve"))
    assert _server.address_of(wanted) == f"unix:{tmp_path}/serve"
    os.kill(_server._process_at(wanted.socket), signal.SIGTERM)
    eventually(lambda: not _server._answers(wanted.socket))


def test_a_server_that_says_nothing_is_not_reported_with_an_earlier_one_s_words(tmp_path, monkeypatch):
    (tmp_path / "serve.log").write_text("an earlier server's words\n")
    monkeypatch.setenv("TOWPATH_COMMAND", "/bin/false")
    with pytest.raises(RuntimeError, match="did not start .* status 1, without a word$"):
        _server.address_of(_server.Server(memory=4 << 20, socket=str(tmp_path / "serve")))


def test_a_server_that_neither_answers_nor_ends_has_no_status(tmp_path, monkeypatch):
    command = tmp_path / "mute"
    command.write_text("#!/bin/sh\nexec sleep 10\n")
    command.chmod(0o700)
    monkeypatch.setenv("TOWPATH_COMMAND", str(command))
    monkeypatch.setattr(_server, "_START_S", 0)
    with pytest.raises(RuntimeError, match="did not start .* no answer within 0 s, without a word$"):
        _server.address_of(_server.Server(memory=4 << 20, socket=str(tmp_path / "serve")))


def test_what_is_no_file_of_the_user_s_is_no_log(tmp_path):
    os.mkfifo(tmp_path / "serve.log")
    (tmp_path / "link.log").symlink_to(tmp_path / "elsewhere")
    for name in ("serve", "link"):
        with pytest.raises(OSError, match=f"{name}.log"):
            _server.address_of(_server.Server(memory=4 << 20, socket=str(tmp_path / name)))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("of_files, says", [({"disk": "1TiB"}, "server.disk is '1TiB'"), ({"direct": True}, "server.direct is True")])
def test_a_server_s_table_without_a_directory_has_no_words_of_files(of_files, says):
    with pytest.raises(ValueError, match=f"towpath: {says}, and there is no server.directory"):
        _server.read_server({"memory": "64GiB", **of_files}, "server")
    assert _server.read_server({"memory": "64GiB", "directory": "/kv", **of_files}, "server").directory == "/kv"


def test_a_worker_works_without_its_server(tmp_path):
    layers, worker = open_worker(tmp_path / "serve")
    with worker:
        scheduler = Scheduler(4)
        assert serve(scheduler, worker, layers, "first", [0, 1, 2]) == 0
        assert serve(scheduler, worker, layers, "again", [5, 6, 7]) == 8
        worker.sync()


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(errors.InvalidArgument, match="name the Unix socket"):
        Worker(caches(), name_space="m", server="tcp://10.0.0.1:7")
    with pytest.raises(errors.InvalidArgument, match="name one of the two"):
        Worker(caches(), name_space="m", server=f"unix:{tmp_path}/serve", peers=Peers("scope:m"))
    with server(tmp_path / "serve"):
        second = subprocess.run([COMMAND, "serve", "--socket", str(tmp_path / "serve"), "--memory", "1MiB"],
                                capture_output=True, text=True, timeout=LIMIT_S)
        assert second.returncode == 3 and "another process is at" in second.stderr, second
