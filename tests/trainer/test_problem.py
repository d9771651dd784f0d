"""A problem is checked once; its loss is two numbers."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from streamsvm.storage.rows.cache import Step
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.statistics import DualStatistics, VisitSums
from streamsvm.trainer.updates.variables import Variables


def test_losses_are_pairs():
    for loss, U, D in (("hinge", [2.0, 0.5], [0.0, 0.0]), ("squared_hinge", [math.inf] * 2, [0.25, 1.0])):
        table = Tasks.single(loss, 2.0, 0.5).table
        assert (table.U[:, 0].tolist(), table.D[:, 0].tolist(), table.sign[:, 0].tolist()) == (U, D, [1.0, -1.0])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_U_of_zero_leaves_a_row_out_and_nothing_else_does(loss):
    each = (Task(0, None, 1.0, 2.0), Task(2, 1, 3.0, 4.0))
    tasks = Tasks(loss, each, (5.0, 7.0, 9.0), n_folds=2)
    table = tasks.table
    assert table.U.shape == (3 * 2, tasks.width) and not table.U[:, 2:].any() and not table.D[:, 2:].any()
    # Kinds are classes times folds: the second task leaves fold 1 of each class out.
    assert (table.U[:, 1] == 0).tolist() == [False, True] * 3 and (table.U[:, 0] > 0).all()
    assert table.sign[:, 1].tolist() == [-1.0] * 4 + [1.0] * 2
    assert tasks.leaving_rows_out == (1,)


def test_tasks_come_back_from_a_document():
    tasks = Tasks("hinge", (Task(0, None, 1.0, 2.0), Task(1, 0, 3.0, 4.0)), (1.0, -1.0), 3, 7, 0.1)
    assert Tasks.of(json.loads(json.dumps(asdict(tasks)))) == tasks


@pytest.mark.parametrize("C", [0.0, -1.0, math.inf, math.nan])
def test_C_is_a_positive_number(C):
    for both in ((C, 1.0), (1.0, C)):
        with pytest.raises(ValueError, match="C is"):
            Task(0, None, *both)


def test_unknown_loss_is_named():
    with pytest.raises(ValueError, match=r"hinges.*logistic"):
        Tasks.single("hinges", 1.0)


def test_progress_has_both_gaps():
    progress = PassProgress(1, 2, 0.5, -0.25, 0, dual_objective=9.0, primal_bound=10.0, free_rows=0)
    assert progress.gap == 0.75
    assert progress.relative_gap_bound == pytest.approx(0.1)
    assert replace(progress, dual_objective=np.nextafter(10.0, 11.0)).relative_gap_bound == 0.0


def sums(*figures):
    return VisitSums(*np.array(figures, float)[:, np.newaxis])


def test_tally_keeps_sums_over_the_run_and_gradients_of_the_pass():
    alpha, w = np.array([0.0, 1.0, 0.25]), np.array([3.0, 4.0])
    tally = DualStatistics(Variables(Tasks.single("hinge", 1.0), alpha[:, np.newaxis], w[:, np.newaxis]))
    tally.add(10, sums(0.5, -0.5, 2.0, 3, 0.0, 0.0))
    tally.add(5, sums(0.1, -2.0, 0.5, -2, 0.0, 0.0))
    step = Step(9, 3, 2, 1, 0, 0, 0, 0, 0, True, True, (0.0,), (), ())
    first = tally.finish_pass(step, 7, primal=np.array([20.0]))
    assert (first.updates, first.M_plus, first.M_minus, first.rows_unvisited) == (15, 0.5, -2.0, 7)
    assert first.dual_objective == pytest.approx(1.25 - 12.5 - 2.5)
    assert first.free_rows == 1
    tally.add(1, sums(0.0, 0.0, -1.0, 0, 0.0, 0.0))
    second = tally.finish_pass(step, 0, primal=np.array([30.0]))
    assert (second.updates, second.gap) == (16, 0.0)
    assert second.dual_objective == pytest.approx(1.25 - 12.5 - 1.5)
    # P holds for every w: the least bound counts.
    assert (first.primal_bound, second.primal_bound) == (20.0, 20.0)
