"""Reading levels off measured curves."""

import math

import pytest

from tests.bench.curve import Point, difference, median_or_none, median_seconds, seconds_to
from tests.bench.disk import bound
from tests.bench.growth import SIZES, sizes


def curve(*pairs):
    """Points over an optimum of 100 from (seconds, relative difference)."""
    return [Point(seconds, 100.0 * (1 + off), "") for seconds, off in pairs]


def test_between_two_points_the_logarithm_falls_evenly():
    points = curve((1.0, 1e-1), (3.0, 1e-5))
    assert seconds_to(points, 100.0, 1e-3) == pytest.approx(2.0)
    assert seconds_to(points, 100.0, 1e-2) == pytest.approx(1.5)


def test_a_point_on_the_level_is_taken_as_it_is():
    points = [Point(1.0, 2.0, ""), Point(5.0, 1.5, ""), Point(9.0, 1.0, "")]
    assert seconds_to(points, 1.0, 0.5) == 5.0


def test_a_curve_may_begin_below_the_level_or_never_get_there():
    assert seconds_to(curve((7.0, 1e-4)), 100.0, 1e-3) == 7.0
    assert seconds_to(curve((7.0, 1e-2), (9.0, 2e-3)), 100.0, 1e-3) is None
    assert seconds_to([], 100.0, 1e-3) is None


def test_the_first_time_counts_and_the_order_of_points_does_not():
    points = curve((4.0, 1e-2), (1.0, 1e-1), (2.0, 1e-3), (3.0, 1e-1))
    assert seconds_to(points, 100.0, 1e-2) == pytest.approx(1.5)


def test_a_curve_at_the_optimum_itself():
    assert difference(100.0, 100.0) > 0
    points = [Point(1.0, 110.0, ""), Point(2.0, 100.0, "")]
    assert 1.0 < seconds_to(points, 100.0, 1e-4) < 2.0


def test_median_counts_none_as_never():
    assert median_or_none([3.0, None, 1.0]) == 3.0
    assert median_or_none([3.0, None, None]) is None
    assert median_or_none([]) is None
    curves = [curve((1.0, 1e-4)), curve((2.0, 1e-4)), curve((3.0, 1.0))]
    assert median_seconds(curves, 100.0, 1e-3) == 2.0


def test_growth_goes_as_far_as_the_limit():
    assert sizes(10**9) == (10**8, 3 * 10**8, 10**9)
    assert sizes(30_000_000) == (30_000_000,)
    assert sizes(10**12) == SIZES


def test_bound_is_of_the_slower_part():
    assert bound(4, 2.0, 3.0) == 12.0
    assert math.isclose(bound(4, 5.0, 3.0), 20.0)
