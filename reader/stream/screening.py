"""Screening: the margins of a pass's rows at the w published before the pass.

The sum of their losses is the streaming certificate: P at that w, without extra reading. A row that rests at its bound
by more than a slack has nothing to do. It does not enter the cache, and counts as visited with PG = 0.
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.axis import aligned
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import State
from streamsvm.trainer.problem.objective import Objective, dots_of


@dataclass(frozen=True)
class Margins:
    """Margins (or residuals) m (n, width) of some rows at the w of the pass, and the sums of their losses."""

    m: Array
    losses: Array


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
        self.losses = np.zeros(objective.tasks.n_figures)

    def begin_pass(self, width: int) -> None:
        """Take the first `width` of the published w."""
        published = self._state.w[:width]
        # Private memory, not a mapping: the dot products jump about in it, and huge pages make that cheaper.
        self._w = aligned(published) if published.any() else None
        self.losses = np.zeros_like(self.losses)

    def end_pass(self) -> None:
        """Hold no w between passes: certificates have two of their own."""
        self._w = None
        self._spares = False

    def look(self, rows: Segment) -> Margins:
        """The rows' margins; on any thread."""
        objective = self._objective
        terms = objective.tasks.terms(rows)
        m = objective.m(terms, self._dots(rows))
        return Margins(m, objective.losses(terms, m))

    def _dots(self, rows: Segment) -> Array:
        if self._w is None:
            return np.zeros((len(rows), self._objective.tasks.width))
        parts = [dots_of(part, self._w) for part in self._visited.all_batches(rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def take(self, found: Margins) -> None:
        """These rows have streamed by: their losses are added to those of the pass."""
        self.losses = self.losses + found.losses

    @property
    def slack(self) -> float:
        """The slack beyond which a row at a bound is left out; negative: none is."""
        return -1.0 if self._slack is None or self._w is None or self._spares else self._slack

    @property
    def n_folds(self) -> int:
        """Number of folds of the tasks."""
        return self._objective.tasks.n_folds

    @property
    def resting(self) -> Array:
        """Bounds at which rows rest, (n_kinds, width)."""
        return self._objective.resting
