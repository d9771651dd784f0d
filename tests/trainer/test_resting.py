"""Rows that rest are left out of most sweeps over the cache; none is left out of a pass; the optimum stays."""

import pytest

import trainer.solvers.resident_sweeps
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import check_certificate, exact
from tests.training import train

ALL_ROWS = 8 << 20  # bytes of cache, more than the rows need
SETTINGS = {"C": 1.0, "tolerance": None, "relative_gap": 1e-6, "updates_per_row": 10.0, "max_passes": 300}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Many rows that are not support vectors."""
    return make_dataset(tmp_path_factory.mktemp("data") / "data", *random_problem(2000, 60, 12, noise=0.02))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_optimum_is_found_with_every_row_in_every_pass(tmp_path, dataset, loss):
    found = train(tmp_path / "run", dataset, ALL_ROWS, **SETTINGS, loss=loss)
    assert found.result["converged"]
    assert [done["rows_unvisited"] for done in found.passes] == [0] * len(found.passes)
    check_certificate(found, exact(dataset, loss=loss, C=1.0))


def test_it_takes_fewer_visits(tmp_path, dataset, monkeypatch):
    found = train(tmp_path / "run", dataset, ALL_ROWS, **SETTINGS)
    monkeypatch.setattr(trainer.solvers.resident_sweeps, "WHOLE_EVERY", 1)
    whole = train(tmp_path / "whole", dataset, ALL_ROWS, **SETTINGS)
    assert found.passes[-1]["updates"] < 0.8 * whole.passes[-1]["updates"]
