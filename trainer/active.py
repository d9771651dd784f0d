"""Rounds of dual coordinate descent with shrinking over some segments: LIBLINEAR's loop, whoever brings the rows."""

from collections.abc import Callable, Mapping

import numpy as np

from storage.csr import Array
from storage.segment import Segment
from trainer.kernels.coordinate import GAP
from trainer.kernels.shrinking import visit_active
from trainer.mixture import Mixture
from trainer.problem import Problem
from trainer.tally import Tally

Note = Callable[[Array, Array], None]
Found = tuple[int, float, float, float, int]  # rows still active, and what a Tally adds


class ActiveRows:
    """The rows that are not shrunk. Mixtures of segments are visited in random order, their active rows permuted.

    kind  of score: see trainer.kernels.coordinate
    note  takes the ids (k,) of rows that were visited, and their scores (k,)
    """

    def __init__(
        self,
        segments: list[Segment],
        problem: Problem,
        alpha: Array,
        w: Array,
        tally: Tally,
        note: Note,
        kind: int = GAP,
    ) -> None:
        self._segments = segments
        self._bounds = problem.bounds
        self._epsilon = problem.epsilon
        self._alpha = alpha
        self._w = w
        self._tally = tally
        self._note = note
        self._kind = kind
        self._mixture = Mixture()
        self._n_rows = sum(map(len, segments))
        self.reactivate()

    def resume(self, kept: Mapping[str, Array]) -> None:
        """Go on from what was `resumable`, if it was of the same segments."""
        if np.array_equal(kept.get("segment_sizes", ()), self._sizes()):
            self._active = np.split(kept["active"], np.cumsum(kept["active_sizes"])[:-1])
            self._above, self._below = kept["shrunk_beyond"].tolist()

    def resumable(self) -> dict[str, Array]:
        """What is not shrunk."""
        return {
            "segment_sizes": self._sizes(),
            "active_sizes": np.array([len(active) for active in self._active]),
            "active": np.concatenate(self._active),
            "shrunk_beyond": np.array([self._above, self._below]),
        }

    @property
    def shrunk(self) -> int:
        """Number of rows that the next round leaves out."""
        return self._n_rows - sum(map(len, self._active))

    def reactivate(self) -> None:
        """Let the next round visit every row, and shrink none."""
        self._active = [np.arange(len(rows), dtype=np.int32) for rows in self._segments]
        self._above, self._below = np.inf, -np.inf

    def round(self, rng: np.random.Generator) -> float:
        """Visit the active rows once; returns the largest less the smallest projected gradient, -inf without rows."""
        M_plus, M_minus = -np.inf, np.inf
        for numbers, rows in self._mixture.sweep(self._segments, rng, self._active):
            found = self._visit_some(numbers, rows, int(rng.integers(1, 1 << 32)))
            M_plus, M_minus = max(M_plus, found[0]), min(M_minus, found[1])
        self._above = M_plus if M_plus > 0.0 else np.inf
        self._below = M_minus if M_minus < 0.0 else -np.inf
        return M_plus - M_minus

    def _visit_some(self, numbers: list[int], rows: Segment, seed: int) -> tuple[float, float]:
        """Visit `rows`, the active ones of the segments of these numbers, and shrink some."""
        order = np.arange(len(rows), dtype=np.int32)
        score, (active, M_plus, M_minus, curvature, freed) = self._visit(rows, order, seed)
        self._tally.add(len(rows), M_plus, M_minus, curvature, freed)
        self._note(rows.row_id, score)
        if active < len(rows):
            stays = np.zeros(len(rows), bool)
            stays[order[:active]] = True
            ends = np.cumsum([len(self._active[number]) for number in numbers])
            for number, own in zip(numbers, np.split(stays, ends[:-1]), strict=True):
                self._active[number] = self._active[number][own]
        return M_plus, M_minus

    def _visit(self, rows: Segment, order: Array, seed: int) -> tuple[Array, Found]:
        """Visit the rows; returns their scores, and what the kernel found: those still active are first in `order`."""
        score = np.empty(len(rows), np.float32)
        return score, visit_active(
            order, len(rows), seed, self._above, self._below, self._kind,
            rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._alpha, self._w, score,
        )  # fmt: skip

    def _sizes(self) -> Array:
        return np.array([len(rows) for rows in self._segments])


def descend_rounds(rows: ActiveRows, rounds: int, tolerance: float, rng: np.random.Generator) -> None:
    """At most so many rounds; one over all rows that meets no projected gradients further apart is the last."""
    for _ in range(rounds):
        shrunk = rows.shrunk
        if rows.round(rng) <= tolerance:
            if not shrunk:
                return
            rows.reactivate()
