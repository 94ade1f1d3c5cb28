"""What the tests share: pairs of agents that know each other."""
import faulthandler
import itertools
import logging
import os
import shutil
import sys

import pytest

import towpath

_numbers = itertools.count()
_terminal = []


def pytest_configure():
    _terminal.append(os.dup(2))  # later what a test writes there is caught


class Pair:
    """Agent `mine` has loaded the metadata of `theirs`, whose memory was registered before."""

    def __init__(self, backend="shm"):
        number = next(_numbers)
        self.mine = towpath.Agent(f"mine-{number}", [backend])
        self.theirs = towpath.Agent(f"theirs-{number}", [backend])

    def meet(self):
        self.mine.load_metadata(self.theirs.metadata())
        self.theirs.load_metadata(self.mine.metadata())


@pytest.fixture(autouse=True)
def watchdog():
    """A hang says where. Each test has the time, however many there are and however busy the machine is."""
    faulthandler.dump_traceback_later(240, exit=True, file=_terminal[0])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def switch_interval():
    """`switch_interval(seconds)`: after that long a thread is made to give up the interpreter's lock, until the test ends."""
    before = sys.getswitchinterval()
    yield sys.setswitchinterval
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def no_files_are_left(request):
    """A store takes 256 MiB of the disk at its first block, and pytest keeps the folders of three runs."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def pair():
    both = Pair()
    yield both
    both.mine.close()
    both.theirs.close()


@pytest.fixture
def alone():
    with towpath.Agent(f"alone-{next(_numbers)}", ["shm", "posix"]) as agent:
        yield agent


@pytest.fixture
def log_lines():
    """What is logged below "nixl", as it comes."""
    lines = []

    class Collector(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger, collector = logging.getLogger("nixl"), Collector()
    logger.addHandler(collector)
    yield lines
    logger.removeHandler(collector)
