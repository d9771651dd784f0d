"""Exact line search over many rows, on several threads and in little memory.

Bisection finds an interval that has the minimum and few breakpoints. Only these are sorted. The result does not depend
on the number of threads.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.kernels.cutting_planes import breakpoints, move_along, slope_after

T = TypeVar("T")

PART_ROWS = 1 << 16  # rows of a thread's task
_MOST_SORTED = 1 << 12


class Line:
    """f(k) = 1/2 |w + k d|^2 + sum_i max(0, c_i + k B_i) for k >= 0 (`trainer.kernels.cutting_planes`).

    c (n,) float64, B (n,) float32;  inner = <w, d>, square = |d|^2
    """

    def __init__(self, c: Array, B: Array, inner: float, square: float, pool: Executor) -> None:
        self._c = c
        self._B = B
        self._inner = inner
        self._square = square
        self._pool = pool

    def minimum(self) -> float:
        """The k >= 0 where f is least; 0 if d = 0."""
        if self._square == 0.0 or self._slope(0.0) >= 0.0:
            return 0.0
        low, high = 0.0, 1.0
        while self._slope(high) < 0.0:
            low, high = high, 2.0 * high
        return self._between(low, high)

    def move(self, k: float) -> float:
        """Move to w + k d: update c in place; returns the losses there, sum_i max(0, c_i)."""
        return sum(self._map(lambda c, B: move_along(c, B, k)))

    def _between(self, low: float, high: float) -> float:
        """The minimum in (low, high], where the slope turns from below 0 to 0 or more."""
        while self._count(low, high) > _MOST_SORTED:
            middle = (low + high) / 2.0
            if not low < middle < high:
                # Many breakpoints at one place, which is the minimum.
                return high
            if self._slope(middle) < 0.0:
                low = middle
            else:
                high = middle
        return self._walk(low, high)

    def _walk(self, low: float, high: float) -> float:
        place, jump = self._breakpoints(low, high)
        # The slope just after each breakpoint, up to the first where it is not below 0.
        constant = self._inner + self._rows_slope(low)
        after = constant + np.cumsum(jump) + self._square * place
        turn = int(np.searchsorted(after, 0.0))
        if turn < len(place) and after[turn] - jump[turn] < 0.0:
            return float(place[turn])
        return min(high, -(constant + float(jump[:turn].sum())) / self._square)

    def _slope(self, k: float) -> float:
        """f' just after k."""
        return self._inner + self._square * k + self._rows_slope(k)

    def _rows_slope(self, k: float) -> float:
        return sum(slope for slope, _ in self._map(lambda c, B: slope_after(c, B, k, k)))

    def _count(self, low: float, high: float) -> int:
        return sum(count for _, count in self._map(lambda c, B: slope_after(c, B, low, high)))

    def _breakpoints(self, low: float, high: float) -> tuple[Array, Array]:
        """(k_i, |B_i|) in (low, high], in order."""

        def find(c: Array, B: Array) -> tuple[Array, Array]:
            _, count = slope_after(c, B, low, high)
            place, jump = np.empty(count), np.empty(count)
            breakpoints(c, B, low, high, place, jump)
            return place, jump

        places, jumps = zip(*self._map(find), strict=True)
        place, jump = np.concatenate(places), np.concatenate(jumps)
        order = np.argsort(place, kind="stable")
        return place[order], jump[order]

    def _map(self, function: Callable[[Array, Array], T]) -> Iterator[T]:
        starts = range(0, len(self._c), PART_ROWS)
        parts = [slice(start, start + PART_ROWS) for start in starts]
        return self._pool.map(lambda part: function(self._c[part], self._B[part]), parts)
