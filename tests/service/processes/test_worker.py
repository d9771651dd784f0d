"""Whatever goes wrong with a job, at any step that its worker takes, costs that job; the next one runs."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from contextlib import contextmanager
from itertools import cycle
from pkgutil import resolve_name

import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.processes.worker import Worker
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import pack, unpack
from tests.contracts.problems import libsvm_text, random_problem

MOST = 2
PLAIN = {"max_passes": 2}
ENDLESS = {"max_passes": 1_000_000, "relative_gap": None}
FOLDS = {"max_passes": 2, "folds": 2, "C": [0.5, 1.0], "probability": "sigmoid"}
# One after the other.
LANES = {"max_passes": 2, "folds": 2, "solver": "bm", "pace": "fixed", "cache_bytes": 1 << 17}
# Where a job passes before it has ended, each in a module that calls it by this name.
STEPS = (
    "processes.jobs.inherit", "processes.jobs.make_directory", "processes.jobs.drop_unsound",
    "processes.jobs.abouts_of", "processes.jobs.JobWork._plan", "processes.jobs.JobWork._start",
    "jobs.plan.plan.read_spec", "jobs.plan.plan.read_manifest", "processes.jobs.note_rows",
    "processes.jobs.launch", "processes.launch.prepare_run", "processes.jobs.keep_history",
    "processes.run.ProcessRun.start", "processes.run.ProcessRun.poll", "processes.run.ProcessRun.results",
)  # fmt: skip
ENDS = (
    "jobs.lanes.runner.lane_outcome", "jobs.lanes.runner.keep_outcomes", "jobs.lanes.runner.abouts_of",
    "jobs.lanes.runner.outcome_of", "jobs.lanes.runner.cross_validation", "jobs.lanes.outcome.job_result",
    "processes.jobs.publish", "processes.jobs.last_passes", "processes.jobs.progress",
    "processes.jobs.sync", "processes.jobs.publish_models",
)  # fmt: skip
# What comes when it is settled already.
AFTER = ("processes.jobs.settle_lanes", "processes.run.ProcessRun.close")
ENVIRONMENT = {**os.environ, "STREAMSVM_MAX_CRASHES": "1"}
ERRORS = (ValueError, MemoryError, RecursionError, KeyboardInterrupt, SystemExit, OSError, KeyError, AssertionError)


@pytest.fixture
def settings(tmp_path):
    made = Settings.from_environment(tmp_path / "data")
    made = type(made)(**{**vars(made), "max_crashes": MOST, "cache_dir": tmp_path})
    made.create_directories()
    return made


@pytest.fixture
def store(settings):
    store = Store(settings.database)
    dataset_id = store.add_dataset("data")
    ingest([libsvm_text(*random_problem(60, 8))], settings.datasets / dataset_id, InputOptions("libsvm"), threads=1)
    store.set_dataset_ready(dataset_id)
    return store


@contextmanager
def working(settings):
    worker = Worker(settings)
    try:
        yield worker
    finally:
        worker.shutdown()


def submitted(store, **fields):
    return store.add_job(store.dataset("data")["id"], parse_spec({"dataset": "data", **fields}).model_dump())


def seen_to(worker, store, *job_ids, seconds=60):
    """Their records once all have ended."""
    end = time.monotonic() + seconds
    while any(TRANSITIONS[store.job(job_id)["state"]] for job_id in job_ids):
        assert time.monotonic() < end, [store.job(job_id)["transitions"] for job_id in job_ids]
        worker.step()
        time.sleep(0.005)
    return [store.job(job_id) for job_id in job_ids]


@contextmanager
def poisoned(monkeypatch, step, error):
    """A step that ends in this error until the block is left."""

    def fail(*_args, **_options):
        raise error("poison")

    with monkeypatch.context() as patch:
        patch.setattr(f"streamsvm.service.{step}", fail)
        yield


@pytest.mark.parametrize(("steps", "fields"), [(STEPS, PLAIN), (ENDS, FOLDS)], ids=["begin", "end"])
def test_an_error_at_a_step_ends_the_job_and_the_next_one_runs(settings, store, monkeypatch, steps, fields):
    with working(settings) as worker:
        for step, error in zip(steps, cycle(ERRORS)):
            with poisoned(monkeypatch, step, error):
                (failed,) = seen_to(worker, store, submitted(store, **fields))
            failure = failed["failure"]
            assert (step, failed["state"], failure["code"]) == (step, "failed", "crash_loop")
            assert failed["attempt"] == MOST
            assert f"{error.__name__}" in failure["message"] and "poison" in failure["log_tail"], step
        (well,) = seen_to(worker, store, submitted(store, **fields))
    assert well["state"] == "succeeded", well["failure"]
    assert {path.name for path in settings.models.iterdir()} == {model["id"] for model in store.models()}
    assert not list(settings.cache_dir.glob("streamsvm-*"))


@pytest.mark.parametrize("step", AFTER)
def test_an_error_after_the_end_changes_nothing(settings, store, monkeypatch, step):
    with working(settings) as worker:
        with poisoned(monkeypatch, step, ValueError):
            (first,) = seen_to(worker, store, submitted(store, **FOLDS))
        (second,) = seen_to(worker, store, submitted(store, **PLAIN))
    assert [first["state"], second["state"]] == ["succeeded"] * 2


@pytest.mark.parametrize(
    "step", [f"processes.jobs.{name}" for name in ("newest_lane", "newest_checkpoint", "log_tail")]
)
def test_an_error_in_what_sees_to_errors(settings, store, monkeypatch, step):
    with (
        working(settings) as worker,
        poisoned(monkeypatch, step, MemoryError),
        poisoned(monkeypatch, "processes.jobs.publish_models", ValueError),
    ):
        (failed,) = seen_to(worker, store, submitted(store, **PLAIN))
    assert (failed["state"], failed["attempt"]) == ("failed", MOST)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_an_end_that_cannot_be_recorded_is_later(settings, store, monkeypatch, is_recorded):
    """The store refuses, before or after it has written; other jobs run meanwhile, and no model stays behind."""
    finish = Store.finish

    def refuse(self, *arguments, **columns):
        if is_recorded:
            finish(self, *arguments, **columns)
        raise OSError(5, "the disk failed")

    with working(settings) as worker:
        first = submitted(store, **PLAIN)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "finish", refuse)
            patch.setattr(Store, "requeue", refuse)
            end = time.monotonic() + 60
            while not (log := settings.jobs / first / "log").exists() or "the disk failed" not in log.read_text():
                assert time.monotonic() < end
                worker.step()
        ended, second = seen_to(worker, store, first, submitted(store, **PLAIN))
    assert [ended["state"], second["state"]] == ["succeeded"] * 2
    assert {path.name for path in settings.models.iterdir()} == {model["id"] for model in store.models()}


@pytest.mark.parametrize("damage", ["spec = '{'", "spec = '3'", "transitions = ''", "spec = CAST(x'ff7b' AS TEXT)"])
def test_a_record_that_cannot_be_read_costs_itself(settings, store, damage):
    bad = submitted(store, **PLAIN)
    with store._database.write() as connection:
        connection.execute(f"UPDATE jobs SET {damage} WHERE id = ?", (bad,))
    with working(settings) as worker:
        first, second = seen_to(worker, store, bad, submitted(store, **PLAIN))
    assert second["state"] == "succeeded"
    assert first["state"] == ("succeeded" if "transitions" in damage else "failed")
    assert {record["id"] for record in store.jobs()} == {first["id"], second["id"]}


def spoil_held_out(lane, length):
    path = lane / "held_out.npz"
    path.write_bytes(path.read_bytes()[:length])


DAMAGE = {
    "held_out-empty": lambda lane: spoil_held_out(lane, 0),
    "held_out-cut": lambda lane: spoil_held_out(lane, 300),
    "held_out-gone": lambda lane: (lane / "held_out.npz").unlink(),
    "record-empty": lambda lane: (lane / "model" / "model.json").write_bytes(b""),
    "weights-cut": lambda lane: (lane / "model" / "w.npy").write_bytes(b"\x93NUMPY"),
}


@pytest.fixture
def whole(settings, store):
    """The figures of folds that nothing disturbed."""
    with working(settings) as worker:
        (ended,) = seen_to(worker, store, submitted(store, **LANES))
    return ended["result"]["cv"]


@pytest.mark.parametrize(
    ("is_seen_at_once", "kind"), [*((True, kind) for kind in DAMAGE), (False, "held_out-cut"), (False, "record-empty")]
)
def test_a_lane_whose_files_are_damaged_is_trained_again(settings, store, whole, is_seen_at_once, kind):
    """A power cut may leave that. The worker finds it when it takes the job up, or when all lanes are done."""
    job = submitted(store, **LANES)
    lane, done = settings.jobs / job / "lanes" / "0001", 0
    with working(settings) as worker:
        while done < 2:
            worker.step()
            done = len(list((settings.jobs / job).glob("lanes/*/model")))
        if not is_seen_at_once:
            DAMAGE[kind](lane)
            seen_to(worker, store, job)
    if is_seen_at_once:
        DAMAGE[kind](lane)
        with working(settings) as worker:
            seen_to(worker, store, job)
    ended = store.job(job)
    assert ended["state"] == "succeeded", ended["failure"]
    assert ended["result"]["cv"] == whole
    assert [step.get("reason") for step in ended["transitions"]].count("lane_corrupt") == (not is_seen_at_once)


def test_lanes_whose_rows_an_earlier_version_dealt_otherwise_are_trained_anew(settings, store, whole):
    job = submitted(store, **LANES)
    directory = settings.jobs / job
    with working(settings) as worker:
        while not (directory / "lanes" / "0001" / "model").exists():
            worker.step()
    note = directory / "rows.json"
    note.write_bytes(pack({"runs": unpack(note.read_bytes(), 1, "note", "")["runs"]}, 1))
    with working(settings) as worker:
        (ended,) = seen_to(worker, store, job)
    assert ended["state"] == "succeeded" and ended["result"]["cv"] == whole
    assert "folds_dealt_anew" in [step.get("reason") for step in ended["transitions"]]


def test_a_signal_at_a_step_of_a_job_counts_too(settings, store):
    """One that nothing can catch; the worker is started anew each time, as its keeper does."""
    job, other = submitted(store, **PLAIN), submitted(store, **PLAIN)
    program = f"""
