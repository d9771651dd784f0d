"""What a checkpoint holds is checked against the rows before training goes on from it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from streamsvm.reader.stream.resume import WeightCheck
from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.trainer.problem.losses import LOSSES, REGRESSION
from streamsvm.trainer.problem.objective import add_to_w
from tests.contracts.objectives import C, numbered_rows, objective_of

WIDTH = 60
rows_of = partial(numbered_rows, seed=2)


@pytest.fixture(params=LOSSES)
def problem(request):
    """(loss, objective, rows, alpha at its bounds and between)."""
    rows = rows_of(request.param)
    share = np.random.default_rng(0).choice([0.0, 0.3, 1.0], len(rows))
    upper = C[1] if request.param in REGRESSION else np.where(rows.class_code == 0, C[1], C[-1])
    return request.param, objective_of(request.param), rows, share * upper


def check(objective, rows, alpha, shift=0.0):
    """Of the w that this alpha makes, all of it moved by `shift`."""
    w, alpha = np.zeros((WIDTH, 1)), alpha[:, np.newaxis]
    add_to_w(rows, objective.coefficients(objective.tasks.terms(rows), alpha), w)
    checking = WeightCheck(objective, alpha, w + shift)
    checking.add(rows)
    checking.finish()


def test_what_is_sound_passes(problem):
    _, objective, rows, alpha = problem
    check(objective, rows, alpha)


def test_rounding_is_sound_where_terms_cancel_out():
    """Each row comes as both classes, with one alpha: of their sum nothing is left but rounding."""
    rows, objective = rows_of("hinge"), objective_of("hinge")
    alpha, v = np.full((len(rows), 1), 0.3), np.zeros((WIDTH, 1))
    for share, is_sound in ((1e-13, True), (1e-11, False)):
        size = 2 * 0.3 * np.sqrt(rows.Qii).sum()
        v[0] = share * size
        checking = WeightCheck(objective, alpha, v)
        for code in (0, 1):
            checking.add(replace(rows, class_code=np.full(len(rows), code, rows.class_code.dtype)))
        if is_sound:
            checking.finish()
        else:
            with pytest.raises(CheckpointUnsound):
                checking.finish()


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
    rows, objective = rows_of("hinge"), objective_of("hinge")
    for sign, is_sound in ((1, True), (-1, False)):
        alpha = np.zeros(len(rows))
        alpha[np.flatnonzero(rows.class_code == (sign < 0))[0]] = 1.0
        if is_sound:
            check(objective, rows, alpha)
        else:
            with pytest.raises(CheckpointUnsound):
                check(objective, rows, alpha)


def test_weights_that_alpha_does_not_make_are_unsound(problem):
    _, objective, rows, alpha = problem
    with pytest.raises(CheckpointUnsound, match="differ"):
        check(objective, rows, alpha, shift=1e-6)
