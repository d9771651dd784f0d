"""Whether Newton steps are the quicker end: cases of what sweeps have shown."""

from math import inf, nan

import numpy as np
import pytest

from streamsvm.trainer.newton.choice import (
    LEAST_SWEEPS,
    Outlook,
    is_newton_quicker,
    is_newton_quicker_than_rounds,
    shares_left,
)
from streamsvm.trainer.updates.convergence import StoppingTargets

# A table of a million rows and 28 columns, whose gap falls by a thousandth in a sweep.
TABLE = Outlook(
    rates=(0.999,), shares_left=(1e-3,), visits=1_000_000, n_values=29_000_000, n_rows=1_000_000, n_features=29,
    n_free=300_000,
)  # fmt: skip


def changed(**fields):
    return Outlook(**{**TABLE.__dict__, **fields})


# Text at a large C: the gap does not fall at first, and yet one or two hundred sweeps are enough.
TEXT = changed(n_features=62_061, n_free=4_000, visits=16_000, n_values=1_300_000, n_rows=16_000, rates=(1.2,))
IMAGES = changed(
    n_features=781, n_free=22_829, visits=55_652, n_values=9_144_156, n_rows=60_000, rates=(0.9928,) * 10,
    shares_left=(0.0011,) * 10,
)  # fmt: skip


@pytest.mark.parametrize(
    ("sweeps", "outlook", "is_quicker"),
    [
        (LEAST_SWEEPS, TABLE, True),
        # No rate is known, or the gap has not fallen: sweeps would have no end.
        (5, changed(rates=(1.0,)), True),
        (5, changed(rates=(1.7,)), True),
        # There is no target, or there is no way to tell: neither has an end.
        (5, changed(shares_left=(0.0,)), True),
        # The target is met.
        (5, changed(shares_left=(1.0,)), False),
        (5, changed(shares_left=(3.0,), rates=(1.0,)), False),
        # Sweeps that converge quickly end first.
        (5, changed(rates=(0.3,)), False),
        (5, changed(rates=(0.0,)), False),
        # One task of two is slow.
        (10, changed(rates=(0.3, 0.999), shares_left=(1e-3, 1e-3)), True),
        (5, changed(rates=(0.3, 0.999), shares_left=(1e-3, 1.0)), False),
        # Text: many features, and many rows that are free. Directions are found by iterations, if sweeps take longer.
        (5, changed(n_features=700_000, n_free=11_540, rates=(0.7,)), False),
        (500, changed(n_features=700_000, n_free=11_540, rates=(1.0,)), True),
        # Images in ten classes: gaps hardly fall at first, rise now and then, and sweeps end in a third of the time.
        (5, IMAGES, False),
        (20, changed(**{**IMAGES.__dict__, "n_free": 16_001, "visits": 52_084, "rates": (0.946,) * 10}), False),
        (50, changed(**{**IMAGES.__dict__, "n_free": 4_429, "visits": 28_560, "rates": (0.95,) * 10}), False),
        (5_000, IMAGES, True),
        # Rows of a system would not fit into memory.
        (500, changed(n_features=700_000, n_free=1_000_000, n_values=300_000_000, rates=(1.0,)), False),
        # Many rows are free, and the gap has not fallen: sweeps are tried before systems that take minutes.
        (60, TEXT, False),
        (60_000, TEXT, True),
        # Few rows are free: a system of these.
        (5, changed(n_features=700_000, n_free=300), True),
        # A system that takes longer to solve than sweeps of a small table.
        (5, changed(n_features=7_000, n_free=5_000, visits=1_000, n_values=29_000, n_rows=1_000), False),
        # No row is free yet.
        (5, changed(n_free=0), True),
        # No task is trained.
        (5, changed(rates=(), shares_left=()), False),
    ],
)
def test_cases(sweeps, outlook, is_quicker):
    assert is_newton_quicker(sweeps, outlook) is is_quicker


@pytest.mark.parametrize(
    ("machines", "outlook", "is_quicker"),
    [
        (3, TABLE, True),
        (64, TABLE, True),
        (3, changed(shares_left=(1.0,)), False),
        # Text: systems are too large, or cost more than the sweeps that are left.
        (3, changed(n_features=700_000, n_free=11_540, rates=(1.0,)), False),
        (2, changed(n_features=2_001, n_free=1_373, visits=1_373, n_rows=6_000, n_values=361_785, rates=(0.9,)), False),
        # So many machines send more than they save.
        (2, changed(n_features=2_000, n_values=1e8, rates=(0.96,)), True),
        (256, changed(n_features=2_000, n_values=1e8, rates=(0.96,)), False),
        # A few rows: a round takes as long as what machines say in it, and so does a step.
        (2, changed(n_features=6, n_rows=480, n_free=60, visits=60, n_values=3360, rates=(0.9,)), False),
        (2, changed(n_features=6, n_rows=480, n_free=60, visits=60, n_values=3360, rates=(1.0,)), True),
        (2, changed(rates=(), shares_left=()), False),
    ],
)
def test_cases_of_several_machines(machines, outlook, is_quicker):
    assert is_newton_quicker_than_rounds(outlook, machines) is is_quicker


def test_sweeps_left_are_those_until_the_gap_is_its_share():
    assert changed(rates=(0.5,), shares_left=(1 / 8,)).sweeps_left == pytest.approx(3.0)
    assert changed(rates=(0.5, 0.1), shares_left=(1 / 8, 1e-5)).sweeps_left == pytest.approx(5.0)
    assert changed(rates=(1.0,)).sweeps_left == inf
    assert changed(rates=(0.0,)).sweeps_left == 1.0


def left(tolerance, relative_gap, distance, gap, D):
    targets = StoppingTargets(tolerance, relative_gap)
    return shares_left(targets, *(np.array([value]) for value in (distance, gap, D))).item()


def test_shares_left_are_of_each_target():
    assert left(None, 1e-2, 1.0, 10.0, 90.0) == pytest.approx(0.1)
    assert left(0.05, None, 1.0, 10.0, 90.0) == pytest.approx(0.05)
    assert left(None, None, 1.0, 10.0, 90.0) == 0.0
    # At the optimum, and before D is known.
    assert left(None, 1e-2, 0.0, 0.0, 90.0) >= 1.0
    assert left(0.05, None, 0.0, 0.0, 90.0) >= 1.0
    assert not left(None, 1e-2, 1.0, nan, nan) < 1.0


def test_a_loss_that_is_not_smooth_is_not_iterated():
    text = changed(n_features=700_000, n_free=11_540, rates=(1.0,))
    assert is_newton_quicker(500, text) and not is_newton_quicker(500, text, may_iterate=False)
