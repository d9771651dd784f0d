"""Reading levels off measured curves."""

import pytest

from tests.bench.curve import Point, difference, spent_to
from tests.bench.usage import Spent


def curve(*pairs):
    """Points over an optimum of 100 from (seconds, relative difference)."""
    return [Point(Spent(seconds, 2 * seconds), 100.0 * (1 + off)) for seconds, off in pairs]


def seconds_to(points, optimum, level):
    """Without the core seconds."""
    found = spent_to(points, optimum, level)
    return found and found.seconds


@pytest.mark.parametrize(
    ("points", "level", "seconds"),
    [
        (((1.0, 1e-1), (3.0, 1e-5)), 1e-3, 2.0),  # the logarithm falls evenly
        (((1.0, 1e-1), (3.0, 1e-5)), 1e-2, 1.5),
        (((7.0, 1e-4),), 1e-3, 7.0),  # it begins below the level
        (((7.0, 1e-2), (9.0, 2e-3)), 1e-3, None),
        ((), 1e-3, None),
        (((4.0, 1e-2), (1.0, 1e-1), (2.0, 1e-3), (3.0, 1e-1)), 1e-2, 1.5),  # the first time counts, in any order
    ],
)
def test_the_seconds_to_a_level(points, level, seconds):
    assert seconds_to(curve(*points), 100.0, level) == (seconds and pytest.approx(seconds))


def test_a_point_on_the_level_is_taken_as_it_is():
    points = [Point(Spent(seconds), objective) for seconds, objective in ((1.0, 2.0), (5.0, 1.5), (9.0, 1.0))]
    assert seconds_to(points, 1.0, 0.5) == 5.0


def test_a_curve_at_the_optimum_itself():
    assert difference(100.0, 100.0) > 0
    points = curve((1.0, 0.1), (2.0, 0.0))
    assert 1.0 < seconds_to(points, 100.0, 1e-4) < 2.0


def test_core_seconds_are_interpolated_like_seconds_and_unknown_ones_stay_unknown():
    assert spent_to(curve((1.0, 1e-1), (3.0, 1e-5)), 100.0, 1e-3).core_seconds == pytest.approx(4.0)
    points = [Point(Spent(1.0), 110.0), Point(Spent(2.0, 1.0), 100.0)]
    assert spent_to(points, 100.0, 1e-2).core_seconds is None