import os, pathlib, signal, sys
from streamsvm.service.processes import jobs, worker
publish = jobs.publish_models
def die(settings, dataset_id, outcome):
    for record in worker.open_store(settings).jobs("running"):
        if record["id"] == {job!r}:
            os.kill(os.getpid(), signal.SIGSEGV)
    return publish(settings, dataset_id, outcome)
jobs.publish_models = die
sys.exit(worker.main(pathlib.Path(sys.argv[1])))
"""
    deaths, end = 0, time.monotonic() + 120
    while TRANSITIONS[store.job(other)["state"]]:
        assert time.monotonic() < end
        with subprocess.Popen([sys.executable, "-c", program, settings.data_dir], env=ENVIRONMENT) as child:
            while child.poll() is None and TRANSITIONS[store.job(other)["state"]] and time.monotonic() < end:
                time.sleep(0.05)
            child.terminate()
        deaths += child.returncode == -signal.SIGSEGV
    ended = store.job(job)
    # Once beside the other, which could have been the cause, and once alone.
    assert (deaths, ended["state"], ended["failure"]["code"]) == (2, "failed", "crash_loop")
    assert store.job(other)["state"] == "succeeded"


def test_what_kills_whoever_sees_to_a_job_is_not_looked_at_for_ever(settings, store):
    """A worker that dies while it sees to a job that another one died with counts, too."""
    job = submitted(store, **PLAIN)
    store.claim()
    program = """
