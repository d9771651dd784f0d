"""What a pass's rows are worth before they go anywhere: their margins at the w published before the pass.

The sum of their losses is the streaming certificate: P at that w, for no extra reading. And a row that rests at its
bound by more than a slack has nothing to do: it need not enter the cache, and counts as visited with PG = 0.
"""

import numpy as np

from reader.objective import Objective, margins
from storage.csr import Array
from storage.segment import Segment
from storage.state import State


class Screening:
    """`slack` is how far beyond the margin a row has to rest, or None: all rows enter the cache."""

    def __init__(self, objective: Objective, state: State, slack: float | None) -> None:
        self._objective = objective
        self._state = state
        self._slack = slack
        # Private memory, not a mapping: the dot products jump about in it, and huge pages make that cheaper.
        self._w = np.zeros(len(state.w))
        self._is_zero = True
        self.losses = 0.0

    def begin_pass(self) -> None:
        """Take the published w."""
        self._w[:] = self._state.w
        self._is_zero = not self._w.any()
        self.losses = 0.0

    def margins(self, rows: Segment) -> Array:
        """m_i at the pass's w, (n,); adds the rows to the losses of the pass."""
        m = np.zeros(len(rows)) if self._is_zero else margins(rows, self._w)
        self.losses += self._objective.losses(rows.y, m)
        return m

    @property
    def limits(self) -> tuple[float, float, float]:
        """Slack (negative: nothing is screened) and the upper bounds on alpha for y = +1 and -1."""
        slack = -1.0 if self._slack is None or self._is_zero else self._slack
        return slack, *self._objective.upper
