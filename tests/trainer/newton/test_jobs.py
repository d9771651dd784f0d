"""Jobs that end by Newton steps, from the cache and from disk, and after kills; history says how they went."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer

from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.trainer.newton.phase import NewtonPhase
from tests.contracts.problems import make_dataset
from tests.trainer.test_resume import DoomedBetweenSweeps, Job
from tests.training import train

OPTIMUM = 49.95902  # of breast_cancer as it is, with a bias, C = 1
SETTINGS = {"pace": "adaptive", "bias": 1.0, "tolerance": None, "relative_gap": 1e-6, "max_passes": 60}
WAYS = {"in the cache": {"holds_all": True}, "on disk": {"on_disk": True}, "threads": {"on_disk": True, "threads": 2}}
everywhere = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    X, y = load_breast_cancer(return_X_y=True)
    X = sparse.csr_matrix(X.astype(np.float32))
    return make_dataset(tmp_path_factory.mktemp("data") / "data", X, np.where(y > 0, 1.0, -1.0))


def cache_of(way):
    return 4 << 20 if "holds_all" in way else 1 << 17


@everywhere
def test_a_table_as_it_is_converges(tmp_path, dataset, way):
    found = train(tmp_path / "run", dataset, cache_of(way), **SETTINGS, **way)
    assert found.result["stop_reason"] == "relative_gap"
    certificate = found.result["certificate"]
    assert certificate["primal_objective"] == pytest.approx(OPTIMUM, abs=1e-4)
    assert certificate["w_error"] <= 1e-9
    assert found.alpha.min() >= 0.0 and found.alpha.max() <= 1.0
    # The history has its steps: far fewer than sweeps would be.
    shown = [sweep for done in found.passes for sweep in done.get("sweeps", [])]
    assert 5 < len(shown) < 200


@everywhere
def test_a_job_that_dies_within_goes_on_to_the_same_optimum(tmp_path, dataset, way):
    """Killed after so many sweeps and steps; a checkpoint follows each of them."""
    job = Job(tmp_path, dataset, **SETTINGS, **way)
    for killed_at in (20, 12):
        assert job.train(partial(DoomedBetweenSweeps, killed_at)) is None
        kept = newest_checkpoint(job.checkpoints)
        assert kept["alpha"].min() >= 0.0 and kept["alpha"].max() <= 1.0
    found = job.attempt()
    assert found.result["stop_reason"] == "relative_gap"
    assert found.result["certificate"]["primal_objective"] == pytest.approx(OPTIMUM, abs=1e-4)
    assert found.result["certificate"]["w_error"] <= 1e-9


def test_without_a_target_there_are_sweeps_alone(tmp_path, dataset, monkeypatch):
    monkeypatch.setattr(NewtonPhase, "run", None)
    settings = {**SETTINGS, **WAYS["in the cache"], "relative_gap": None, "max_passes": 1}
    found = train(tmp_path / "run", dataset, cache_of(settings), **settings)
    assert found.result["stop_reason"] == "max_passes"
