"""The engine's tests leave no file open; interrupts work wherever the tests run."""

import gc
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import pytest

from tests import s3 as stores
from tests.disks import mounted_disk

# Until all tests are collected: to look through what is loaded again and again takes a third of that time.
gc.disable()

# The first example of a test may compile a kernel, or load it: a deadline would be one for the machine.
hypothesis.settings.register_profile("tests", deadline=None)
# The same examples every time: a change is not judged by what chance finds. At random they are tried by hand.
hypothesis.settings.register_profile("continuous", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("continuous" if os.environ.get("CI") else "tests")

# In the background of a shell an interrupt is ignored, by us and by every process a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Files of many seconds are not the last ones: those would run beside processes with nothing left to do."""
    items.sort(key=lambda item: "tests/trainer/" not in item.nodeid)


def pytest_collection_finish():
    """What is loaded by now stays. To look through all of it at each collection took a third of the time of tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


CHECKED = {"storage", "reader", "trainer", "contracts"}  # folders, with all below them


def _open_files(base: str) -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return {name for name in found if name.startswith(base)}


@pytest.fixture(autouse=True)
def no_file_left_open(request, tmp_path_factory):
    """A test closes what it opened below the test directory; a failed one's traceback may hold on to it."""
    if request.path.relative_to(Path(__file__).parent).parts[0] not in CHECKED:
        yield
        return
    base = str(tmp_path_factory.getbasetemp().resolve())
    before, failed = _open_files(base), request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        return
    if _open_files(base) - before:
        gc.collect()
        gc.freeze()  # as above: the next collection looks through what its test made
    assert not _open_files(base) - before


@pytest.fixture(autouse=True)
def no_sync(request, monkeypatch):
    """No power is cut here: to wait for the disk took a sixth of the time of what this process reads and trains."""
    if request.path.relative_to(Path(__file__).parent).parts[0] in CHECKED - {"storage"}:
        monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.fixture(scope="session")
def _s3_server():
    with stores.running() as server:
        yield server


@pytest.fixture
def s3(_s3_server, monkeypatch):
    """An object store, empty; this process, and those it starts, find it."""
    _s3_server.reset()
    stores.use(monkeypatch, _s3_server.environment())
    return _s3_server


@pytest.fixture
def small_disk():
    """Gives a directory a disk of its own of so many bytes, until the test ends."""
    with ExitStack() as mounted:
        yield lambda directory, size: mounted.enter_context(mounted_disk(directory, size))
