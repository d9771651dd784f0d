"""Requests to stop, cancel and delete a job, in each of its states."""

import pytest

from streamsvm.service.jobs.progress.states import REQUESTS
from streamsvm.service.records.store import Store
from tests.end_to_end.service import wait_for
from tests.service.records.test_store import refusal


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store.sqlite")
    store.set_dataset_ready(store.add_dataset("data"))
    return store


def add_job(store: Store, state: str = "queued") -> str:
    job = store.add_job(store.dataset("data")["id"], {})
    if state == "cancelled":
        store.request(job, "cancel")
    elif state != "queued":
        store.claim()
        if state != "running":
            store.finish(job, state)
    return job


def test_a_queued_job_is_cancelled_at_once_and_never_claimed(store):
    job = add_job(store)
    store.request(job, "cancel")
    record = store.job(job)
    assert record["state"] == "cancelled" and record["finished_at"]
    assert store.claim() is None


def test_a_queued_job_has_nothing_to_stop(store):
    job = add_job(store)
    assert refusal(store.request, job, "stop") == "not_possible"
    assert store.job(job)["state"] == "queued"


@pytest.mark.parametrize("what", REQUESTS)
def test_a_running_job_is_left_to_its_worker(store, what):
    job = add_job(store, "running")
    store.request(job, what)
    record = store.job(job)
    assert (record["state"], record["requested"]) == ("running", what)


@pytest.mark.parametrize("what", REQUESTS)
@pytest.mark.parametrize("state", ["succeeded", "stopped", "failed", "cancelled"])
def test_of_a_job_that_has_ended_nothing_can_be_asked(store, state, what):
    job = add_job(store, state)
    record = store.job(job)
    assert refusal(store.request, job, what) == "not_possible"
    assert store.job(job) == record


def test_a_stop_may_become_a_cancel_and_not_the_other_way(store):
    job = add_job(store, "running")
    store.request(job, "stop")
    store.request(job, "cancel")
    assert refusal(store.request, job, "stop") == "not_possible"
    assert store.job(job)["requested"] == "cancel"


@pytest.mark.parametrize("state", ["succeeded", "stopped", "failed"])
def test_what_was_cancelled_while_it_ended_is_cancelled_and_has_no_model(store, state):
    job = add_job(store, "running")
    store.request(job, "cancel")
    assert store.finish(job, state, model_id="mdl_1", result={"converged": True}) == "cancelled"
    record = store.job(job)
    assert (record["state"], record["model_id"], record["result"]) == ("cancelled", None, None)
    assert store.models() == []


def test_what_was_cancelled_does_not_run_again(store):
    job = add_job(store, "running")
    store.request(job, "cancel")
    store.requeue(job)
    assert store.job(job)["state"] == "cancelled"
    assert store.claim() is None


def test_a_stop_outlives_the_attempt_it_was_asked_of(store):
    job = add_job(store, "running")
    store.request(job, "stop")
    store.requeue(job)
    assert store.claim()["requested"] == "stop"


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_has_not_ended_cannot_be_deleted(store, state):
    job = add_job(store, state)
    assert refusal(store.delete_work, job) == "not_possible"
    assert store.job(job)["state"] == state


def test_a_deleted_job_is_gone_and_its_model_stays(store):
    job = add_job(store, "running")
    store.finish(job, "succeeded", model_id="mdl_1")
    store.delete_work(job)
    assert refusal(store.job, job) == refusal(store.request, job, "cancel") == "unknown_job"
    assert store.model("mdl_1")["job_id"] == job


def test_pages_of_jobs_are_all_jobs_newest_first(store):
    for _ in range(7):
        add_job(store)
    found, before = [], None
    while page := store.jobs("queued", before, 3):
        found += [record["id"] for record in page]
        before = found[-1]
    assert found == [record["id"] for record in store.jobs()]


def test_every_write_is_a_change(store, tmp_path):
    job = add_job(store, "running")
    wait_for(lambda: store.change() == store.change())  # once the last write is a tick of the clock of files old
    before = store.change()
    Store(tmp_path / "store.sqlite").request(job, "stop")
    assert store.change() != before
