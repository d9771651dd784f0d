"""A problem is checked once; its loss is two numbers."""

import math

import numpy as np
import pytest

from streamsvm.storage.rows.cache import Step
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.updates.progress import Progress
from streamsvm.trainer.updates.statistics import Tally
from streamsvm.trainer.updates.sums import Sums


def test_losses_are_pairs():
    assert Problem("hinge", 2.0, 0.5).box == (2.0, 0.0, 0.5, 0.0)
    assert Problem("squared_hinge", 2.0, 0.5).box == (math.inf, 0.25, math.inf, 1.0)


@pytest.mark.parametrize("C", [0.0, -1.0, math.inf, math.nan])
def test_C_is_a_positive_number(C):
    for both in ((C, 1.0), (1.0, C)):
        with pytest.raises(ValueError, match="C is"):
            Problem("hinge", *both)


def test_unknown_loss_is_named():
    with pytest.raises(ValueError, match=r"hinges.*logistic"):
        Problem("hinges", 1.0, 1.0)


def test_progress_has_both_gaps():
    progress = Progress(1, 2, 0.5, -0.25, 0, dual_objective=9.0, primal_bound=10.0, free_rows=0)
    assert progress.gap == 0.75
    assert progress.relative_gap_bound == pytest.approx(0.1)


def test_tally_keeps_sums_over_the_run_and_gradients_of_the_pass():
    alpha, w = np.array([0.0, 1.0, 0.25]), np.array([3.0, 4.0])
    tally = Tally(alpha, w)
    tally.add(10, Sums(0.5, -0.5, 2.0, 3, 0.0, 0.0))
    tally.add(5, Sums(0.1, -2.0, 0.5, -2, 0.0, 0.0))
    step = Step(9, 3, 2, 1, 0, 0, 0, 0, 0, True, True, (0.0,), (), ())
    first = tally.finish_pass(step, 7, primal=20.0)
    assert (first.updates, first.M_plus, first.M_minus, first.rows_unvisited) == (15, 0.5, -2.0, 7)
    assert first.dual_objective == pytest.approx(1.25 - 12.5 - 2.5)
    assert first.free_rows == 1
    tally.add(1, Sums(0.0, 0.0, -1.0, 0, 0.0, 0.0))
    second = tally.finish_pass(step, 0, primal=30.0)
    assert (second.updates, second.gap) == (16, 0.0)
    assert second.dual_objective == pytest.approx(1.25 - 12.5 - 1.5)
    # P holds for every w: the least bound counts.
    assert (first.primal_bound, second.primal_bound) == (20.0, 20.0)
