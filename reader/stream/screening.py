"""Screening: the margins of a pass's rows at the w published before the pass.

The sum of their losses is the streaming certificate: P at that w, without extra reading. A row that rests at its bound
by more than a slack has nothing to do. It does not enter the cache, and counts as visited with PG = 0.
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.axis import aligned
from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import State
from streamsvm.trainer.problem.objective import Objective, margins


@dataclass(frozen=True)
class Margins:
    """Of some rows: their y and m at the pass's w, (n,), and the sum of their losses; of several lanes, of each."""

    y: Array
    m: Array
    losses: Figure


class Screening:
    """`slack` is how far beyond the margin a row has to rest, or None: all rows enter the cache.

    spares_first  the trainer is to have all rows at hand: none is left out of the first pass
    """

    def __init__(
        self,
        objective: Objective,
        state: State,
        slack: float | None,
        spares_first: bool = False,
        visited: Visited = UNMAPPED,
    ) -> None:
        self._visited = visited
        self._objective = objective
        self._state = state
        self._slack = slack
        self._spares = spares_first
        self._w: Array | None = None  # None: zero
        self.losses: Figure = 0.0

    def begin_pass(self, width: int) -> None:
        """Take the first `width` of the published w."""
        published = self._state.w[:width]
        # Private memory, not a mapping: the dot products jump about in it, and huge pages make that cheaper.
        self._w = aligned(published) if published.any() else None
        self.losses = 0.0

    def end_pass(self) -> None:
        """Hold no w between passes: certificates have two of their own."""
        self._w = None
        self._spares = False

    def look(self, rows: Segment) -> Margins:
        """The rows' margins; on any thread."""
        objective = self._objective
        y = objective.targets(rows)
        dots = (len(rows), *self._state.alpha.shape[1:])
        m = objective.m(y, np.zeros(dots)) if self._w is None else self._margins(rows, self._w)
        return Margins(rows.y if m.ndim == 1 else y, m, objective.losses(y, m))

    def _margins(self, rows: Segment, w: Array) -> Array:
        parts = [margins(self._objective, part, w) for part in self._visited.all_batches(rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def take(self, found: Margins) -> None:
        """These rows have streamed by: their losses are added to those of the pass."""
        self.losses = self.losses + found.losses

    @property
    def limits(self) -> tuple[float, Figure, Figure]:
        """Slack (negative: nothing is screened) and the upper bounds on alpha for y = +1 and -1, of each lane."""
        slack = -1.0 if self._slack is None or self._w is None or self._spares else self._slack
        return slack, *self._objective.upper
