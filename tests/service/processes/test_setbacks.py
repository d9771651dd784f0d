"""What becomes of jobs that came to no good end while no worker had them."""

import errno
import logging

import pytest

from streamsvm.service.processes.retry_policy import Setbacks
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings


@pytest.fixture
def settings(tmp_path):
    made = Settings.from_environment(tmp_path)
    made.create_directories()
    return made


@pytest.fixture
def store(settings):
    return Store(settings.database)


@pytest.fixture
def tidied(monkeypatch):
    found = []
    monkeypatch.setattr(Setbacks, "tidy", lambda _, record: found.append(record["id"]))
    return found


@pytest.fixture
def job(store):
    """Its id; it has run, and is queued again."""
    store.set_dataset_ready(store.add_dataset("data"))
    job_id = store.add_job(store.dataset("data")["id"], {})
    store.claim_job()
    store.requeue_job(job_id, reason="out_of_space")
    return job_id


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_job_that_is_cancelled_after_it_was_queued_again_leaves_nothing(settings, store, job, tidied, is_deleted):
    setbacks = Setbacks(settings, store)
    setbacks.attend()
    setbacks.attend()
    assert not tidied
    store.request(job, "cancel")
    if is_deleted:
        store.delete_job(job)
    setbacks.attend()
    assert tidied == [job]
    setbacks.attend()
    assert tidied == [job]


def test_a_job_that_goes_on_keeps_what_it_has(settings, store, job, tidied):
    setbacks = Setbacks(settings, store)
    setbacks.attend()
    store.claim_job()
    setbacks.attend()
    assert not tidied


def test_a_job_that_has_never_run_has_left_nothing(settings, store, tidied):
    store.set_dataset_ready(store.add_dataset("data"))
    job_id = store.add_job(store.dataset("data")["id"], {})
    setbacks = Setbacks(settings, store)
    setbacks.attend()
    store.request(job_id, "cancel")
    setbacks.attend()
    assert not tidied


@pytest.mark.parametrize(("number", "is_surprise"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EBADF, True)])
def test_the_log_does_not_take_a_full_disk_for_a_surprise(settings, store, job, caplog, number, is_surprise):
    record = store.claim_job()
    with caplog.at_level(logging.WARNING):
        Setbacks(settings, store).settle(record, OSError(number, "no"), None)
    assert (settings.jobs / job / "log").exists() == any(line.exc_info for line in caplog.records) == is_surprise
    assert store.job(job)["state"] == "queued"
