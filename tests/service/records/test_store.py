"""The records: none is lost, and no name or job is given twice."""

import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import journal_mode
from streamsvm.service.records.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path):
    return Store(path)


def ready_dataset(store: Store, name: str = "data") -> str:
    dataset_id = store.add_dataset(name)
    store.set_dataset_ready(dataset_id)
    return dataset_id


def refusal(operation, *arguments) -> str:
    with pytest.raises(ServiceError) as caught:
        operation(*arguments)
    return caught.value.code


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ((3, 40, 1), "PERSIST"),
        ((3, 44, 5), "PERSIST"),
        ((3, 44, 6), "WAL"),
        ((3, 45, 0), "PERSIST"),
        ((3, 50, 6), "PERSIST"),
        ((3, 50, 7), "WAL"),
        ((3, 51, 0), "PERSIST"),
        ((3, 51, 2), "PERSIST"),
        ((3, 51, 3), "WAL"),
        ((3, 52, 0), "WAL"),
        ((4, 0, 0), "WAL"),
    ],
)
def test_wal_only_where_its_race_is_fixed(version, mode):
    assert journal_mode(version) == mode


def test_the_store_uses_the_mode_of_this_sqlite(store, path):
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("PRAGMA journal_mode").fetchone()[0].upper()
    # PERSIST is a choice of each connection, WAL is one of the file.
    assert (found == "WAL") == (journal_mode() == "WAL")


def test_a_name_is_taken_until_it_is_deleted(store):
    first = store.add_dataset("data")
    assert store.dataset("data")["state"] == "ingesting"
    assert refusal(store.add_dataset, "data") == "dataset_exists"
    store.set_dataset_ready(first)
    store.begin_change("data")
    assert refusal(store.delete_dataset, first) == "not_ready"
    store.set_dataset_ready(first)
    store.delete_dataset(first)
    assert refusal(store.dataset, "data") == "unknown_dataset"
    assert store.add_dataset("data") != first


def test_a_dataset_that_a_job_needs_stays(store):
    dataset = ready_dataset(store)
    job = store.add_job(dataset, {})
    assert refusal(store.delete_dataset, dataset) == "dataset_in_use"
    store.claim()
    assert refusal(store.delete_dataset, dataset) == "dataset_in_use"
    store.finish(job, "failed", failure={"code": "process_died"})
    store.delete_dataset(dataset)
    assert store.datasets() == []
    assert store.job(job)["state"] == "failed"


def test_no_job_on_a_dataset_that_is_gone(store):
    dataset = ready_dataset(store)
    store.delete_dataset(dataset)
    assert refusal(store.add_job, dataset, {}) == "unknown_dataset"
    assert store.jobs() == []


def test_a_job_follows_a_dataset_that_is_being_read_in_once(store):
    dataset = store.add_dataset("data")
    assert store.dataset_state(dataset) == "ingesting"
    job = store.add_job(dataset, {})
    assert store.claim()["id"] == job
    # A job that did not end then waits for the whole dataset, and other jobs pass it.
    store.requeue(job)
    assert store.claim() is None
    other = store.add_job(ready_dataset(store, "other"), {})
    assert store.claim()["id"] == other
    store.set_dataset_ready(dataset)
    assert store.claim()["id"] == job


def test_a_job_on_a_dataset_that_could_not_be_read_in_can_be_claimed(store):
    """The worker takes the job, to fail it: nothing else would ever end it."""
    dataset = store.add_dataset("data")
    job = store.add_job(dataset, {})
    store.drop_dataset(dataset)
    assert store.dataset_state(dataset) is None
    assert store.claim()["id"] == job


def test_the_oldest_job_is_claimed_first_whatever_the_clock_says(store, monkeypatch):
    dataset = ready_dataset(store)
    clock = iter([5, 3, 9, 1])
    monkeypatch.setattr("streamsvm.service.records.database.time.time_ns", lambda: next(clock) * 10**15)
    jobs = [store.add_job(dataset, {"seed": i}) for i in range(4)]
    assert [store.claim()["id"] for _ in jobs] == jobs
    assert store.claim() is None


def test_a_claim_is_an_attempt_and_a_requeued_job_keeps_its_place(store):
    dataset = ready_dataset(store)
    first, second = store.add_job(dataset, {}), store.add_job(dataset, {})
    claimed = store.claim()
    assert (claimed["id"], claimed["state"], claimed["attempt"]) == (first, "running", 1)
    store.requeue(first)
    again = store.claim()
    assert (again["id"], again["attempt"], again["started_at"]) == (first, 2, claimed["started_at"])
    assert [step["state"] for step in again["transitions"]] == ["queued", "running", "queued", "running"]
    assert store.claim()["id"] == second


