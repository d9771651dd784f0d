"""gamma of a kernel, and whether it tells rows from each other."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan import run_file as module
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.jobs.plan.run_file import distances_of, run_file
from streamsvm.service.jobs.progress.states import warning_of
from streamsvm.storage.blocks.manifest import read_manifest
from tests.contracts.problems import make_dataset, random_problem, weighted_text
from tests.refusals import refused


@pytest.fixture(scope="module")
def problem():
    X, y = random_problem(300)
    return X, y


@pytest.fixture(scope="module")
def dataset(problem, tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data") / "data", *problem)


def found(dataset, gamma="scale"):
    return distances_of(parse_spec({"dataset": "d", "kernel": "rbf", "gamma": gamma}), dataset)


def test_scale_is_that_of_scikit_learn(problem, dataset):
    X, y = problem
    assert found(dataset)["gamma"] == pytest.approx(SVC(gamma="scale").fit(X.toarray(), y)._gamma, rel=1e-6)


def test_a_row_of_weight_k_counts_as_k_rows(problem, tmp_path):
    X, y = problem
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    ingest([weighted_text(X, y, weight)], tmp_path / "weighted", InputOptions(index_base=1))
    rows = np.repeat(np.arange(len(y)), weight)
    make_dataset(tmp_path / "repeated", X[rows], y[rows])
    assert found(tmp_path / "weighted")["gamma"] == pytest.approx(found(tmp_path / "repeated")["gamma"], rel=1e-12)


def test_of_many_rows_a_part_is_looked_at(dataset, monkeypatch):
    whole = found(dataset)["gamma"]
    monkeypatch.setattr(module, "_MOST_VALUES", 500)
    assert found(dataset)["gamma"] == pytest.approx(whole, rel=0.3)


def test_rows_that_are_all_the_same_have_a_gamma(tmp_path):
    make_dataset(tmp_path / "data", sparse.csr_matrix(np.ones((6, 1), np.float32)), np.array([1.0, -1.0] * 3))
    assert found(tmp_path / "data")["gamma"] == 1.0
    assert "are 1" in warning_of(found(tmp_path / "data"))


def test_rows_without_features_are_no_fault(tmp_path):
    make_dataset(tmp_path / "data", sparse.csr_matrix((6, 4), dtype=np.float32), np.array([1.0, -1.0] * 3))
    assert found(tmp_path / "data")["high"] == 0.0


@pytest.mark.parametrize(("gamma", "number"), [(1e-6, "1"), (1e4, "0")])
def test_a_kernel_of_one_value_is_warned_of(dataset, gamma, number):
    said = warning_of(found(dataset, gamma))
    assert f"nearly all kernel values are {number}" in said
    # Unit rows that have little in common.
    assert "2 in the middle" in said and "a gamma near 0.5" in said


def test_a_gamma_that_fits_is_not(dataset):
    assert warning_of(found(dataset, 0.5)) is None
    assert warning_of(found(dataset)) is None


def test_a_linear_job_has_none(dataset):
    assert distances_of(parse_spec({"dataset": "d"}), dataset) is None
    told = run_file(plan_job(parse_spec({"dataset": "d"}), read_manifest(dataset)), dataset)
    assert (told["distances"], told["trainer"]["gamma"]) == (None, None)


def test_what_a_run_is_told(dataset):
    spec = parse_spec({"dataset": "d", "kernel": "rbf", "gamma": 0.25})
    told = json.loads(json.dumps(run_file(plan_job(spec, read_manifest(dataset)), dataset)))
    assert told["trainer"]["gamma"] == told["distances"]["gamma"] == 0.25
    assert told["reader"]["has_kernel"]
    assert 0 < told["distances"]["low"] <= told["distances"]["median"] <= told["distances"]["high"]


def test_a_budget_beyond_the_machine_is_refused_with_the_arithmetic(dataset):
    manifest = read_manifest(dataset)
    with refused(ServiceError, "budget_range") as caught:
        plan_job(parse_spec({"dataset": "d", "kernel": "rbf", "budget": 5000}), manifest, memory_bytes=1_000_000)
    assert "budget 5000 vectors of 151 features" in caught.value.message and caught.value.hint


def test_a_budget_beyond_memory_bytes_is_refused_with_the_arithmetic(dataset):
    spec = {"dataset": "d", "kernel": "rbf", "budget": 10_000, "memory_bytes": 400 << 20}
    with pytest.raises(ServiceError) as caught:
        plan_job(parse_spec(spec), read_manifest(dataset))
    assert caught.value.code == "memory_too_small" and "solver" in caught.value.message
