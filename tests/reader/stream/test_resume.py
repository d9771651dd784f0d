"""What a checkpoint holds is checked against the rows before training goes on from it."""

import numpy as np
import pytest

from streamsvm.reader.stream.resume import WeightCheck
from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.rows.csr import add_rows
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.objective import OBJECTIVES, REGRESSION, make_objective
from tests.contracts.kernels import columns

C, EPSILON, WIDTH = {1: 2.0, -1: 0.5}, 0.7, 60


@pytest.fixture(params=OBJECTIVES)
def problem(request):
    """(loss, objective, rows, alpha at its bounds and between)."""
    _, *rest = columns(seed=2)
    rows = Segment(np.arange(len(rest[0]), dtype=np.int32), *rest)
    share = np.random.default_rng(0).choice([0.0, 0.3, 1.0], len(rows))
    upper = C[1] if request.param in REGRESSION else np.where(rows.y > 0, C[1], C[-1])
    return request.param, make_objective(request.param, C[1], C[-1], EPSILON), rows, share * upper


def check(objective, rows, alpha, shift=0.0):
    """Of the w that this alpha makes, all of it moved by `shift`."""
    w = np.zeros(WIDTH)
    add_rows(objective.coefficients(rows.y, alpha), rows.indptr, rows.indices, rows.values, w)
    checking = WeightCheck(objective, alpha, w + shift)
    checking.add(rows)
    checking.finish()


def test_what_is_sound_passes(problem):
    _, objective, rows, alpha = problem
    check(objective, rows, alpha)


def test_alpha_out_of_its_bounds_is_unsound(problem):
    """Though w is what it makes."""
    loss, objective, rows, alpha = problem
    outside = {
        "hinge": [-1e-9, 2.5],
        "squared_hinge": [-1e-9],
        "logistic": [-1e-9, 2.5],
        "epsilon_insensitive": [-2.5, 2.5],
        "squared_epsilon_insensitive": [],
    }[loss]
    for value in (*outside, np.nan):
        alpha[3] = value
        with pytest.raises(CheckpointUnsound, match="row 3: out of its bounds"):
            check(objective, rows, alpha)


def test_the_bound_is_that_of_the_rows_own_class():
    _, *rest = columns(seed=2)
    rows = Segment(np.arange(len(rest[0]), dtype=np.int32), *rest)
    objective = make_objective("hinge", C[1], C[-1], EPSILON)
    for sign, is_sound in ((1, True), (-1, False)):
        alpha = np.zeros(len(rows))
        alpha[np.flatnonzero(rows.y == sign)[0]] = 1.0
        if is_sound:
            check(objective, rows, alpha)
        else:
            with pytest.raises(CheckpointUnsound):
                check(objective, rows, alpha)


def test_weights_that_alpha_does_not_make_are_unsound(problem):
    _, objective, rows, alpha = problem
    with pytest.raises(CheckpointUnsound, match="differ"):
        check(objective, rows, alpha, shift=1e-6)
