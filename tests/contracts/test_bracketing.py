"""Every solver that has two bounds instead of dual variables keeps its contract, on ordinary problems and odd ones."""

import numpy as np
import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.trainer.solvers import SOLVERS
from tests.contracts.bracketing import MODES, check_certificate, check_run, check_solver
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, exact, name_of
from tests.contracts.test_solver import ODD, told
from tests.refusals import refused
from tests.training import train

everywhere = pytest.mark.parametrize("mode", MODES, ids=name_of)
plain = pytest.mark.parametrize("solver", [mode["solver"] for mode in MODES if len(mode) == 1])


# C = 1 without threads or forgotten cuts is that of odd problems.
@pytest.mark.parametrize(
    ("mode", "C"), [(mode, C) for mode in MODES for C in ([1e-3, 100.0] if len(mode) == 1 else [1.0])], ids=told
)
def test_contract(mode, C, tmp_path):
    check_solver(mode, C, tmp_path)


@plain
@pytest.mark.parametrize("make", ODD)
def test_odd_problems(solver, make, tmp_path):
    dataset = make_dataset(tmp_path / "data", *make())
    check_run(tmp_path / "some passes", dataset, 6, solver=solver)
    found = train(
        tmp_path / "run", dataset, SMALLEST_CACHE, positive=1.0, tolerance=None, relative_gap=3e-2, max_passes=3000,
        solver=solver,
    )  # fmt: skip
    assert found.result["stop_reason"] == "relative_gap"
    check_certificate(found, exact(dataset))


@everywhere
def test_class_weights_and_bias(mode, tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem())
    check_run(tmp_path / "run", dataset, 8, **mode, C=2.0, C_negative=0.25, bias=0.7)


@plain
def test_an_iteration_reads_the_data_once_or_twice(solver, tmp_path):
    X, y = random_problem()
    dataset = make_dataset(tmp_path / "data", X, y)
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, solver=solver, tolerance=None, max_passes=10)
    if SOLVERS[solver].rereads:
        # The reader brings the rows once; later passes read the blocks on disk.
        assert found.passes[-1]["rows_streamed"] <= 2 * len(y)
    else:
        # Nothing stays of a block when the next one comes.
        assert found.passes[-1]["rows_streamed"] == 10 * len(y)
    changes = np.diff([done["dual_objective"] for done in found.passes]) > 0
    scans = 1 + (solver == "ocas")
    assert changes[scans - 1 :: scans].all()
    assert scans == 1 or not changes[::scans].any()


@plain
def test_data_that_fit_are_read_once(solver, tmp_path):
    X, y = random_problem()
    dataset = make_dataset(tmp_path / "data", X, y)
    kept = train(tmp_path / "kept", dataset, 10 << 20, solver=solver, tolerance=None, max_passes=10)
    assert kept.passes[-1]["rows_streamed"] == len(y)
    streamed = train(tmp_path / "streamed", dataset, SMALLEST_CACHE, solver=solver, tolerance=None, max_passes=10)
    bounds = [[done["dual_objective"] for done in found.passes] for found in (kept, streamed)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


@plain
def test_tolerance_is_the_papers(solver, tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem())
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, solver=solver, C=2.0, tolerance=5e-3, max_passes=2000)
    assert (found.result["stop_reason"], found.result["converged"]) == ("tolerance", True)
    between = [done["primal_bound"] - done["dual_objective"] for done in found.passes]
    at_zero = 2.0 * Dataset(dataset).manifest.n_rows
    assert between[-1] <= 5e-3 * at_zero < between[-2]
    check_certificate(found, exact(dataset, C=2.0))


@plain
def test_a_loss_it_does_not_have_is_refused(solver):
    with refused(ServiceError, "solver_loss"):
        parse_spec({"dataset": "d", "solver": solver, "loss": "squared_hinge"})
    assert SOLVERS[solver].losses == ("hinge",)
