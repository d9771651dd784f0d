"""The support vectors of a kernel machine while it is trained: at most so many, feature by feature."""

from collections.abc import Mapping
from concurrent.futures import Executor

import numpy as np

from storage.csr import INDEX, VALUE, Array
from storage.gaussian_kernel import LANES
from storage.segment import Segment
from storage.support_vectors import SupportVectors
from trainer.kernels.budgeted import (
    BATCH,
    FIGURES,
    FREE,
    LARGEST,
    LOSSES,
    SMALLEST,
    VISITS,
    Batch,
    Rule,
    Vectors,
    budgeted_visits,
)
from trainer.kernels.merging import degradation_table


def slots_of(budget: int) -> int:
    """Places for vectors: one more than the budget is there before two are merged.

    An odd number of lanes: what is walked column by column then falls on all sets of a core's caches. With 512 places
    in a row of `inner`, 4 KiB, a column would fall on one.
    """
    return LANES * (-(-(budget + 1) // LANES) | 1)


def budget_bytes(width: int, budget: int, threads: int) -> int:
    """What a Budget holds at most: each vector with all features."""
    slots = slots_of(budget)
    each = slots * (VALUE.itemsize + INDEX.itemsize) + VALUE.itemsize + INDEX.itemsize
    return width * each + slots * (8 * slots + 12 * BATCH + 8 * threads + 48)


class Budget:
    """Visits rows and keeps the vectors that come of it. alpha (n_rows,) changes in place.

    kept    `resumable` of the one before
    threads that work at once; pool: where all but one of them come from
    """

    def __init__(
        self, rule: Rule, alpha: Array, width: int, seed: int, threads: int, pool: Executor, kept: Mapping[str, Array]
    ) -> None:
        slots = slots_of(rule.budget)
        self._rule, self._alpha, self._threads, self._pool = rule, alpha, threads, pool
        self._table = degradation_table()
        # Of what is never written to, no memory is taken.
        self._vectors = Vectors(
            np.zeros((width, slots), VALUE), np.zeros(slots), np.zeros((slots, slots)), np.zeros(slots),
            np.empty((slots, width), INDEX), np.zeros(slots, np.int64), np.full(slots, FREE), np.zeros(FIGURES),
            np.array([seed % 0xFFFFFFFF + 1]),
        )  # fmt: skip
        self._batch = Batch(
            np.zeros((BATCH, slots), VALUE), np.zeros((BATCH, slots)), np.zeros((threads, slots)),
            np.zeros(width, VALUE), np.empty(width, INDEX), np.empty(slots, np.int64),
            np.zeros(1, np.int64), np.zeros(1, np.int64),
        )  # fmt: skip
        if "vectors_beta" in kept:
            self._restore(kept)

    @property
    def figures(self) -> Array:
        """(FIGURES,) float64, see kernels.budgeted."""
        return self._vectors.figures

    def begin_pass(self) -> None:
        """The figures of a pass begin anew."""
        self.figures[LARGEST], self.figures[SMALLEST], self.figures[LOSSES] = -np.inf, np.inf, 0.0

    def visit(self, rows: Segment, order: Array) -> Array:
        """Visit the rows at the positions `order` (k,) int32; by how much each raised the dual objective, (k,)."""
        gain = np.empty(len(order))
        own = order, rows.columns, self._rule, self._table, self._alpha, self._vectors, gain, self._batch
        self._batch.arrived[0] = self._batch.finished[0] = 0
        others = [self._pool.submit(budgeted_visits, thread, self._threads, *own) for thread in range(1, self._threads)]
        budgeted_visits(0, self._threads, *own)
        for other in others:
            other.result()
        return gain

    @property
    def factor(self) -> float:
        """What multiplies beta: of BSGD 1 / (visits so far)."""
        return 1.0 / max(self.figures[VISITS], 1.0) if self._rule.is_gradient else 1.0

    @property
    def half_squared_norm(self) -> float:
        """|f|^2 / 2."""
        there = np.flatnonzero(self._vectors.row != FREE)
        inner, norms = self._vectors.inner[np.ix_(there, there)], self._vectors.norms[there]
        K = np.exp(-self._rule.gamma * np.maximum(norms[:, None] + norms - 2.0 * inner, 0.0))
        beta = self.factor * self._vectors.beta[there]
        return float(beta @ K @ beta) / 2

    def machine(self) -> tuple[SupportVectors, Array]:
        """The vectors, by their slots, and beta of each."""
        there = np.flatnonzero(self._vectors.row != FREE)
        lengths = self._vectors.lengths[there]
        parts = [self._vectors.features[s, :length] for s, length in zip(there, lengths, strict=True)]
        values = [self._vectors.Z[features, s] for s, features in zip(there, parts, strict=True)]
        vectors = SupportVectors(
            self._rule.gamma,
            len(self._vectors.Z),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([np.empty(0, INDEX), *parts]),
            np.concatenate([np.empty(0, VALUE), *values]),
        )
        return vectors, self.factor * self._vectors.beta[there]

    def resumable(self) -> dict[str, Array]:
        """What another finds in `kept` to go on."""
        own = self._vectors
        vectors, _ = self.machine()
        arrays = {"slots": np.flatnonzero(own.row != FREE), "indptr": vectors.indptr}
        arrays |= {"indices": vectors.indices, "values": vectors.values}
        names = ("beta", "inner", "norms", "row", "figures", "state")
        return {f"vectors_{name}": array for name, array in arrays.items()} | {
            f"vectors_{name}": getattr(own, name) for name in names
        }

    def _restore(self, kept: Mapping[str, Array]) -> None:
        own = self._vectors
        for name in ("beta", "inner", "norms", "row", "figures", "state"):
            getattr(own, name)[...] = kept[f"vectors_{name}"]
        slots, indptr, indices, values = (kept[f"vectors_{name}"] for name in ("slots", "indptr", "indices", "values"))
        for s, begin, end in zip(slots.tolist(), indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
            own.lengths[s] = end - begin
            own.features[s, : end - begin] = indices[begin:end]
            own.Z[indices[begin:end], s] = values[begin:end]
