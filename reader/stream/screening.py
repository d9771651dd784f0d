"""Computes the margins of a pass's rows at the w published before the pass, and decides which rows to screen.

The sum of the rows' losses is the streaming certificate: P at that w, without extra reading. A row whose gradient holds
it at its bound by more than a slack is screened: it does not enter the cache, and counts as visited with PG = 0.
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import State, aligned
from streamsvm.trainer.problem.objective import Objective, dots_of


@dataclass(frozen=True)
class Margins:
    """m (n, width), the argument of some rows' losses at the pass's w, and the sums of these losses (n_figures,)."""

    m: Array
    losses: Array


class Screening:
    """Margins, losses and slack of the current pass.

    slack         a row is screened if |m - 1| exceeds this; None: all rows enter the cache
    spares_first  no row is screened in the first pass, since the trainer is to have all rows
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
        """Copy the published w, of which the first `width` features exist."""
        published = self._state.w[:width]
        # Private memory, not a mapping: the dot products jump about in it, and huge pages make that cheaper.
        self._w = aligned(published) if published.any() else None
        self.losses = np.zeros_like(self.losses)

    def end_pass(self) -> None:
        """Free w between passes: certificates need the memory of two."""
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

    def take(self, margins: Margins) -> None:
        """Add the losses of rows that have streamed by to those of the pass."""
        self.losses = self.losses + margins.losses

    @property
    def slack(self) -> float:
        """By how much the gradient has to hold a row that is screened; negative: no row is screened."""
        is_off = self._w is None or self._spares or not self._objective.has_rest
        return -1.0 if self._slack is None or is_off else self._slack

    @property
    def n_folds(self) -> int:
        """Number of folds of the tasks."""
        return self._objective.tasks.n_folds

    @property
    def resting(self) -> Array:
        """The upper bounds of alpha, (n_kinds, width), see Objective.resting."""
        return self._objective.resting

    @property
    def tube(self) -> float:
        """Half the width of the tube in which rows rest; -1: they rest by their margins."""
        return self._objective.tasks.epsilon if self._objective.tasks.is_regression else -1.0