import os, pathlib, signal, sys
from streamsvm.service.processes import run_directories as directories, worker
directories.RunDirectories.trained_seconds = lambda *_: os.kill(os.getpid(), signal.SIGBUS)
worker.main(pathlib.Path(sys.argv[1]))
"""
    command = [sys.executable, "-c", program, settings.data_dir]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == -signal.SIGBUS
    once = type(settings)(**{**vars(settings), "max_crashes": 1})
    with working(once) as worker:
        (ended,) = seen_to(worker, store, job)
    assert ended["failure"]["code"] == "crash_loop" and "worker ended" in ended["failure"]["message"]


def test_jobs_that_ended_long_ago_cost_a_worker_little(settings, store):
    """It asks for states, not for records; lanes that a job left are settled as ever."""
    job, dataset = submitted(store, **PLAIN), store.dataset("data")["id"]
    store.claim()
    store.finish(job, "failed")
    lane = settings.jobs / job / "lanes" / "0000"
    (lane / "model").mkdir(parents=True)
    columns = (dataset, "{}", "succeeded", "then", "[]", json.dumps({"lanes": [{"C": 1.0}] * 5000}))
    with store._database.write() as connection:
        connection.executemany(
            "INSERT INTO jobs (id, dataset_id, spec, state, created_at, transitions, result) VALUES (?,?,?,?,?,?,?)",
            [(f"job_{number:026}", *columns) for number in range(500)],
        )
    tracemalloc.start()
    with working(settings):
        _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert not (lane / "model").exists()


def test_a_worker_does_not_end_because_the_disk_is_too_full_to_begin_a_job(settings, store, monkeypatch, caplog):
    claim, refusals = Store.claim, 3 * [sqlite3.SQLITE_FULL]
    job = store.add_job(store.dataset("data")["id"], parse_spec({"dataset": "data", **PLAIN}).model_dump())

    def refusing(own, key, kind):
        if not refusals:
            return claim(own, key, kind)
        error = sqlite3.OperationalError("refused")
        error.sqlite_errorcode = refusals.pop()
        raise error

    monkeypatch.setattr(Store, "claim", refusing)
    with working(settings) as worker:
        for _ in range(3):
            worker.step()
        assert store.job(job)["state"] == "queued"
        assert [line.message for line in caplog.records].count("no job is begun while the disk is full") == 1
        refusals.append(sqlite3.SQLITE_CORRUPT)
        with pytest.raises(sqlite3.OperationalError):
            worker.step()
        worker.step()
        assert store.job(job)["state"] == "running"


def test_a_short_job_ends_beside_a_long_one(settings, store):
    with working(settings) as worker:
        long, short, third = submitted(store, **ENDLESS), submitted(store, **PLAIN), submitted(store, **ENDLESS)
        (ended,) = seen_to(worker, store, short)
        assert ended["state"] == "succeeded", ended["failure"]
        assert store.job(long)["state"] == "running"
        worker.step()
        assert store.job(third)["state"] == "running"  # in its place
    handed_back = [store.job(job) for job in (long, third)]
    assert [(job["state"], job["attempt"]) for job in handed_back] == 2 * [("queued", 0)]


@pytest.mark.parametrize("step", ["processes.run.ProcessRun.poll", "processes.jobs.JobWork._start"])
def test_what_goes_wrong_with_a_job_costs_it_alone(settings, store, monkeypatch, step):
    with working(settings) as worker:
        well = submitted(store, **ENDLESS)
        while not worker.jobs.active:
            worker.step()
        own = worker.jobs.active[well].lanes.run
        module, name = f"streamsvm.service.{step.rpartition('.')[0]}", step.rpartition(".")[2]
        before = getattr(resolve_name(module), name)

        def fail(self, *arguments):
            if self is own:
                return before(self, *arguments)
            raise ValueError("poison")

        monkeypatch.setattr(f"{module}.{name}", fail)
        (failed,) = seen_to(worker, store, submitted(store, **PLAIN))
        assert (failed["state"], failed["failure"]["code"]) == ("failed", "crash_loop")
        assert store.job(well)["state"] == "running" and len(store.job(well)["transitions"]) == 2
        assert worker.jobs.active[well].lanes.run is own


@pytest.mark.parametrize("kind", ["upload", "import"])
def test_a_job_whose_dataset_could_not_be_read_in_says_where_that_is_explained(settings, store, kind):
    dataset_id = store.add_dataset("lost", {"import": "rows.svm"} if kind == "import" else None)
    job = store.add_job(dataset_id, parse_spec({"dataset": "lost", **PLAIN}).model_dump())
    if kind == "import":
        store.fail_dataset(dataset_id, {"code": "out_of_space"})
    else:
        store.drop_dataset(dataset_id)
    with working(settings) as worker:
        worker.step()
    failure = store.job(job)["failure"]
    assert failure["code"] == "dataset_lost" and kind in failure["hint"]
