"""Nesterov's momentum: each sweep begins a little beyond where the last one ended, in the same direction.

Near the optimum each sweep of coordinate descent removes the same share of what is left, and a small share where rows
are much alike. Momentum goes on by beta times what the last sweep changed (Nesterov 1983). Then about the square root
of as many sweeps is enough.

Momentum may move alpha out of its box. The row's next visit brings it back, so the next sweep visits every row that was
moved. Only rows that the last sweep visited have changed, so only these are moved.
"""

from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.trainer.kernels.visit import move_on
from streamsvm.trainer.updates.statistics import Tally

_LARGEST = 0.98
LATE_SWEEPS = 8  # the rate at which the gap falls is the mean of so many


class Momentum:
    """`begin_sweep`, visit every row that `has_moved` tells, once, then `end_sweep` or `undo` it.

    alpha (n_rows,), w (width,): all that there is so far; of several lanes or classes both have an axis of them
    tally      of alpha: an undone sweep is not in it either
    earlier_w  (width,) float64, to be written over while sweeps follow each other
    before     (n_rows,) in its box: alpha, or what it was at the end of the last sweep while one goes on
    """

    def __init__(self, alpha: Array, w: Array, tally: Tally, earlier_w: Array) -> None:
        self._tally = tally
        self._of_alpha = tally.of_alpha  # at the end of the last sweep
        self._alpha, self.w = alpha, w
        self._earlier_alpha = alpha.copy()
        self._earlier_w = earlier_w
        self._earlier_w[:] = w
        self._yields: bool | Array = False
        self.before = alpha

    def begin_sweep(self, gaps: list[Figure]) -> None:
        """Move alpha and w. `gaps` are those that the sweeps so far have met."""
        self._of_alpha = self._tally.of_alpha
        self._move(gaps)
        self.before = self._earlier_alpha

    def has_moved(self, row_id: Array) -> Array:
        """Which rows (k,) are elsewhere than at the end of the last sweep, (k,) bool."""
        moved = self._alpha[row_id] != self._earlier_alpha[row_id]
        return moved if moved.ndim == 1 else moved.any(axis=1)

    def end_sweep(self, yields: bool | Array) -> None:
        """All rows that had moved have been visited. `yields`: the next sweep begins where this one ended."""
        self.before = self._alpha
        self._yields = yields

    def undo(self) -> None:
        """Back to the end of the last sweep."""
        self._alpha[:] = self._earlier_alpha
        self.w[:] = self._earlier_w
        self._tally.of_alpha = self._of_alpha
        self.before = self._alpha

    def _move(self, gaps: list[Figure]) -> None:
        share = 0.0 if self._yields else beta(gaps, len(gaps))
        for now, earlier in ((self._alpha, self._earlier_alpha), (self.w, self._earlier_w)):
            move_on(now.reshape(-1), earlier.reshape(-1), share)


def beta(gaps: list[float], sweeps: int) -> float:
    """How much further to go, after so many sweeps, the last of which met these gaps. Nothing yet after two.

    On a quadratic function the best beta is r / (2 - r), where r is the rate that comes of it, what a sweep leaves of
    what was left: to take the rate observed leads there from both sides. At first, as Nesterov has it, k / (k + 3).
    """
    k = sweeps - 2
    if k <= 0:
        return 0.0
    return min(_LARGEST, k / (k + 3), (r := rate(gaps)) / (2.0 - r))


def rate(gaps: list[float]) -> float:
    """What a sweep has left of the gap of late, at most 1; 1 as long as that is not known."""
    sweeps = min(LATE_SWEEPS, len(gaps) - 1)
    if sweeps <= 0:
        return 1.0
    return min(1.0, (gaps[-1] / gaps[-1 - sweeps]) ** (1.0 / sweeps)) if gaps[-1 - sweeps] > 0.0 else 0.0
