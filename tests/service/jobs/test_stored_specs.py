"""Jobs that another version has stored."""

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec, read_spec
from streamsvm.service.processes.worker import Worker
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from tests.contracts.problems import make_dataset, random_problem


def test_what_this_version_stores_it_reads():
    spec = parse_spec({"dataset": "d", "C": 2, "bias": 1.0, "labels": {"team": "ads"}})
    assert read_spec(spec.model_dump()) == spec
    assert read_spec(parse_spec({"dataset": "d"}).model_dump()) == parse_spec({"dataset": "d"})


@pytest.mark.parametrize("stored", [{}, {"tolerance": 1e-3}, {"tolerance": 1e-3, "relative_gap": None}])
def test_a_job_from_before_the_relative_gap_was_the_default_ends_by_its_tolerance(stored):
    assert read_spec({"dataset": "d", **stored}) == parse_spec({"dataset": "d", "tolerance": 1e-3, "bias": None})


def test_a_job_from_before_there_was_a_bias_by_default_has_none():
    spec = parse_spec({"dataset": "d", "bias": None})
    assert read_spec(spec.model_dump(exclude={"bias"})) == read_spec(spec.model_dump()) == spec


def test_a_job_that_was_to_run_for_ever_still_is():
    assert read_spec({"dataset": "d", "tolerance": None}).relative_gap is None


@pytest.mark.parametrize("stored", [{"momentum": 0.9}, {"solver": "perceptron"}])
def test_a_job_that_this_version_does_not_have_is_refused(stored):
    with pytest.raises(ServiceError) as caught:
        read_spec({"dataset": "d", **stored})
    assert caught.value.code == "job_outdated"
    assert next(iter(stored)) in caught.value.message


def test_the_worker_fails_such_a_job_and_lives(tmp_path):
    settings = Settings(tmp_path, tmp_path)
    settings.create_directories()
    store = Store(settings.database)
    dataset_id = store.add_dataset("data")
    make_dataset(settings.datasets / dataset_id, *random_problem(60, 40))
    store.set_dataset_ready(dataset_id)
    job_id = store.add_job(dataset_id, {"dataset": "data", "momentum": 0.9})
    worker = Worker(settings)
    worker.step()
    worker.shutdown()
    failed = store.job(job_id)
    assert (failed["state"], failed["failure"]["code"]) == ("failed", "job_outdated")
