"""Momentum from sweep to sweep: the same optimum in fewer of them, with alpha inside its bounds at the end of each."""

import numpy as np
import pytest

import trainer.momentum
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import check_certificate, exact
from tests.trainer.test_kernels import BOUNDS, count_free, setting
from tests.training import train
from trainer.kernels.dual import visit_rows
from trainer.momentum import Momentum, beta
from trainer.solvers.resident_sweeps import ResidentSweeps
from trainer.steps import Steps
from trainer.tally import Tally

ALL_ROWS = 8 << 20  # bytes of cache, more than the rows need


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Rows with much in common, many of them free: sweeps alone come to the optimum slowly."""
    return make_dataset(tmp_path_factory.mktemp("data") / "data", *random_problem(1000, noise=0.1))


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([], 0.0),
        ([9.0, 3.0], 0.0),
        ([0.0, 0.0, 0.0, 0.0], 0.0),
        ([1.0, 1.0, 1.0], 1 / 4),
        ([1.0, 1.0, 1.0, 1.0], 2 / 5),
        ([1.0, 2.0] * 30, 0.9),
        ([0.6**k for k in range(20)], 0.6 / 1.4),
        ([1e9, *[0.1**k for k in range(9)]], 0.1 / 1.9),
    ],
)
def test_beta_follows_the_rate_at_which_the_gap_falls(gaps, expected):
    assert beta(gaps) == pytest.approx(expected)


class Sweeps:
    """Sweeps over the rows of the kernels' tests."""

    def __init__(self, loss, seed):
        self.rows, self.dense, self.bounds, self.U, self.D, *_ = setting(loss, seed)
        self.row_id, self.y = self.rows[:2]
        self.alpha, self.w = np.zeros(2 * len(self.row_id)), np.zeros(self.dense.shape[1])
        self.tally = Tally(self.alpha, self.w)
        self.momentum = Momentum(self.alpha, self.w, self.tally, np.empty_like(self.w))
        self.gaps = []
        self.rng = np.random.default_rng(seed)

    def begin(self):
        self.momentum.begin_sweep(self.gaps, len(self.alpha), len(self.w))

    def visit(self, order):
        score, gain = np.empty(len(self.row_id), np.float32), np.empty(len(order))
        found = visit_rows(order, *self.rows, *self.bounds, self.alpha, self.momentum.feasible, self.w, score, gain)
        self.tally.add(len(order), *found)
        return -float(np.minimum(score[order], 0).sum())

    def sweep(self):
        """Returns whether alpha was outside its bounds in between."""
        self.begin()
        was_outside = not self.is_inside
        self.gaps.append(self.visit(self.rng.permutation(len(self.row_id)).astype(np.int32)))
        self.momentum.end_sweep()
        return was_outside

    @property
    def is_inside(self):
        own = self.alpha[self.row_id]
        return bool(np.all((own >= 0) & (own <= self.U)))

    @property
    def w_of_alpha(self):
        return self.dense.T @ (self.alpha[self.row_id] * self.y)


@pytest.mark.parametrize("loss", BOUNDS)
@pytest.mark.parametrize("seed", range(3))
def test_each_sweep_ends_inside_the_bounds_with_the_w_and_the_figures_of_alpha(loss, seed, monkeypatch):
    monkeypatch.setattr(trainer.momentum, "beta", lambda gaps: 0.9 if gaps else 0.0)
    sweeps, outside = Sweeps(loss, seed), 0
    for _ in range(12):
        outside += sweeps.sweep()
        own = sweeps.alpha[sweeps.row_id]
        assert sweeps.is_inside
        assert sweeps.w == pytest.approx(sweeps.w_of_alpha, rel=1e-9, abs=1e-11)
        curvature, free = sweeps.tally.of_alpha
        assert curvature == pytest.approx(np.sum(sweeps.D * own**2) / 2, rel=1e-9, abs=1e-12)
        assert free == count_free(own, sweeps.U)
    assert outside > 0


@pytest.mark.parametrize("loss", BOUNDS)
def test_a_sweep_that_is_undone_has_not_been(loss):
    sweeps = Sweeps(loss, 0)
    for _ in range(5):
        sweeps.sweep()
    before, of_alpha = (sweeps.alpha.copy(), sweeps.w.copy()), sweeps.tally.of_alpha
    sweeps.begin()
    sweeps.visit(np.arange(7, dtype=np.int32))
    assert not np.array_equal(sweeps.alpha, before[0])
    sweeps.momentum.undo()
    assert np.array_equal(sweeps.alpha, before[0])
    assert np.array_equal(sweeps.w, before[1])
    assert sweeps.tally.of_alpha == of_alpha
    assert sweeps.momentum.feasible is sweeps.alpha


def test_rows_that_have_moved_are_those_that_momentum_moves_next():
    sweeps = Sweeps("hinge", 1)
    every = np.arange(len(sweeps.alpha), dtype=np.int32)
    assert not sweeps.momentum.has_moved(every).any()
    for _ in range(4):
        sweeps.sweep()
    told, before = sweeps.momentum.has_moved(every), sweeps.alpha.copy()
    sweeps.begin()
    assert np.array_equal(told, sweeps.alpha != before)
    assert 0 < np.count_nonzero(told) < len(every)
    sweeps.momentum.forget()
    assert not sweeps.momentum.has_moved(every).any()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_full_cache_takes_fewer_visits(tmp_path, dataset, loss, monkeypatch):
    settings = {"loss": loss, "C": 10.0, "tolerance": None, "relative_gap": 1e-6, "updates_per_row": 20.0}
    found = train(tmp_path / "run", dataset, ALL_ROWS, **settings)
    check_certificate(found, exact(dataset, loss=loss, C=10.0))
    monkeypatch.setattr(trainer.momentum, "_LARGEST", 0.0)
    without = train(tmp_path / "without", dataset, ALL_ROWS, **settings)
    assert found.passes[-1]["updates"] < 0.7 * without.passes[-1]["updates"]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_job_that_is_stopped_does_not_finish_its_sweep(tmp_path, dataset, loss, monkeypatch):
    # Only a job with time to spare, whose sections need not be repeatable, may drop a part of one.
    monkeypatch.setattr(ResidentSweeps, "_is_reproducible", property(lambda _: False, lambda *_: None), raising=False)
    asked, undone, undo = [], [], Momentum.undo

    def is_interrupted(steps):
        asked.append(None)
        if len(asked) == 6:
            steps._state.control["stop"] = 1
        return len(asked) >= 6

    monkeypatch.setattr(Steps, "is_interrupted", property(is_interrupted))
    monkeypatch.setattr(Momentum, "undo", lambda momentum: (undone.append(None), undo(momentum)))
    settings = {"loss": loss, "C": 10.0, "tolerance": None, "max_passes": 50, "updates_per_row": 3.3}
    found = train(tmp_path / "run", dataset, ALL_ROWS, **settings)
    assert found.result["stop_reason"] == "stopped" and undone
    assert found.result["certificate"]["w_error"] < 1e-12
    assert found.result["certificate"]["dual_objective"] == pytest.approx(found.passes[-1]["dual_objective"], rel=1e-9)
    assert found.alpha.min() == 0 and (loss != "hinge" or found.alpha.max() == 10.0)
