"""File descriptors that run out cost answers, 503 `unavailable`, or an attempt, and nothing else."""

import os
import resource
import signal
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import PLAIN, wait_for

SPEC = {**ENDLESS, "max_passes": 60, "checkpoint_seconds": 0.2}


@contextmanager
def few_files(pid, more):
    """A process may have so many more files open than it has, for this while."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    # A new file gets the lowest number that is free, which has to be below the limit.
    free = (number for number in count() if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(free, more, None)), before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@pytest.fixture
def service(new_service, text):
    service = new_service().start()
    service.upload("data", text)
    return service


def test_the_api_says_so_and_recovers(service, text):
    api = service.processes.one("-m streamsvm.api")
    requests = (
        ("GET", "/v1/jobs", {}),
        ("GET", "/v1/datasets/data", {}),
        ("POST", "/v1/jobs", {"json": SPEC}),
        ("PUT", "/v1/datasets/other", {"content": text}),
    )
    refused = submitted = 0
    with httpx.Client(base_url=service.url, **PLAIN) as client:
        for more in (0, 1, 2, 3):
            # There is a connection before there is no file for another.
            client.get("/v1/jobs")
            with few_files(api, more):
                answers = [client.request(method, path, **body) for method, path, body in requests]
            refused += sum(answer.status_code == 503 for answer in answers)
            submitted += answers[2].status_code == 202
            assert all(answer.is_success or answer.json()["code"] == "unavailable" for answer in answers)
            assert answers[3].status_code == 503  # another process, which takes a few
    assert refused > 4
    assert [dataset["name"] for dataset in service.get("/v1/datasets")["datasets"]] == ["data"]
    assert len(list(service.data_dir.glob("datasets/*"))) == 1
    jobs = service.get("/v1/jobs")["jobs"]
    assert len(jobs) == submitted
    assert all(service.wait_until_ended(job["id"])["state"] == "succeeded" for job in jobs)
    service.upload("other", text)


def test_a_worker_without_goes_on_when_there_are_some_again(service):
    undisturbed = weights(service.model(service.wait_until_ended(service.submit(**SPEC)))).tobytes()
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 4)
    worker, log = service.processes.one("streamsvm.service.processes.worker"), service.data_dir.parent / "log"
    with few_files(worker, 0):
        wait_for(lambda: "tried again" in log.read_text())
    assert weights(service.model(service.wait_until_ended(job))).tobytes() == undisturbed
    assert service.processes.one("streamsvm.service.processes.worker") == worker


def test_a_service_that_can_start_no_worker_is_not_ready_and_tries_again(service):
    api = service.processes.one("-m streamsvm.api")
    with httpx.Client(base_url=service.url, **PLAIN) as client:
        assert client.get("/v2/health/ready").status_code == 200
        with few_files(api, 0):
            os.kill(service.processes.one("streamsvm.service.processes.worker"), signal.SIGKILL)
            wait_for(lambda: client.get("/v2/health/ready").status_code == 503)
        wait_for(lambda: client.get("/v2/health/ready").status_code == 200)
    assert service.wait_until_ended(service.submit(**SPEC))["state"] == "succeeded"
