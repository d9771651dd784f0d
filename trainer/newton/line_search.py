"""The exact line search: along a direction, phi has a slope that rises and, for most losses, is piecewise linear."""

_MOST = 60  # evaluations
_ENOUGH = 1e-10  # the search ends once |slope| is at most this share of |slope at 0|
_EPSILON = 2.0**-52  # a number is rounded by half of it, at most


class LineSearch:
    """The search for the t > 0 where a convex function is least. `take` its derivatives at `t` until it `has_ended`.

    Newton's method within an interval that contains t; bisection or doubling where its step would leave the interval.

    slope  the first derivative at 0, below 0
    """

    def __init__(self, slope: float) -> None:
        self.t, self.has_ended = 1.0, False
        self._low, self._high = 0.0, float("inf")
        self._enough, self._left = _ENOUGH * abs(slope), _MOST

    def take(self, first: float, second: float, size: float) -> None:
        """First and second derivative at `t`; `size` is the sum of the absolute values of all terms of the first.

        Where rounding of the terms may be all there is of it, the search ends: it would bisect to the last bit of t.
        """
        self._left -= 1
        if abs(first) <= max(self._enough, _EPSILON * size):
            self.has_ended = True
            return
        t = self.t
        self._low, self._high = (t, self._high) if first < 0.0 else (self._low, t)
        following = t - first / second
        if not self._low < following < self._high:
            following = 2.0 * t if self._high == float("inf") else (self._low + self._high) / 2.0
        is_narrow = self._high < float("inf") and self._high - self._low <= 1e-15 * self._high
        self.has_ended = following == t or is_narrow or self._left == 0
        if not (following == t or is_narrow):
            self.t = following
