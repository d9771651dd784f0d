"""A worker is kept running whatever happens to it, or to its start; what becomes of jobs while there is none."""

import errno
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from streamsvm.api.app import create_app
from streamsvm.service.processes.health import give_sign, last_sign, lock, unlock
from streamsvm.service.processes.jobs import JobWork
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.processes.worker import REFUSED
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.child import child_environment
from tests.api.app import Client
from tests.end_to_end.service import wait_for

SIGNS = """
import sys, time, pathlib
from streamsvm.service.processes.health import give_sign, lock
held = lock(pathlib.Path(sys.argv[1]), "worker")
while True:
    give_sign(held)
    time.sleep(0.02)
"""


class Starts:
    """Starts workers: what each start comes to, an error or a program; the last one for ever."""

    def __init__(self, *ends):
        self._ends = list(ends)
        self.children = []

    def __call__(self, command):
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        if isinstance(end, Exception):
            raise end
        self.children.append(
            subprocess.Popen([sys.executable, "-c", end, command[-1]], env=child_environment(), start_new_session=True)
        )
        return self.children[-1]


@pytest.fixture
def settings(tmp_path):
    made = Settings.from_environment(tmp_path)
    made.create_directories()
    return made


@pytest.fixture
def keep(settings):
    """A keeper whose starts come to these ends; what it started."""
    made = []

    def start(*ends, **changes):
        starts = Starts(*ends)
        made.append(WorkerKeeper(replace(settings, **changes), starts, pause=0.01, look=0.02))
        made[-1].start()
        return made[-1], starts

    yield start
    for keeper in made:
        keeper.stop()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN, errno.ENOMEM])
def test_a_start_that_fails_is_tried_again_and_told(settings, keep, number):
    lacks = OSError(number, os.strerror(number))
    keeper, starts = keep(lacks, lacks, lacks, SIGNS)
    wait_for(lambda: starts.children)
    wait_for(lambda: not keeper.trouble, 30)


@pytest.mark.parametrize(
    "end", [OSError(errno.EMFILE, "no descriptor"), RuntimeError("can't"), "import sys; sys.exit(1)"]
)
def test_a_service_without_a_worker_is_not_ready(settings, keep, end):
    keeper, _ = keep(end)
    request = Client(create_app(settings, keeper))
    wait_for(lambda: keeper.trouble, 30)
    answer = request("GET", "/v2/health/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert request("GET", "/v2/health/live").status_code == 200


def test_a_worker_that_dies_is_followed_by_another_and_the_service_stays_ready(settings, keep):
    keeper, starts = keep(SIGNS)
    for number in range(1, 4):
        child = wait_for(lambda n=number: len(starts.children) == n and starts.children[-1])
        before = last_sign(settings.data_dir, "worker")
        wait_for(lambda b=before: last_sign(settings.data_dir, "worker") != b)
        time.sleep(0.2)  # the keeper has seen it
        child.kill()
        assert keeper.trouble == ""


def test_a_worker_that_is_stopped_counts_as_dead(settings, keep):
    _, starts = keep(SIGNS, stall_seconds=0.6)
    before = last_sign(settings.data_dir, "worker")
    wait_for(lambda: last_sign(settings.data_dir, "worker") != before)
    child = starts.children[-1]
    child.send_signal(signal.SIGSTOP)
    wait_for(lambda: child.returncode == -signal.SIGKILL and starts.children[-1] is not child)


def test_a_worker_elsewhere_is_followed_by_one_of_its_own(settings, keep):
    other = lock(settings.data_dir, "worker")
    give_sign(other)
    keeper, starts = keep(f"import sys; sys.exit({REFUSED})", SIGNS)
    wait_for(lambda: starts.children and starts.children[0].returncode is not None)
    assert len(starts.children) == 1 and keeper.trouble == ""
    unlock(other)
    wait_for(lambda: len(starts.children) == 2, 30)


@pytest.fixture
def store(settings):
    return Store(settings.database)


@pytest.fixture
def tidied(monkeypatch):
    found = []
    monkeypatch.setattr(JobWork, "_tidy", lambda _, record: found.append(record["id"]))
    return found


@pytest.fixture
def job(store):
    """Its id; it has run, and is queued again."""
    store.set_dataset_ready(store.add_dataset("data"))
    job_id = store.add_job(store.dataset("data")["id"], {})
    store.claim()
    store.requeue(job_id, reason="out_of_space")
    return job_id


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_job_that_is_cancelled_after_it_was_queued_again_leaves_nothing(settings, store, job, tidied, is_deleted):
    jobs = JobWork(settings, store)
    jobs.attend()
    jobs.attend()
    assert not tidied
    store.request(job, "cancel")
    if is_deleted:
        store.delete_work(job)
    jobs.attend()
    assert tidied == [job]
    jobs.attend()
    assert tidied == [job]


def test_a_job_that_goes_on_keeps_what_it_has(settings, store, job, tidied):
    jobs = JobWork(settings, store)
    jobs.attend()
    store.claim()
    jobs.attend()
    assert not tidied


def test_a_job_that_has_never_run_has_left_nothing(settings, store, tidied):
    store.set_dataset_ready(store.add_dataset("data"))
    job_id = store.add_job(store.dataset("data")["id"], {})
    jobs = JobWork(settings, store)
    jobs.attend()
    store.request(job_id, "cancel")
    jobs.attend()
    assert not tidied


@pytest.mark.parametrize(("number", "is_surprise"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EBADF, True)])
def test_the_log_does_not_take_a_full_disk_for_a_surprise(settings, store, job, caplog, number, is_surprise):
    record = store.claim()
    with caplog.at_level(logging.WARNING):
        JobWork(settings, store).settle(record, OSError(number, "no"), None)
    assert (settings.jobs / job / "log").exists() == any(line.exc_info for line in caplog.records) == is_surprise
    assert store.job(job)["state"] == "queued"
