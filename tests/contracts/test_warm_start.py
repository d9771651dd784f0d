"""Every solver starts right from what another one found: with its alpha and w, scaled where C is another."""

import math
from contextlib import contextmanager

import numpy as np
import pytest

from streamsvm.storage.run.state import open_state
from streamsvm.trainer.problem.losses import SVM_LOSSES
from streamsvm.trainer.solvers import read_settings
from streamsvm.trainer.updates.progress import PassProgress
from tests.contracts.problems import a_dataset
from tests.contracts.solver import (
    MODES,
    PLAIN,
    SMALLEST_CACHE,
    cache_for,
    check_pass,
    exact,
    is_fast,
    is_resident,
    name_of,
)
from tests.reference.dcd import dcd
from tests.training import about_to_begin, train, write_run

# One way of each solver, and all that streamsvm has: where its rows are chooses the code that runs.
WAYS = [*PLAIN, *(mode for mode in MODES if mode["solver"] == "streamsvm" and mode not in PLAIN)]

dataset = a_dataset()


@pytest.fixture(scope="module")
def found(tmp_path_factory, dataset):
    """What streamsvm found with C = 1 to a gap of 1e-3, by loss."""
    directory, until = tmp_path_factory.mktemp("run"), {"tolerance": None, "relative_gap": 1e-3}
    return {loss: train(directory / loss, dataset, SMALLEST_CACHE, loss=loss, **until) for loss in SVM_LOSSES}


@contextmanager
def warm(run, dataset, alpha, w, cache_bytes, **settings):
    """A Trainer that is about to begin with these."""
    write_run(run, dataset, cache_bytes, **settings)
    shape = read_settings(run)
    state = open_state(run, shape.n_rows, shape.width)
    state.alpha[:, 0], state.w[:, 0] = alpha, w
    with about_to_begin(run) as (trainer, _):
        yield trainer, state


@pytest.mark.parametrize("mode", WAYS, ids=name_of)
@pytest.mark.parametrize(("loss", "C"), [("hinge", 0.3), ("hinge", 7.0), ("squared_hinge", 1.0)])
def test_dual_solvers_go_on_from_alpha_and_w(tmp_path, dataset, found, mode, loss, C):
    problem = exact(dataset, loss=loss, C=C)
    # C times alpha / C may miss C by its last bit.
    alpha = np.minimum(found[loss].alpha * C, problem.upper)
    goal = 1e-5 if is_fast(mode) else 1e-3 if is_resident(mode) else 2e-2
    settings = {
        **mode, "loss": loss, "C": C, "tolerance": None, "relative_gap": goal, "max_passes": 3000, "updates_per_row": 8,
    }  # fmt: skip
    with warm(tmp_path / "run", dataset, alpha, found[loss].w * C, cache_for(mode), **settings) as (trainer, state):
        before = PassProgress(0, 0, 0.0, 0.0, 0, problem.dual(alpha), math.inf, 0)
        for _ in range(3):
            progress = next(trainer._passes)
            check_pass(problem, progress, state.alpha[:, 0], trainer._w[:, 0], before, mode)
            before = progress
        while trainer.stop_reason is None:
            trainer.step()
        trainer.shutdown()
        result = trainer.results()[0]
    assert result["stop_reason"] == "relative_gap"
    best = dcd(problem.X, problem.y, C, loss, tol=1e-8).dual
    assert result["certificate"]["dual_objective"] == pytest.approx(best, rel=1.1 * goal)
    assert result["certificate"]["w_error"] <= 1e-10


@pytest.mark.parametrize("solver", ["cpa", "ocas"])
@pytest.mark.parametrize("C", [0.3, 7.0])
def test_cutting_planes_go_on_from_w(tmp_path, dataset, found, solver, C):
    w, problem = found["hinge"].w * C, exact(dataset, C=C)
    settings = {"solver": solver, "C": C, "tolerance": None, "max_passes": 6}
    best = dcd(problem.X, problem.y, C, tol=1e-8)
    with warm(tmp_path / "run", dataset, np.zeros(300), w, SMALLEST_CACHE, **settings) as (trainer, _):
        upper = problem.primal(w)
        for _ in range(6):
            progress = next(trainer._passes)
            assert progress.primal_bound <= upper * (1 + 1e-6)
            assert problem.primal(trainer._w[:, 0]) == pytest.approx(progress.primal_bound, rel=1e-6)
            assert progress.dual_objective <= best.primal * (1 + 1e-12)
            upper = progress.primal_bound


def test_pegasos_begins_with_w(tmp_path, dataset, found):
    w, problem = found["hinge"].w, exact(dataset)
    settings = {"solver": "pegasos", "tolerance": None, "max_passes": 2}
    with warm(tmp_path / "run", dataset, np.zeros(300), w, SMALLEST_CACHE, **settings) as (trainer, _):
        # P is taken at the w the first pass streams at.
        assert next(trainer._passes).primal_bound == pytest.approx(problem.primal(w), rel=1e-9)
