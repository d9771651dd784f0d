"""Momentum from sweep to sweep: the same optimum in fewer of them, alpha inside its bounds; which sweep comes next."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import read_only
from streamsvm.storage.rows.segment import ROW_ID
from streamsvm.trainer.problem.lane_kernel import differ
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.sweeps.sweep import WHOLE_EVERY, Next, is_told, is_worth_threads, next_sweep
from streamsvm.trainer.updates.momentum import Momentum, beta, rate
from streamsvm.trainer.updates.statistics import DualStatistics, VisitSums
from streamsvm.trainer.updates.variables import Variables
from tests.contracts.kernels import BOXES, signs, visit
from tests.contracts.problems import a_dataset
from tests.contracts.solver import SMALLEST_CACHE, check_certificate, exact
from tests.trainer.test_kernels import count_free, setting
from tests.training import Turns, train

WHOLE, SHORT, STOP = Next
ALL_ROWS = 8 << 20  # bytes of cache, more than the rows need

# Rows with much in common, many of them free: sweeps alone come to the optimum slowly.
dataset = a_dataset(1000, noise=0.1)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([], 0.0),
        ([9.0, 3.0], 0.0),
        ([0.0, 0.0, 0.0, 0.0], 0.0),
        ([1.0, 1.0, 1.0], 1 / 4),
        ([1.0, 1.0, 1.0, 1.0], 2 / 5),
        ([1.0, 2.0] * 100, 0.98),
        ([0.6**k for k in range(20)], 0.6 / 1.4),
        ([1e9, *[0.1**k for k in range(9)]], 0.1 / 1.9),
    ],
)
def test_beta_follows_the_rate_at_which_the_gap_falls(gaps, expected):
    assert beta(gaps, len(gaps)) == pytest.approx(expected)


def test_the_rate_of_all_sweeps_sees_beyond_a_rise():
    gaps = [0.5**k for k in range(16)] + [0.5**11]
    assert rate(gaps) == pytest.approx(0.5 ** (3 / 8))
    assert rate(gaps, len(gaps)) == pytest.approx(0.5 ** (11 / 16))


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([], 1.0),
        ([9.0], 1.0),
        ([9.0, 3.0], 1 / 3),
        ([3.0, 9.0], 1.0),
        ([0.0, 0.0], 0.0),
        ([1e9, *[0.5**k for k in range(9)]], 0.5),
    ],
)
def test_rate_is_the_mean_of_late(gaps, expected):
    assert rate(gaps) == pytest.approx(expected)


FAR = [np.array([gap]) for gap in [1.0, 2.0] * 30]  # gaps: beta is at its largest


class Sweeps:
    """Sweeps over the rows of the kernels' tests, with as much momentum as there can be."""

    def __init__(self, loss, seed):
        self.rows, self.dense, self.box, self.U, self.D, *_ = setting(loss, seed)
        self.row_id, self.y = self.rows.row_id, signs(self.rows)
        self.alpha, self.w = np.zeros(2 * len(self.row_id)), np.zeros(self.dense.shape[1])
        scratch = np.empty((len(self.w), 1))
        self.variables = Variables(Tasks.single(loss, 1.0), self.alpha[:, None], self.w[:, None], lambda: scratch)
        self.statistics = DualStatistics(self.variables)
        step = Step(1, len(self.alpha), len(self.w), 1, 0, 0, 0, 0, 0, True, True, (), (), ())
        self.momentum = Momentum(self.variables, self.statistics, step)
        self.rng = np.random.default_rng(seed)

    def visit(self, order):
        found = visit(order, self.rows, self.box, self.alpha, self.w, before=self.variables.before.reshape(-1))
        self.statistics.add(len(order), VisitSums(*np.array([*found, 0.0, 0.0])[:, np.newaxis]))

    def sweep(self, yields=False):
        """Returns whether alpha was outside its bounds in between."""
        self.momentum.begin_sweep(FAR)
        was_outside = not self.is_inside
        self.visit(self.rng.permutation(len(self.row_id)).astype(np.int32))
        self.momentum.end_sweep(np.array([yields]))
        return was_outside

    @property
    def is_inside(self):
        own = self.alpha[self.row_id]
        return bool(np.all((own >= 0) & (own <= self.U)))

    @property
    def w_of_alpha(self):
        return self.dense.T @ (self.alpha[self.row_id] * self.y)


