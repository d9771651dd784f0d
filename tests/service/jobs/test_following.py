"""Which jobs may follow a dataset that is being read in, and what one is told whose dataset does not come."""

from contextlib import suppress

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import can_follow, followed_again, plan_arriving, plan_following
from streamsvm.service.processes.run import ProcessRun, prepare_run
from streamsvm.storage.errors import DatasetLost, RowTooLong
from streamsvm.storage.rows.cache_plan import plan_cache
from tests.contracts.solver import SMALLEST_CACHE
from tests.end_to_end.service import wait_for
from tests.refusals import refused
from tests.storage.rows import make_rows, random_rows
from tests.storage.staging import Staging

STEADY = [
    {}, {"loss": "squared_hinge"}, {"C": 3.0}, {"solver_options": {"screening": None, "updates_per_row": 1.0}},
    {"bias": 1.0},
]  # fmt: skip
NEEDS_ALL = [{"class_weight": {"1": 2.0}}, {"pace": "fixed"}, {"solver": "streamsvm_paper"}]


@pytest.mark.parametrize("fields", STEADY, ids=str)
def test_a_job_that_needs_no_more_than_rows_follows(fields):
    spec = JobSpec(dataset="data", **fields)
    assert can_follow(spec)
    assert plan_following(spec, 1000).spec == spec


@pytest.mark.parametrize("fields", NEEDS_ALL, ids=str)
def test_a_job_that_needs_the_whole_dataset_does_not(fields):
    spec = JobSpec(dataset="data", **fields)
    assert not can_follow(spec)
    with refused(ServiceError, "not_ready") as caught:
        plan_following(spec, 1000)
    # What is in the way is named.
    assert next(iter(fields)) in caught.value.hint


def test_what_can_be_refused_at_once_is():
    with refused(ServiceError, "cache_too_small"):
        plan_following(JobSpec(dataset="data", cache_bytes=1), 1000)


@pytest.fixture
def following(tmp_path):
    """(Staging with some rows, a Run whose reader follows it)."""
    staging = Staging(tmp_path / "data")
    staging.write(0, random_rows(20))
    spec = JobSpec(dataset="test", cache_bytes=SMALLEST_CACHE)
    plan = plan_arriving(spec, 10_000, plan_cache(SMALLEST_CACHE, 1), cores=2, most_rows=1000)
    prepare_run(tmp_path / "run", plan, staging.final)
    run = ProcessRun(tmp_path / "run", tmp_path, stall_seconds=60)
    run.start()
    yield staging, run
    run.close()


def failure(run) -> ServiceError:
    """What `poll` raises in the end."""

    def ended():
        with suppress(ServiceError):
            run.poll()
            return None
        with pytest.raises(ServiceError) as raised:
            run.poll()
        return raised.value

    return wait_for(ended)


def test_a_dataset_that_is_given_up_is_not_a_process_that_died(following):
    staging, run = following
    # It waits: the journal is open.
    beat = wait_for(lambda: run.control["reader_heartbeat"])
    wait_for(lambda: run.control["reader_heartbeat"] != beat)
    staging.give_up()
    error = failure(run)
    assert error.code == DatasetLost.code
    log = (run.directory.parent / "log").read_text()
    assert "given up" in log and "Traceback" not in log


def test_a_row_too_long_is_not_a_process_that_died(following):
    staging, run = following
    staging.write(1, make_rows([dict.fromkeys(range(5000), 1.0)], [1.0]))
    assert failure(run).code == RowTooLong.code
    assert "5001 values" in (run.directory.parent / "log").read_text()


def test_a_row_too_long_is_followed_again_in_longer_segments():
    """As long as the cache has room for some of them; then the dataset is waited for."""
    plan = plan_following(JobSpec(dataset="data"), 1000)
    lengths = []
    while plan:
        lengths.append(plan.cache.longest_row)
        plan = followed_again(plan, ServiceError(RowTooLong.code, "too long"))
    assert len(lengths) == 2 and lengths[0] > 131_000 and lengths[1] >= 4 * lengths[0]


def test_only_a_row_too_long_is_a_reason_to_follow_again():
    plan = plan_following(JobSpec(dataset="data"), 1000)
    assert followed_again(plan, ServiceError(DatasetLost.code, "lost")) is None
    with pytest.raises(ServiceError, match="died"):
        followed_again(plan, ServiceError("process_died", "it died"))
