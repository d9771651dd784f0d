"""A short job beside a long one: it need not wait, memory is as estimated, and certificates are as when alone."""

from pathlib import Path

import httpx
import pytest

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import ENDED, PLAIN, Service, wait_for

LONG = {**ENDLESS, "max_passes": 100}  # some ten seconds; the same to the byte whenever it runs, for its pace is fixed
SHORT = {"dataset": "data", "tolerance": 0.1, "pace": "fixed", "cache_bytes": 1 << 20}


@pytest.fixture(scope="module")
def alone(service):
    """The two jobs, each when it has run alone."""
    return [service.wait_until_ended(service.submit(**spec)) for spec in (SHORT, LONG)]


def held_bytes(service: Service, job: str) -> int:
    """Bytes that the processes of a job hold; those that processes share count once, in parts."""
    total = 0
    for pid in service.processes.alive(job):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def estimated_bytes(service: Service, spec: dict) -> int:
    answer = httpx.post(f"{service.url}/v1/jobs/estimate", json={"bias": None, **spec}, **PLAIN)
    return answer.raise_for_status().json()["memory"]["total_bytes"]


@pytest.mark.slow
def test_a_short_job_ends_beside_a_long_one_and_neither_changes(service, alone):
    long = service.submit(**LONG)
    service.wait_for_pass(long, 1)
    short = service.submit(**SHORT)
    held = {short: 0, long: 0}

    def has_ended():
        held.update({job: max(before, held_bytes(service, job)) for job, before in held.items()})
        return service.job(short)["state"] in ENDED

    wait_for(has_ended)
    assert service.job(long)["state"] == "running"
    together = [service.wait_until_ended(job) for job in (short, long)]
    for job, before in zip(together, alone, strict=True):
        assert job["result"]["certificate"] == before["result"]["certificate"]
        assert service.model(job) == service.model(before)
    for job, spec in ((short, SHORT), (long, LONG)):
        assert 0 < held[job] <= estimated_bytes(service, spec)