@pytest.mark.parametrize("loss", BOXES)
@pytest.mark.parametrize("seed", range(3))
def test_each_sweep_ends_inside_the_bounds_with_the_w_and_the_figures_of_alpha(loss, seed):
    sweeps, outside = Sweeps(loss, seed), 0
    for _ in range(12):
        outside += sweeps.sweep()
        own = sweeps.alpha[sweeps.row_id]
        assert sweeps.is_inside
        assert sweeps.w == pytest.approx(sweeps.w_of_alpha, rel=1e-9, abs=1e-11)
        curvature, free = sweeps.statistics.of_alpha
        assert curvature == pytest.approx(np.sum(sweeps.D * own**2) / 2, rel=1e-9, abs=1e-12)
        assert free == count_free(own, sweeps.U)
    assert outside > 0


@pytest.mark.parametrize("loss", BOXES)
def test_a_sweep_that_is_undone_has_not_been(loss):
    sweeps = Sweeps(loss, 0)
    for _ in range(5):
        sweeps.sweep()
    before, of_alpha = (sweeps.alpha.copy(), sweeps.w.copy()), sweeps.statistics.of_alpha
    sweeps.momentum.begin_sweep(FAR)
    sweeps.visit(np.arange(7, dtype=np.int32))
    assert not np.array_equal(sweeps.alpha, before[0])
    sweeps.momentum.undo()
    assert np.array_equal(sweeps.alpha, before[0])
    assert np.array_equal(sweeps.w, before[1])
    assert sweeps.statistics.of_alpha == of_alpha
    assert sweeps.variables.before is sweeps.variables.alpha


def test_rows_that_have_moved_are_those_that_momentum_moves_next():
    sweeps = Sweeps("hinge", 1)
    every = np.arange(len(sweeps.alpha), dtype=np.int32)
    assert not sweeps.momentum.has_moved(every).any()
    for _ in range(4):
        sweeps.sweep()
    told, before = sweeps.momentum.has_moved(every), sweeps.alpha.copy()
    sweeps.momentum.begin_sweep(FAR)
    assert np.array_equal(told, sweeps.alpha != before)
    assert 0 < np.count_nonzero(told) < len(every)


def test_a_row_differs_if_one_of_its_lanes_does():
    now, earlier, out = np.ones((5, 4)), np.ones((5, 4)), np.empty(4, bool)
    earlier[1, 3] = earlier[4, 0] = 0.0
    differ(now, earlier, *read_only(np.array([4, 2, 1, 0], ROW_ID)), out)
    assert out.tolist() == [True, False, True, False]


def test_a_sweep_that_brought_nothing_is_followed_by_one_without_momentum():
    """And that one by one that has it again."""
    sweeps = Sweeps("hinge", 1)
    for _ in range(4):
        sweeps.sweep()
    moved = []
    for yields in (False, True, False, False):
        before = sweeps.alpha.copy(), sweeps.w.copy()
        sweeps.momentum.begin_sweep(FAR)
        moved.append(not (np.array_equal(sweeps.alpha, before[0]) and np.array_equal(sweeps.w, before[1])))
        sweeps.visit(np.arange(len(sweeps.row_id), dtype=np.int32))
        sweeps.momentum.end_sweep(np.array([yields]))
    assert moved == [True, True, False, True]


WAYS = [{"on_disk": True}, {"cache_bytes": ALL_ROWS}]


