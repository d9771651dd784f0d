"""The best step: the root of a slope that rises, against a search by bisection alone."""

import numpy as np
import pytest

from streamsvm.trainer.newton.task import LineSearch


def best_step(slope, at_0, size=0.0):
    search = LineSearch(at_0)
    while not search.has_ended:
        search.take(*slope(search.t), size)
    return search.t


def bisected(slope):
    low, high = 0.0, 1.0
    while slope(high)[0] < 0.0:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if slope(middle)[0] < 0.0 else (low, middle)
    return high


def of_corners(rng, n, scale):
    """The slope of t^2 / 2 - g t plus n terms that are linear between two corners each, as hinge loss makes."""
    corners, heights = rng.random(n) * scale, rng.random(n) * 10.0 ** rng.integers(-3, 6, n)
    widths = scale * 10.0 ** rng.integers(-6, 1, n)
    g = rng.random() * (heights.sum() + scale)

    def slope(t):
        inside = (t > corners) & (t < corners + widths)
        first = t - g + float(np.sum(heights * np.clip((t - corners) / widths, 0.0, 1.0)))
        return first, 1.0 + float(np.sum((heights / widths)[inside]))

    return slope


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_it_is_the_root_of_slopes_with_corners(scale):
    rng = np.random.default_rng(3)
    for _ in range(30):
        slope = of_corners(rng, 20, scale)
        t = best_step(slope, slope(0.0)[0])
        assert abs(slope(t)[0]) <= 1e-9 * abs(slope(0.0)[0]) or t == pytest.approx(bisected(slope), rel=1e-9)


def test_a_parabola_takes_a_step_and_no_search():
    asked = []

    def slope(t):
        asked.append(t)
        return 3.0 * t - 3.0, 3.0

    assert best_step(slope, -3.0) == 1.0
    assert asked == [1.0]


@pytest.mark.parametrize("root", [1e-9, 1e-3, 40.0, 1e7])
def test_a_smooth_slope_with_a_root_far_from_one(root):
    def slope(t):
        return float(np.arctan((t - root) / root)) + 1e-3 * (t - root) / root, 1e-3 / root + root / (
            root**2 + (t - root) ** 2
        )

    assert best_step(slope, slope(0.0)[0]) == pytest.approx(root, rel=1e-6)


def test_a_slope_that_is_rounded_is_searched_no_further():
    asked = []

    def slope(t):
        asked.append(t)
        return (np.floor(8.0 * (t - 1.2)) + 0.5) / 8.0, 1.0

    assert best_step(slope, -1.2, size=2.0**48) == pytest.approx(1.2, abs=0.125)
    assert len(asked) == 2
    asked.clear()
    best_step(slope, -1.2)
    assert len(asked) > 10


def test_it_ends_where_the_slope_jumps_over_zero():
    def slope(t):
        return (-1.0 if t <= 1.0 / 3.0 else 1.0), 1e-300

    assert best_step(slope, -1.0) == pytest.approx(1.0 / 3.0)
