"""What a sweep met is what its rows say, and a guess at how near training has come."""

import numpy as np
import pytest

from trainer.solvers.active_set import has_slowed_down
from trainer.sweep import Sweep, Visits


def visits(score, gain, M_plus=0.0, M_minus=0.0):
    return Visits(np.array(score, np.float32), np.array(gain, float), M_plus, M_minus)


def test_it_adds_up():
    sweep = Sweep()
    assert sweep.moved == 0.0
    sweep.add(visits([-0.5, 0.25], [2.0, 0.0], 0.5, -0.25), np.array([1.0, 3.0]))
    sweep.add(visits([-1.5], [0.5], 0.25, -2.0), np.array([4.0]))
    sweep.add(visits([], [], -np.inf, np.inf), np.array([]))
    # What rests has no part in P - D; the steps were 2 and 2 / 2 long, in margins 2 and 2.
    assert (sweep.visits, sweep.gap, sweep.M_plus, sweep.M_minus) == (3, 2.0, 0.5, -2.0)
    assert sweep.moved == pytest.approx(np.sqrt((2.0**2 + 0.0 + 2.0**2) / 3))


@pytest.mark.parametrize(
    ("tolerance", "relative_gap", "likely"),
    [
        (None, None, False),
        (0.51, None, True),
        (0.49, None, False),
        (None, 0.101, True),
        (None, 0.099, False),
        (0.49, 0.101, True),
    ],
)
def test_what_is_likely(tolerance, relative_gap, likely):
    sweep = Sweep()
    sweep.add(visits([-1.0], [0.0], 0.25, -0.25), np.ones(1))
    assert sweep.has_likely_converged(9.0, tolerance, relative_gap) == likely


def test_nothing_met_is_nothing_known():
    assert not Sweep().has_likely_converged(9.0, 1e-3, None)


@pytest.mark.parametrize(
    ("gaps", "slow"),
    [
        ([], False),
        ([1.0] * 30, False),
        ([1.0] * 31, True),
        ([9.0, 1.0, *[0.8] * 29, 0.49], False),
        ([9.0, 1.0, *[0.8] * 29, 0.51], True),
        ([0.0] * 31, True),
    ],
)
def test_sweeps_end_when_they_bring_little(gaps, slow):
    assert has_slowed_down(gaps) == slow
