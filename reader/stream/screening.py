"""Computes the margins of a pass's rows at the w published before the pass, and the thresholds that screen rows.

The sum of the rows' losses is the streaming certificate: P at this w, without an extra pass. A row is screened if its
gradient holds alpha at a bound by more than a slack: it does not enter the cache, and counts as visited with PG = 0.
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import State, aligned
from streamsvm.trainer.problem.objective import Objective, mapped_dots


@dataclass(frozen=True)
class Margins:
    """The arguments m (n, width) of the losses of n rows at the pass's w, and the sums (n_figures,) of C_i loss_i."""

    m: Array
    losses: Array


class Screening:
    """Decides which rows of a pass stay out of the cache since they rest at a bound; keeps its margins and losses.

    slack         a row at a bound of alpha is screened if |m - 1| exceeds `slack`; None: no row is screened
    spares_first  no row is screened in the first pass, since the trainer needs all rows
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
        self.objective = objective
        self._state = state
        self._slack = slack
        self._spares = spares_first
        self._w: Array | None = None  # copy of the published w; None: w is zero
        self.losses = np.zeros(objective.tasks.n_figures)

    def begin_pass(self, width: int) -> None:
        """Begin a pass: copy the first `width` features of the published w, and set the losses to 0."""
        published = self._state.w[:width]
        # A copy in private memory, not the mapping: huge pages make random access by dot products faster.
        self._w = aligned(published) if published.any() else None
        self.losses = np.zeros_like(self.losses)

    def end_pass(self) -> None:
        """Free the copy of w between passes: a certificate needs memory for two vectors like w."""
        self._w = None
        self._spares = False

    def look(self, rows: Segment) -> Margins:
        """Return the margins of the rows. Any thread may call it."""
        objective = self.objective
        terms = objective.tasks.terms(rows)
        none = np.zeros((len(rows), objective.tasks.width))
        m = objective.m(terms, none if self._w is None else mapped_dots(rows, self._w, self._visited))
        return Margins(np.ascontiguousarray(m), objective.losses(terms, m))

    def take(self, margins: Margins) -> None:
        """Add the losses of a piece that has been read to the losses of the pass."""
        self.losses = self.losses + margins.losses

    @property
    def slack(self) -> float:
        """The amount |m - 1| that a row must exceed to be screened; negative: no row is screened."""
        is_off = self._w is None or self._spares or not self.objective.has_rest
        return -1.0 if self._slack is None or is_off else self._slack
