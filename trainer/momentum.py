"""Nesterov's momentum from sweep to sweep: each begins a little beyond where the last one ended, in its direction.

Near the optimum each sweep of coordinate descent takes the same share of what is left away; where rows are much alike
a small one. Going on by beta times what the last sweep changed (Nesterov 1983) takes about as much away as the square
root of what was left.

alpha leaves its bounds by that, and a row's next visit brings it back: no row that was moved is left out of a sweep.
"""

import numpy as np

from storage.csr import Array
from trainer.kernels.momentum import move_on
from trainer.tally import Tally

_LARGEST = 0.9
_SWEEPS = 8  # the rate at which the gap falls is the mean of so many


class Momentum:
    """`begin_sweep`, visit rows at most once, those that `has_moved` tells for certain, then `end_sweep` or `undo` it.

    tally      of alpha: an undone sweep is not in it either
    earlier_w  (width,) float64, to be written over while sweeps follow each other
    feasible   (n_rows,) inside the bounds: alpha, or what it was at the end of the last sweep while one goes on
    """

    def __init__(self, alpha: Array, w: Array, tally: Tally, earlier_w: Array) -> None:
        self._tally = tally
        self._of_alpha = tally.of_alpha  # at the end of the last sweep
        self._alpha, self._w, self._room = alpha, w, earlier_w
        self._earlier_alpha, self._earlier_w = alpha[:0], w[:0]
        self.feasible, self._has_begun = alpha, False

    def begin_sweep(self, gaps: list[float], n_rows: int, width: int) -> None:
        """Move alpha and w, as far as they are known. `gaps` are those that the sweeps since `forget` have met."""
        alpha, w = self._alpha[:n_rows], self._w[:width]
        self._of_alpha = self._tally.of_alpha
        if self._has_begun:
            share = beta(gaps)
            move_on(alpha, self._earlier_alpha, share)
            move_on(w, self._earlier_w, share)
        else:
            self._earlier_alpha, self._earlier_w = alpha.copy(), self._room[:width]
            self._earlier_w[:] = w
            self._has_begun = True
        self.feasible = self._earlier_alpha

    def has_moved(self, row_id: Array) -> Array:
        """Which rows (k,) are elsewhere than at the end of the last sweep, (k,) bool."""
        if not self._has_begun:
            return np.zeros(len(row_id), bool)
        return self._alpha[row_id] != self._earlier_alpha[row_id]

    def end_sweep(self) -> None:
        """All rows that had moved have been visited."""
        self.feasible = self._alpha

    def undo(self) -> None:
        """Back to the end of the last sweep."""
        self._alpha[: len(self._earlier_alpha)] = self._earlier_alpha
        self._w[: len(self._earlier_w)] = self._earlier_w
        self._tally.of_alpha = self._of_alpha
        self.forget()

    def forget(self) -> None:
        """What follows does not go on from the last sweep. Nothing is held meanwhile."""
        self.feasible, self._has_begun = self._alpha, False
        self._earlier_alpha = self._alpha[:0]


def beta(gaps: list[float]) -> float:
    """How much further to go, after sweeps that met these gaps. Nothing yet after two.

    On a quadratic function the best beta is r / (2 - r), where r is the rate that comes of it, what a sweep leaves of
    what was left: to take the rate observed leads there from both sides. At first, as Nesterov has it, k / (k + 3).
    """
    k = len(gaps) - 2
    if k <= 0:
        return 0.0
    sweeps = min(_SWEEPS, len(gaps) - 1)
    rate = min(1.0, (gaps[-1] / gaps[-1 - sweeps]) ** (1.0 / sweeps)) if gaps[-1 - sweeps] > 0.0 else 0.0
    return min(_LARGEST, k / (k + 3), rate / (2.0 - rate))
