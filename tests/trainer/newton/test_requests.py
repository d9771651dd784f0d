"""Rows in several parts, whose answers are added up, take the steps of all rows in one place."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.run.rounds import NEWTON_REPLY, NEWTON_REQUEST
from streamsvm.trainer.distributed.newton_rows import ShardRows
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


def test_a_machine_whose_system_is_too_large_says_so(tmp_path):
    rows = ShardRows(tmp_path, SimpleNamespace(shards=2), None, np.zeros((3, 1)))
    rows.rows_from(lambda: "all rows", ALONE)
    rows._rows = OfMany()
    (tmp_path / NEWTON_REQUEST).write_bytes(pickle.dumps(Request()))
    rows.answer()
    with pytest.raises(TooLarge):
        unpickled((tmp_path / NEWTON_REPLY).read_bytes())


def rows_of(loss, n, d, in_parts):
    """The same rows as so many parts of unequal sizes; the last one may have none."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    y = np.where(y > 0, 1.0, -1.0) if loss in MARGIN else y
    weight, fold = rng.choice([0.5, 1.0, 3.0], n), rng.integers(0, 2, n)
    ends = np.linspace(0, n, in_parts).astype(int)[1:] if in_parts > 1 else [n]
    parts = np.split(np.arange(n), ends) if in_parts > 1 else [np.arange(n)]
    return [Rows(X[some], y[some], loss, fold[some], weight[some]) for some in parts]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(150, 6), (60, 90)], ids=["of features", "of rows"])
def test_any_number_of_parts_takes_as_many_scans_to_the_same_optimum(loss, n, d, monkeypatch):
    monkeypatch.setattr(system, "_FEW", 0)  # systems of rows for so few features, too
    tasks = Tasks(loss, (Task(0, None, 1.0, 2.0), Task(0, 1, 100.0, 100.0)), n_folds=2, epsilon=0.1)
    whole, P, scans = rows_of(loss, n, d, 1)[0], [], []
    for in_parts in (1, 3, 4):
        rows, w = Parts(rows_of(loss, n, d, in_parts), tasks), np.zeros((d, tasks.width))
        steps = NewtonSteps(tasks, rows, w, [0, 1], lambda _distance, gap: gap <= GAP)
        while steps.active:
            steps.step()
        steps.put_back()
        assert all(task.is_done for task in steps.each.values())
        P.append([primal(whole.problem(tasks, number), w[:, number]) for number in (0, 1)])
        scans.append(steps.scans)
        assert steps.requests <= 10 * steps.scans
    assert np.allclose(P, P[0], rtol=2 * GAP)
    assert max(scans) - min(scans) <= 0.1 * min(scans) + 2