def test_concurrent_claims_give_each_job_away_once(path):
    dataset = ready_dataset(Store(path))
    jobs = {Store(path).add_job(dataset, {}) for _ in range(12)}

    def claim_all(_: int) -> list[str]:
        store, mine = Store(path), []
        while (record := store.claim()) is not None:
            mine.append(record["id"])
        return mine

    with ThreadPoolExecutor(4) as threads:
        claimed = [job for mine in threads.map(claim_all, range(4)) for job in mine]
    assert len(claimed) == len(jobs) and set(claimed) == jobs


@pytest.mark.parametrize("state", ["succeeded", "stopped", "failed", "cancelled"])
def test_a_terminal_state_never_changes(store, state):
    dataset = ready_dataset(store)
    job = store.add_job(dataset, {})
    store.claim()
    store.finish(job, state)
    record = store.job(job)
    assert record["finished_at"]
    for operation in (store.requeue, *(lambda j, s=s: store.finish(j, s) for s in ("succeeded", "failed"))):
        assert refusal(operation, job) == "not_possible"
    assert store.job(job) == record
    assert store.claim() is None


def test_a_model_is_on_record_exactly_when_its_job_is_done(store):
    job = store.add_job(ready_dataset(store), {})
    assert refusal(store.finish, job, "succeeded") == "not_possible"
    store.claim()
    assert refusal(store.model, "mdl_1") == "unknown_model"
    store.finish(job, "succeeded", model_id="mdl_1", result={"converged": True})
    assert store.model("mdl_1")["job_id"] == job
    assert store.job(job)["model_id"] == "mdl_1" and store.job(job)["result"] == {"converged": True}
    assert [model["id"] for model in store.models()] == ["mdl_1"]


def test_a_page_of_jobs_holds_some_bytes_or_one_job(store):
    dataset = ready_dataset(store)
    jobs = [store.add_job(dataset, {"labels": {"a": "b" * n}}) for n in (10, 5000, 3000, 10, 10)][::-1]

    def ids(before, most):
        page, has_more = store.page_of_jobs(None, before, most, most_bytes=4000)
        return [each["id"] for each in page], has_more

    assert ids(None, 2) == (jobs[:2], True)
    assert ids(None, 9) == (jobs[:3], True)
    assert ids(jobs[2], 9) == ([jobs[3]], True)
    assert ids(jobs[3], 9) == ([jobs[4]], False)
    assert ids(jobs[4], 9) == ([], False)


def test_a_change_that_fails_changes_nothing(store):
    dataset = ready_dataset(store)
    jobs = [store.add_job(dataset, {}) for _ in range(2)]
    for _ in jobs:
        store.claim()
    store.finish(jobs[0], "succeeded", model_id="mdl_1")
    with pytest.raises(sqlite3.IntegrityError):
        store.finish(jobs[1], "succeeded", model_id="mdl_1")
    assert store.job(jobs[1])["state"] == "running"


def test_all_is_there_when_it_is_opened_again(store, path):
    dataset = ready_dataset(store)
    spec = {"C": 0.1, "class_weight": {"1": 2.0}, "tolerance": None}
    jobs = [store.add_job(dataset, spec) for _ in range(3)]
    store.claim()
    store.finish(jobs[0], "succeeded", model_id="mdl_1", progress={"gap": 1e-3})
    again = Store(path)
    for read in (Store.datasets, Store.jobs, Store.models):
        assert read(again) == read(store) and read(again)
    assert again.job(jobs[0])["spec"] == spec
    assert {job["id"] for job in again.jobs("queued")} == set(jobs[1:])


def test_unknown_ids_have_their_codes(store):
    assert refusal(store.job, "job_0") == "unknown_job"
    assert refusal(store.model, "mdl_0") == "unknown_model"
    assert refusal(store.dataset, "\0") == "unknown_dataset"


def test_writes_within_a_tick_of_the_kernels_clock_change_the_value_of_change(store, path):
    """Kernels before 6.13 give files times of some milliseconds: two writes may have the same."""
    dataset_id = ready_dataset(store)
    tick = time.time_ns() + 10**10
    os.utime(path, ns=(tick, tick))
    before = store.change()
    store.fail_dataset(dataset_id, {"code": "x"})
    os.utime(path, ns=(tick, tick))
    assert store.change() != before


def test_who_moves_an_alias_is_told_of_this_move(store, monkeypatch):
    """Not of one that somebody else makes a moment later: with its mark the next move would go unnoticed."""
    store.adopt_model("mdl_1", "then")
    store.register_model("churn", "mdl_1")
    monkeypatch.setattr(Store, "alias", lambda *_: pytest.fail("another look at what may have moved on"))
    moved = store.move_alias("churn", "champion", 1, "me")
    assert (moved["version"], moved["moved_by"]) == (1, "me")
    assert refusal(store.move_alias, "churn", "champion", 1, "me", moved["move"] - 1) == "alias_moved"
