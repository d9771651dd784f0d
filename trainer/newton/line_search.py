"""The exact line search: along a direction, phi has a slope that rises and, for most losses, is piecewise linear."""

from collections.abc import Callable

_MOST = 60  # evaluations
_ENOUGH = 1e-10  # of the slope at 0


def best_step(slope: Callable[[float], tuple[float, float]]) -> float:
    """The t > 0 where a convex function is least, from its first and second derivative at t; the first is < 0 at 0.

    Newton's method within an interval that contains t; bisection or doubling where its step would leave the interval.
    """
    low, high, t = 0.0, float("inf"), 1.0
    enough = _ENOUGH * abs(slope(0.0)[0])
    for _ in range(_MOST):
        now, second = slope(t)
        if abs(now) <= enough:
            return t
        low, high = (t, high) if now < 0.0 else (low, t)
        following = t - now / second
        if not low < following < high:
            following = 2.0 * t if high == float("inf") else (low + high) / 2.0
        if following == t or (high < float("inf") and high - low <= 1e-15 * high):
            return t
        t = following
    return t
