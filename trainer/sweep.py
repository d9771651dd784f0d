"""What a sweep met: a guess at how far training has come, for no extra look, and what the next sweep may leave out."""

from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from storage.csr import Array

# Rows that rest by more than margins have moved lately, and by what the reader screens by default, are left out of
# sweeps: but not of each fifth, since what rests at a w that is far off may have to move later.
_LEAST_SLACK = 0.1
WHOLE_EVERY = 5


class Visits(NamedTuple):
    """Of some rows, one after the other: score and gain of each (k,), largest and smallest projected gradient."""

    score: Array
    gain: Array
    M_plus: float
    M_minus: float


@dataclass
class Sweep:
    """Each row as it was when it was visited; what has been left out of the sweep is not in here.

    visits           rows visited
    gap              sum of their terms of P - D: at one w, the terms of all rows add up to it
    M_plus, M_minus  largest and smallest projected gradient
    """

    visits: int = 0
    gap: float = 0.0
    M_plus: float = -inf
    M_minus: float = inf
    _squares: float = 0.0

    def add(self, visits: Visits, Qii: Array) -> None:
        """More rows, of these squared norms (k,), have been visited."""
        self.visits += len(Qii)
        self.gap -= float(np.minimum(visits.score, 0.0).sum(dtype=np.float64))
        self.M_plus, self.M_minus = max(self.M_plus, visits.M_plus), min(self.M_minus, visits.M_minus)
        # A step to where PG is 0 gains PG^2 / (2 Qii).
        self._squares += 2.0 * float(np.maximum(visits.gain, 0.0) @ Qii)

    @property
    def moved(self) -> float:
        """By how much margins have moved since the rows' last visits, root mean square."""
        return sqrt(self._squares / max(self.visits, 1))

    @property
    def slack(self) -> float:
        """Rows that rest by more may be left out of the next sweep."""
        return max(_LEAST_SLACK, self.moved)

    def has_likely_converged(self, dual_objective: float, tolerance: float | None, relative_gap: float | None) -> bool:
        """Whether it is worth a look at all rows at one w.

        What is known is of the middle of the sweep. At its end the gap is 0.6 to 0.75 times that, so the look, which
        costs as much as several sweeps, is seldom made in vain.
        """
        distance, relative = self.M_plus - self.M_minus, self.gap / (dual_objective + self.gap)
        wanted = ((distance, tolerance), (relative, relative_gap))
        return self.visits > 0 and any(limit is not None and found <= limit for found, limit in wanted)
