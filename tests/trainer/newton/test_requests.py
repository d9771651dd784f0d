"""Rows in several parts, whose answers are added up, take the steps of all rows in one place."""

import pickle

import numpy as np
import pytest

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.trainer.distributed.shard import answered
from streamsvm.trainer.newton import system
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.requests import Request, added, unpickled
from streamsvm.trainer.newton.run import NewtonSteps
from streamsvm.trainer.newton.scans import Scans
from streamsvm.trainer.newton.system import TooLarge
from streamsvm.trainer.problem.losses import LOSSES
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.sweeps.sweep import ALONE
from tests.reference.newton import MARGIN, primal
from tests.trainer.newton.kit import Rows

GAP = 1e-9


class Parts:
    """Rows of several machines; requests and replies are sent."""

    def __init__(self, parts, tasks):
        self.alpha = [np.zeros((len(part.X), tasks.width)) for part in parts]
        self._each = [
            OwnRows(tasks, Scans(part, len(part.X), UNMAPPED, ALONE, lambda rows: rows), alpha, part.X.shape[1])
            for part, alpha in zip(parts, self.alpha, strict=True)
        ]

    def answer(self, request):
        told = pickle.dumps(request)
        return added([pickle.loads(pickle.dumps(rows.answer(pickle.loads(told)))) for rows in self._each])


class OfMany:
    """Rows whose system turns out to be too large."""

    def answer(self, request):
        raise TooLarge


def test_a_machine_whose_system_is_too_large_says_so():
    with pytest.raises(TooLarge):
        unpickled(answered(OfMany(), Request(), 2.0))


def rows_of(loss, n, d, in_parts, seed=7):
    """The same rows as so many parts of unequal sizes; the last one may have none."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    y = np.where(y > 0, 1.0, -1.0) if loss in MARGIN else y
    weight, fold = rng.choice([0.5, 1.0, 3.0], n), rng.integers(0, 2, n)
    ends = np.linspace(0, n, in_parts).astype(int)[1:] if in_parts > 1 else [n]
    parts = np.split(np.arange(n), ends) if in_parts > 1 else [np.arange(n)]
    return [Rows(X[some], y[some], loss, fold[some], weight[some]) for some in parts]


def steps_in_parts(loss, n, d, in_parts, seed=7):
    """(steps, P of each task's model) of rows that are so many parts."""
    tasks = Tasks(loss, (Task(0, None, 1.0, 2.0), Task(0, 1, 100.0, 100.0)), n_folds=2, epsilon=0.1)
    rows, w = Parts(rows_of(loss, n, d, in_parts, seed), tasks), np.zeros((d, tasks.width))
    steps = NewtonSteps(tasks, rows, w, [0, 1], lambda _distance, gap: gap <= GAP)
    while steps.active:
        steps.step()
    steps.put_back()
    assert all(task.is_done for task in steps.each.values())
    (whole,) = rows_of(loss, n, d, 1, seed)
    models = [w[:, number] if task.best is None else task.best.w for number, task in steps.each.items()]
    return steps, [primal(whole.problem(tasks, number), model) for number, model in enumerate(models)]


def check_the_same_way(each):
    """Parts are added up in another order: of what rounding does, no scans and no searches may come."""
    scans = [steps.scans for steps, _ in each]
    assert np.allclose([P for _, P in each], each[0][1], rtol=2 * GAP)
    assert all(steps.requests <= 10 * steps.scans for steps, _ in each)
    assert max(scans) - min(scans) <= 0.1 * min(scans) + 2


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(150, 6), (60, 90)], ids=["of features", "of rows"])
def test_any_number_of_parts_takes_as_many_scans_to_the_same_optimum(loss, n, d, monkeypatch):
    monkeypatch.setattr(system, "_FEW", 0)  # systems of rows for so few features, too
    check_the_same_way([steps_in_parts(loss, n, d, in_parts) for in_parts in (1, 4)])


@pytest.mark.parametrize("seed", range(2))
def test_steps_do_not_wait_for_another_rounding(seed):
    """The steps that led nowhere, and the searches that bisected noise, were those of hinge loss near its target."""
    check_the_same_way([steps_in_parts("hinge", 60, 90, in_parts, seed) for in_parts in (1, 4)])
