"""Rounds of dual coordinate descent with shrinking over some segments: LIBLINEAR's loop, whoever brings the rows."""

from collections.abc import Callable, Mapping

import numpy as np

from storage.csr import Array
from storage.segment import Segment
from trainer.kernels.coordinate import GAP
from trainer.kernels.shrinking import visit_active
from trainer.problem import Problem
from trainer.tally import Tally

Note = Callable[[Array, Array], None]


class ActiveRows:
    """The rows that are not shrunk. Segments are visited in random order, their active rows permuted inside.

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
        self._orders = [np.arange(len(rows), dtype=np.int32) for rows in segments]
        self._n_rows = sum(map(len, segments))
        self.reactivate()

    def resume(self, kept: Mapping[str, Array]) -> None:
        """Go on from what was `resumable`, if it was of the same segments."""
        sizes = [len(order) for order in self._orders]
        if np.array_equal(kept.get("order_sizes", ()), sizes):
            self._orders = np.split(kept["orders"], np.cumsum(sizes)[:-1])
            self._active = kept["active"].tolist()
            self._above, self._below = kept["shrunk_beyond"].tolist()

    def resumable(self) -> dict[str, Array]:
        """What is shrunk, and the order of the rows: the next is made of it."""
        return {
            "order_sizes": np.array([len(order) for order in self._orders]),
            "orders": np.concatenate(self._orders),
            "active": np.array(self._active),
            "shrunk_beyond": np.array([self._above, self._below]),
        }

    @property
    def shrunk(self) -> int:
        """Number of rows that the next round leaves out."""
        return self._n_rows - sum(self._active)

    def reactivate(self) -> None:
        """Let the next round visit every row, and shrink none."""
        self._active = [len(order) for order in self._orders]
        self._above, self._below = np.inf, -np.inf

    def round(self, rng: np.random.Generator) -> float:
        """Visit the active rows once; returns the largest less the smallest projected gradient, -inf without rows."""
        M_plus, M_minus = -np.inf, np.inf
        for number in rng.permutation(len(self._segments)).tolist():
            found = self._visit(number, int(rng.integers(1, 1 << 32)))
            M_plus, M_minus = max(M_plus, found[0]), min(M_minus, found[1])
        self._above = M_plus if M_plus > 0.0 else np.inf
        self._below = M_minus if M_minus < 0.0 else -np.inf
        return M_plus - M_minus

    def _visit(self, number: int, seed: int) -> tuple[float, float]:
        rows, order, visits = self._segments[number], self._orders[number], self._active[number]
        score = np.empty(len(rows), np.float32)
        self._active[number], M_plus, M_minus, curvature, freed = visit_active(
            order, visits, seed, self._above, self._below, self._kind,
            rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._alpha, self._w, score,
        )  # fmt: skip
        self._tally.add(visits, M_plus, M_minus, curvature, freed)
        self._note(rows.row_id[order[:visits]], score[order[:visits]])
        return M_plus, M_minus


def descend_rounds(rows: ActiveRows, rounds: int, tolerance: float, rng: np.random.Generator) -> None:
    """At most so many rounds; one over all rows that meets no projected gradients further apart is the last."""
    for _ in range(rounds):
        shrunk = rows.shrunk
        if rows.round(rng) <= tolerance:
            if not shrunk:
                return
            rows.reactivate()
