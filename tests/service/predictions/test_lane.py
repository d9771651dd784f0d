"""The lane of predictions goes on, whatever fails: the store, the disk, a process, a record."""

import errno
import json
import os
import sqlite3

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.predictions import process
from streamsvm.service.predictions.process import ASKED, FAILED, RESULT, predict
from streamsvm.service.predictions.spec import parse_prediction
from streamsvm.service.processes import predictions as lanes
from streamsvm.service.processes.background import Later
from streamsvm.service.processes.predictions import PredictionWork
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from tests.end_to_end.service import wait_for

FIGURES = {"rows": 3, "bytes": 9, "total_bytes": 9, "unknown_features": 0}


class Child:
    """A process that ends when it is told to."""

    code = None

    def poll(self):
        return self.code

    def kill(self):
        self.code = self.code if self.code is not None else -9

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Bench:
    """A store, a lane whose processes are children of the test, and a clock.

    refusals  errors that the next starts of a process raise
    """

    def __init__(self, directory):
        self.settings = Settings(directory / "data", directory, export_dir=directory)
        self.settings.create_directories()
        self.store = Store(self.settings.database)
        self.store.later = Later((0.01, 0.01))
        self.store.adopt_model("mdl_1", "then")
        self.now, self.children, self.refusals = 0.0, [], []
        self.lane = self.another()

    def another(self):
        return PredictionWork(self.settings, self.store, clock=lambda: self.now)

    def fork(self, command, _files):
        if self.refusals:
            raise self.refusals.pop()
        self.children.append(Child())
        self.last = command[-1]
        return self.children[-1]

    def submit(self, **more):
        asked = {"model": "m", "import": "in.csv", "destination": "out.csv", **more}
        return self.store.add_prediction("mdl_1", parse_prediction(asked).model_dump(by_alias=True))

    def step(self, times=1):
        for _ in range(times):
            self.lane.step()

    def end(self, code=0, result=FIGURES):
        """End the process that runs, and look."""
        if result is not None:
            (self.settings.predictions / self.last / RESULT).write_text(json.dumps(result))
        self.children[-1].code = code
        self.step()

    def state(self, prediction):
        return self.store.job(prediction, "prediction")["state"]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    monkeypatch.setattr(lanes, "fork", bench.fork)
    return bench


def refusing(monkeypatch, name, times):
    """An operation of the store fails so many times."""
    operation, left = getattr(Store, name), times * [sqlite3.OperationalError("database or disk is full")]

    def refuse(self, *arguments, **options):
        if left:
            raise left.pop()
        return operation(self, *arguments, **options)

    monkeypatch.setattr(Store, name, refuse)


@pytest.mark.parametrize(("operation", "code", "result", "state"), [
    ("finish", 0, FIGURES, "succeeded"),
    ("requeue", -11, None, "queued"),
])  # fmt: skip
def test_an_end_that_cannot_be_recorded_is_later(bench, monkeypatch, operation, code, result, state):
    first = bench.submit()
    bench.step()
    refusing(monkeypatch, operation, 3)
    bench.end(code, result)
    assert bench.state(first) == "running" and len(bench.children) == 1
    wait_for(lambda: bench.state(first) == state)
    assert bench.store.job(first, "prediction")["crashes"] == (code != 0)


def test_a_prediction_that_cannot_be_begun_nor_put_back_is_put_back_later(bench, monkeypatch):
    first = bench.submit()
    bench.refusals, _ = [ValueError("no")], refusing(monkeypatch, "requeue", 2)
    bench.step()
    assert bench.state(first) == "running" and not bench.children
    wait_for(lambda: bench.state(first) == "queued")
    bench.step()
    assert bench.state(first) == "running" and len(bench.children) == 1
    bench.end()
    assert bench.state(first) == "succeeded"


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_lack_is_waited_for(bench, number):
    """It is no crash, and no reason to try ten times a second."""
    first = bench.submit()
    bench.refusals = [OSError(number, os.strerror(number)) for _ in range(6)]
    bench.step(100)
    assert len(bench.refusals) == 5
    for _ in range(5):
        bench.now += 40
        bench.step()
    assert (bench.state(first), bench.store.job(first, "prediction")["crashes"]) == ("queued", 0)
    bench.now += 61
    bench.step()
    assert bench.state(first) == "running"


