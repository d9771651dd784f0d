"""Work beside requests is done at last, whatever went wrong with it before."""

import sqlite3
import threading

import pytest

from streamsvm.service.datasets.importing import Importer
from streamsvm.service.processes.background import Background, Later
from streamsvm.service.records.opening import open_store
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from tests.end_to_end.service import wait_for

PAUSES = (0.01, 0.02)


def refusing(n, done):
    """Raises so often, and then does it."""
    left = iter(range(n))

    def write():
        if next(left, None) is not None:
            raise sqlite3.OperationalError("database or disk is full")
        done.append(threading.current_thread().name)

    return write


def test_what_cannot_be_written_down_is_written_down_later_in_order():
    later, done = Later(PAUSES), []
    later(refusing(0, done))
    assert done == [threading.current_thread().name]
    later(refusing(4, done))
    later(refusing(1, done))
    wait_for(lambda: done[1:] == ["writing-later"] * 2)
    assert later.background.is_there()


def test_what_can_never_be_written_down_does_not_hold_up_the_rest():
    later, done = Later(PAUSES), []
    errors = iter([sqlite3.OperationalError(), ValueError()])

    def write():
        raise next(errors)

    later(write)
    later(refusing(1, done))
    wait_for(lambda: done)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_begun_anew():
    done = []

    def step():
        done.append(1)
        if len(done) == 1:
            raise SystemExit  # no error: it ends the thread
        return len(done) < 3

    background = Background("dying", step, PAUSES)
    background.wake()
    wait_for(lambda: done)
    background.wake()
    assert background.is_there()
    wait_for(lambda: len(done) == 3)


class Forgetful(Store):
    """Takes no outcome of an import until it is told to."""

    is_full = True
    refused = 0

    def _refuse(self):
        if self.is_full:
            self.refused += 1
            raise sqlite3.OperationalError("database or disk is full")

    def fail_dataset(self, *arguments):
        self._refuse()
        super().fail_dataset(*arguments)

    def set_dataset_ready(self, *arguments):
        self._refuse()
        return super().set_dataset_ready(*arguments)


def test_an_import_whose_outcome_cannot_be_recorded_is_not_the_last_one(tmp_path):
    (tmp_path / "good.svm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "bad.svm").write_text("1 x\n")
    settings = Settings(tmp_path / "data", import_dir=tmp_path)
    open_store(settings)
    store = Forgetful(settings.database)
    options = {"format": "libsvm"}
    for name in ("bad", "good"):
        store.add_dataset(name, {"import": f"{name}.svm", "options": options})
    importer = Importer(settings, store, PAUSES)
    importer.wake()
    wait_for(lambda: store.refused >= 3)
    assert importer.background.is_there()
    assert {record["state"] for record in store.datasets()} == {"ingesting"}
    store.is_full = False
    wait_for(lambda: [record["state"] for record in store.datasets()] == ["failed", "ready"])
    assert store.dataset("bad")["failure"]["at"]["line"] == 1
    # The dataset's mark is removed after its record says "ready".
    wait_for(lambda: [path.name for path in settings.datasets.iterdir()] == [store.dataset("good")["id"]])