@pytest.mark.parametrize(
    ("way", "loss"), [(WAYS[0], "hinge"), (WAYS[1], "squared_hinge")], ids=["on disk", "in the cache"]
)
def test_sweeps_that_follow_each_other_take_fewer_visits(tmp_path, dataset, loss, way):
    """Momentum begins anew with each pass: where a pass has two sweeps there is none."""
    settings = {"loss": loss, "C": 10.0, "tolerance": None, "relative_gap": 1e-6, "max_passes": 2000}
    settings = {"cache_bytes": SMALLEST_CACHE, **settings, **way}
    found, without = (
        train(tmp_path / f"{sweeps}", dataset, updates_per_row=sweeps, **settings) for sweeps in (20.0, 2.0)
    )
    for run in (found, without):
        check_certificate(run, exact(dataset, loss=loss, C=10.0))
        assert run.result["stop_reason"] == "relative_gap"
    assert found.passes[-1]["updates"] < 0.7 * without.passes[-1]["updates"]


class Stopping(Turns):
    """The user wants an end in the middle of a sweep, or just at its end."""

    def __init__(self, looks, at, *args):
        super().__init__(*args)
        self._looks, self._at = looks, at

    @property
    def is_interrupted(self):
        self._looks.append(None)
        if len(self._looks) == self._at:
            self.control["stop"] = 1
        return super().is_interrupted


@pytest.mark.parametrize(
    ("way", "loss"), [(WAYS[0], "hinge"), (WAYS[1], "squared_hinge")], ids=["on disk", "in the cache"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_that_is_stopped_does_not_finish_its_sweep(tmp_path, dataset, loss, way, threads):
    settings = {"loss": loss, "C": 10.0, "tolerance": None, "max_passes": 50, "updates_per_row": 12, **way}
    settings = {"cache_bytes": SMALLEST_CACHE, "threads": threads, **settings}
    after = []
    for at in (41, 42):
        looks = []
        found = train(tmp_path / f"{at}", dataset, link=partial(Stopping, looks, at), **settings)
        after.append(len(looks) - at)
        assert found.result["stop_reason"] == "stopped"
        certificate, upper = found.result["certificate"], 10.0 if loss == "hinge" else np.inf
        assert certificate["w_error"] < 1e-12
        assert certificate["dual_objective"] == pytest.approx(found.passes[-1]["dual_objective"], rel=1e-9)
        assert found.alpha.min() == 0 and found.alpha.max() <= upper
        # Bounds are met to the bit.
        assert np.count_nonzero(found.alpha == 0) > 10
    # One of the two was in the middle: nobody looked at what else there was, but whether the sweep counts.
    assert 1 in after and max(after) <= 1


@pytest.mark.parametrize(
    ("sweeps", "has_to_end", "expected"),
    [(0, False, WHOLE), (0, True, STOP), (1, False, SHORT), (1, True, STOP), (WHOLE_EVERY, True, STOP)],
)
def test_next_sweep(sweeps, has_to_end, expected):
    assert next_sweep(sweeps, has_to_end) == expected


def test_each_fifth_is_whole():
    kinds = [next_sweep(sweeps, False) for sweeps in range(40)]
    assert [k for k, kind in enumerate(kinds) if kind is WHOLE] == list(range(0, 40, WHOLE_EVERY))
    assert STOP not in kinds


def test_a_history_has_the_first_sweeps_and_ever_fewer_of_the_rest():
    told = [sweep for sweep in range(1, 10_001) if is_told(sweep)]
    assert told[:31] == list(range(1, 32))
    assert len([sweep for sweep in told if sweep <= 200]) < 75 and len(told) < 200
    # A curve over them has no hole: the next one comes within a sixteenth.
    assert all(after - before <= max(1, before / 16) for before, after in pairwise(told))


@pytest.mark.parametrize(
    ("n_bytes", "n_rows", "expected"),
    [
        (456 << 20, 200_000, True),  # text
        (63 << 20, 25_000, False),  # little of it
        (456 << 20, 4_000_000, False),  # rows as short as the lock they would wait for
    ],
)
def test_threads_share_sweeps_over_many_long_rows(n_bytes, n_rows, expected):
    assert is_worth_threads(n_bytes, n_rows) == expected
