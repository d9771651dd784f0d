"""A wall clock that is wrong, and steps while jobs run: nothing but the times shown depends on it.

Of Python's clocks, that is: times of files are the kernel's.
"""

import os
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import wait_for

SPEC = {**ENDLESS, "max_passes": 40, "checkpoint_seconds": 0.2}
YEAR = 365 * 86_400
STEPS = (3 * YEAR, -9 * YEAR, 0)


@pytest.fixture
def clock(tmp_path):
    """Sets how many seconds the clock of the service is ahead."""
    path = tmp_path / "offset"

    def set_to(seconds):
        # Renamed: whoever reads it reads a number.
        path.with_suffix(".new").write_text(str(seconds))
        path.with_suffix(".new").rename(path)

    set_to(0)
    set_to.path = path
    return set_to


@pytest.fixture
def service(new_service, clock, text):
    service = new_service(stall_seconds=10, jobs_at_once=1)
    stepping = Path(__file__).parent / "stepping_clock"
    search = os.pathsep.join(filter(None, (str(stepping), os.environ.get("PYTHONPATH"))))
    service.processes.environment |= {"PYTHONPATH": search, "CLOCK_OFFSET_FILE": str(clock.path)}
    service.start().upload("data", text)
    return service


def test_jobs_do_not_notice(service, clock):
    undisturbed = weights(service.model(service.train(**SPEC))).tobytes()
    years, jobs = set(), []
    for seconds in STEPS:
        clock(seconds)
        jobs.append(service.submit(**SPEC))
        service.wait_for_pass(jobs[0], 5 * len(jobs))
        years.add(service.job(jobs[-1])["created_at"][:4])
    # It did step.
    assert len(years) >= 3
    for job, after in zip(jobs, [*jobs[1:], None], strict=True):
        ended = service.wait_until_ended(job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
        assert weights(service.model(ended)).tobytes() == undisturbed
        if after:
            # First come, first served: the names of jobs begin with the time.
            assert wait_for(lambda: [other for other in jobs if service.job(other)["state"] == "running"]) == [after]