def test_a_full_disk_is_told_though_its_word_found_no_room(bench, monkeypatch):
    first = bench.submit()
    bench.step()
    monkeypatch.setattr(process, "predict", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    monkeypatch.setattr(process, "leave_word", lambda directory, *_: (directory / "failure.json").touch())
    monkeypatch.setattr("os.nice", lambda _: 0)
    bench.end(process.main(str(bench.settings.data_dir), first), None)
    failure = bench.store.job(first, "prediction")["failure"]
    assert failure["code"] == "out_of_space" and failure["hint"]


@pytest.mark.parametrize("damage", ["spec = '{'", "spec = '{\"destination\": 3}'", "spec = '3'"])
def test_a_record_that_cannot_be_read_costs_itself(bench, damage):
    bad, next_one = bench.submit(), bench.submit()
    with bench.store._database.write() as connection:
        connection.execute(f"UPDATE predictions SET {damage} WHERE id = ?", (bad,))
    bench.step()
    for _ in range(bench.settings.max_crashes):
        bench.end(FAILED, None)
    assert (bench.state(bad), bench.store.job(bad, "prediction")["failure"]["code"]) == ("failed", "crash_loop")
    bench.end()
    assert bench.state(next_one) == "succeeded"


@pytest.mark.parametrize("text", [None, "", "[]", "{"])
def test_a_process_without_a_result_has_crashed(bench, text):
    first = bench.submit()
    bench.step()
    if text is not None:
        (bench.settings.predictions / first / RESULT).write_text(text)
    bench.end(result=None)
    again = bench.store.job(first, "prediction")
    assert (again["state"], again["crashes"], again["attempt"]) == ("running", 1, 2)
    bench.end()
    assert bench.state(first) == "succeeded"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_a_prediction_left_that_is_cancelled_while_it_waits_goes(bench, is_deleted):
    first = bench.submit()
    bench.step()
    unfinished = bench.settings.export_dir / f".out.csv.{first}"
    unfinished.write_bytes(b"half")
    bench.lane.shutdown()
    assert bench.state(first) == "queued" and unfinished.exists()
    bench.store.request(first, "cancel", "prediction")
    if is_deleted:
        bench.store.delete_work(first, "prediction")
    bench.lane = bench.another()
    bench.lane.recover()
    assert not unfinished.exists() and not list(bench.settings.predictions.iterdir())


@pytest.mark.parametrize("kind", ["job", "prediction"])
def test_a_record_is_claimed_and_read_or_neither(bench, monkeypatch, kind):
    """Else it would be recorded as running, with nobody who runs it."""
    dataset = bench.store.add_dataset("data")
    bench.store.set_dataset_ready(dataset)
    made = bench.submit() if kind == "prediction" else bench.store.add_job(dataset, {})
    with monkeypatch.context() as patch:
        error = sqlite3.OperationalError("unable to open database file")
        patch.setattr(Store, "job", lambda *_: (_ for _ in ()).throw(error))
        claimed = bench.store.claim(made, kind)
    assert claimed["id"] == made and claimed["state"] == "running"


def test_two_predictions_into_one_file_do_not_replace_each_other(bench, monkeypatch):
    """The second was submitted before the first had made it. A later attempt may find the file of its own."""
    (bench.settings.export_dir / "out.csv").write_text("of another")
    monkeypatch.setattr("streamsvm.service.predictions.process.read_model", lambda *_: None)
    monkeypatch.setattr("streamsvm.service.predictions.process.Predictor", lambda _: None)
    for attempt, overwrite, code in ((1, False, "destination_exists"), (1, True, "goes on"), (2, False, "goes on")):
        monkeypatch.setattr(
            "streamsvm.service.predictions.process.sources_of",
            lambda *_: (_ for _ in ()).throw(ServiceError("goes on", "")),
        )
        asked = {"model": "m", "import": "in.csv", "destination": "out.csv", "overwrite": overwrite}
        text = json.dumps({"spec": asked, "model_id": "mdl_1", "attempt": attempt})
        (bench.settings.export_dir / ASKED).write_text(text)
        with pytest.raises(ServiceError) as error:
            predict(bench.settings, bench.settings.export_dir)
        assert error.value.code == code
