"""Holds the support vectors of a kernel machine in training, at most `budget` of them, stored feature by feature."""

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.models.gaussian_kernel import LANES
from streamsvm.storage.models.support_vectors import KernelState, SupportVectors
from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels import machine
from streamsvm.trainer.kernels.budgeted import budgeted_visits, help_with
from streamsvm.trainer.kernels.machine import BATCH, FIGURES, FREE, NOTHING, MachineBatch, Vectors, VisitRule
from streamsvm.trainer.kernels.merging import degradation_table

# Threads pay from this number of products a row on: each has to fetch into its cache what the first thread changed.
_PRODUCTS = 100_000
_MOST_SQUARE = 1e38  # largest |x|^2 of a row: products of two rows then fit into float32

_AS_THEY_ARE = ("scale", "beta", "inner", "norms", "row", "figures", "state")


def slots_of(budget: int) -> int:
    """Return the number of slots for vectors, at least budget + 1: a new vector comes before two are merged.

    It is an odd multiple of LANES, so that columns of Z and of inner products do not share a few lines of a cache.
    """
    return (-(-(budget + 1) // LANES) | 1) * LANES


def budget_bytes(width: int, budget: int, threads: int) -> int:
    """Return the bytes that a Budget holds at most: those that it holds if each vector has all features."""
    slots = slots_of(budget)
    each = slots * (VALUE.itemsize + INDEX.itemsize) + VALUE.itemsize
    return width * each + slots * (8 * slots + threads * (12 * BATCH + 8) + 80)


class VectorFigures(NamedTuple):
    """The `figures` of kernels.machine.Vectors by name, in the order of that array."""

    vectors: float
    visits: float
    merges: float
    degradation: float
    merging_seconds: float
    seconds: float
    largest: float
    smallest: float
    losses: float


class Budget:
    """Visits rows and keeps the support vectors. alpha (n_rows,) changes in place.

    threads  number of threads that work at the same time: the caller's, and the others from `pool`
    kept     arrays of `resumable` from which to go on; empty: begin without vectors
    """

    def __init__(
        self,
        rule: VisitRule,
        alpha: Array,
        width: int,
        seed: int,
        threads: int,
        pool: Executor,
        kept: Mapping[str, Array],
    ) -> None:
        slots = slots_of(rule.budget)
        self._rule, self._alpha, self._threads, self._pool = rule, alpha, threads, pool
        self._table = degradation_table()
        # The system gives zeroed pages memory only when they are written to.
        self._vectors = Vectors(
            np.zeros((width, slots), VALUE), np.ones(slots), np.zeros(slots), np.zeros((slots, slots)), np.zeros(slots),
            np.empty((slots, width), INDEX), np.zeros(slots, np.int64), np.full(slots, FREE), np.zeros(FIGURES),
            np.array([seed % 0xFFFFFFFF + 1]),
        )  # fmt: skip
        self._batch = MachineBatch(
            np.zeros((threads, BATCH, slots), VALUE), np.zeros((threads, BATCH, slots)), np.zeros((threads, slots)),
            np.zeros(width, VALUE), np.empty(slots, np.int64), np.empty((3, slots)),
            np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(threads * BATCH, np.int64),
        )  # fmt: skip
        if "vectors_beta" in kept:
            self._restore(kept)

    @property
    def figures(self) -> VectorFigures:
        return VectorFigures(*self._vectors.figures.tolist())

    def begin_pass(self) -> None:
        """Reset the figures that belong to a pass: largest and smallest g, and losses."""
        self._vectors.figures[[machine.LARGEST, machine.SMALLEST, machine.LOSSES]] = -np.inf, np.inf, 0.0

    def visit(self, rows: Segment, order: Array) -> Array:
        """Visit the rows at the positions `order` (k,) int32; return by how much each raised the dual objective, (k,).

        Raises ValuesOverflow if products of two rows may not fit into a float32: distances would be wrong.
        """
        if rows.Qii.max(initial=0.0) > _MOST_SQUARE:
            raise ValuesOverflow("the squared norms of the rows")
        gain, pays = np.empty(len(order)), len(rows.indices) * len(self._vectors.beta) > _PRODUCTS * len(rows)
        rule, vectors, batch = self._rule, self._vectors, self._batch
        for words in (batch.claimed, batch.finished, batch.made):
            words[:] = 0
        columns = rows.columns
        others = [
            self._pool.submit(help_with, thread, order, columns, rule, vectors, batch)
            for thread in range(1, self._threads if pays else 1)
        ]
        budgeted_visits(order, columns, rule, self._table, self._alpha, vectors, gain, batch)
        for other in others:
            other.result()
        return gain

    @property
    def factor(self) -> float:
        """The factor of beta in f: 1 / (number of visits so far) with BSGD, else 1."""
        return 1.0 / max(self.figures.visits, 1.0) if self._rule.is_gradient else 1.0

    @property
    def half_squared_norm(self) -> float:
        """|f|^2 / 2 of the present machine f."""
        there = np.flatnonzero(self._vectors.row != FREE)
        inner, norms = self._vectors.inner[np.ix_(there, there)], self._vectors.norms[there]
        K = np.exp(-self._rule.gamma * np.maximum(norms[:, None] + norms - 2.0 * inner, 0.0))
        beta = self.factor * self._vectors.beta[there]
        return float(beta @ K @ beta) / 2

    def machine(self) -> KernelState:
        """Return the kernel machine so far, its vectors in the order of their slots."""
        own = self._vectors
        there = np.flatnonzero(own.row != FREE)
        parts = [self._features(s) for s in there.tolist()]
        values = [(own.scale[s] * own.Z[features, s]).astype(VALUE) for s, features in zip(there, parts, strict=True)]
        vectors = SupportVectors(
            self._rule.gamma,
            len(own.Z),
            np.concatenate([[0], np.cumsum(np.array([len(part) for part in parts], np.int64))]),
            np.concatenate([np.empty(0, INDEX), *parts]),
            np.concatenate([np.empty(0, VALUE), *values]),
        )
        return KernelState(vectors, self.factor * own.beta[there], int(self.figures.merges), self.figures.degradation)

    def _features(self, s: int) -> Array:
        """Return the features of the vector at slot s, ascending, (k,) int32."""
        own = self._vectors
        features = np.sort(own.features[s, : own.lengths[s]])
        return features[np.abs(own.Z[features, s]) > NOTHING]

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which another Budget goes on, as its `kept`."""
        own = self._vectors
        slots = np.flatnonzero(own.row != FREE)
        # Features keep their order, and arrays their values, so that later sums give the same bytes.
        parts = [own.features[s, : own.lengths[s]] for s in slots]
        arrays = {
            "slots": slots,
            "lengths": own.lengths[slots],
            "features": np.concatenate([np.empty(0, INDEX), *parts]),
            "Z": np.concatenate([np.empty(0, VALUE), *(own.Z[part, s] for s, part in zip(slots, parts, strict=True))]),
            **{name: getattr(own, name) for name in _AS_THEY_ARE},
        }
        return {f"vectors_{name}": array for name, array in arrays.items()}

    def _restore(self, kept: Mapping[str, Array]) -> None:
        own = self._vectors
        for name in _AS_THEY_ARE:
            getattr(own, name)[...] = kept[f"vectors_{name}"]
        slots, lengths, features, Z = (kept[f"vectors_{name}"] for name in ("slots", "lengths", "features", "Z"))
        end = 0
        for s, length in zip(slots.tolist(), lengths.tolist(), strict=True):
            begin, end = end, end + length
            own.lengths[s] = length
            own.features[s, :length] = features[begin:end]
            own.Z[features[begin:end], s] = Z[begin:end]
