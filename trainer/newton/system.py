"""The system of a Newton step, (I + sum_i h_i x_i x_i') d = -g, added up by a scan.

LAPACK solves it. It has an equation for each feature or, if fewer rows than features have h_i > 0, one for each such
row. In that case, by Woodbury's formula,

    d = -(g - B' (I + B B')^-1 B g),   B = sqrt(h) x, a row for each row with h_i > 0.

With more than LARGEST of either, conjugate gradients find a direction that is near enough to d (ITERATED), as in
trust region Newton methods (Lin, Weng and Keerthi 2008); B has to fit into memory.
"""

import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from scipy.linalg.lapack import dtpttr, dtrttp

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.newton.cholesky import GoOn, no_matter, solve_positive
from streamsvm.trainer.newton.scans import SUMS
from streamsvm.trainer.newton.system_kernel import add_squares, spread_out

LARGEST = 8000  # equations: two cores take a minute for one solution of so many
_FEW = 128  # features: such a matrix is solved before sparse rows have been multiplied with each other
_SMALL_BYTES = 1 << 23  # of a matrix
BATCH_BYTES = 1 << 22  # of dense rows
_DENSE_PAYS = 12.0  # products that BLAS makes in the time of one product of two values in a sparse row
# A direction is near enough to d when what is left of g is this share of it, or after so many iterations. With fewer,
# steps were cheaper, and so many more that training took longer (news20, logistic loss, C = 10,000).
_LEFT, _MOST_ITERATIONS = 1e-2, 1000
_ITERATED_BYTES = 20 * LARGEST**2  # of B: the largest dense system takes as many (trainer.newton.memory)
_VALUE_BYTES, _COPIES = 12, 3  # of a value of B: float64 and int32; B of one system exists so often more
_PRODUCT_ROWS, _PRODUCT_SECONDS = 256, 10.0  # of B B' made at once; the seconds that these take at most
_MOMENT_SECONDS, _ITERATION_SECONDS = 0.2, 10.0  # between two looks at whether to go on; an iteration at most


class TooLarge(Exception):
    """The system would have more equations than it may."""


class System(Protocol):
    """Call `add` for all rows, for each sum in their order; `merge` the systems of other machines' rows; then `solve`.

    It can be pickled, to be sent from one machine to another.

    n_sums  that can be added to at once
    """

    n_sums: int

    def add(self, into: int, rows: Segment, picked: Array, h: Array) -> None:
        """Add the rows at the positions `picked` (k,) with these h (k,) > 0 to one of the SUMS."""

    def merge(self, other: Any) -> None:
        """Add the rows of another system of this kind, which is of no use afterwards."""

    def scale(self, by: float) -> None:
        """Multiply h of all rows by a number above 0."""

    def solve(self, g: Array, go_on: GoOn = no_matter) -> Array:
        """The direction d (features,) for the gradient g (features,). The system is of no use afterwards.

        go_on  is called now and then with the seconds until it is called again, at most; may raise, to end it here
        """


class Kind(Enum):
    """A system has an equation for each of these; an ITERATED one is not solved exactly."""

    FEATURES = "features"
    ROWS = "rows"
    ITERATED = "iterated"


def kind_of(n_features: int, n_free: int, most: int = LARGEST, may_iterate: bool = True) -> Kind:
    """The kind of system that is solved soonest, for so many rows with h_i > 0: the one with fewest equations.

    may_iterate  a loss that is not smooth has a sigma, which grows: iterations then take ever longer
    Raises TooLarge: it has more equations than the `most` there is room for, and is not iterated: `most` has to be
    LARGEST for that.
    """
    if min(n_features, n_free) <= most:
        return Kind.FEATURES if n_features <= max(n_free, min(_FEW, most)) else Kind.ROWS
    if most < LARGEST or not may_iterate:
        raise TooLarge
    return Kind.ITERATED


def fits_iterated(n_values: float, n_systems: int) -> bool:
    """Whether the rows of an ITERATED system, one of so many that exist together, may have so many values in all."""
    return n_values * _VALUE_BYTES * (n_systems + _COPIES) <= _ITERATED_BYTES


def make_system(n_features: int, kind: Kind, n_systems: int = 1) -> System:
    """An empty system, one of so many that exist together."""
    if kind is Kind.ITERATED:
        return Iterated(n_features, n_systems)
    return OfFeatures(n_features) if kind is Kind.FEATURES else OfRows(n_features)


def sums_of(n_features: int) -> int:
    """Sums of a system with an equation for each feature.

    A matrix of more than _SMALL_BYTES exists only once, and one thread adds to it.
    """
    return SUMS if 8 * n_features**2 <= _SMALL_BYTES else 1


class OfFeatures:
    """An equation for each feature."""

    def __init__(self, n_features: int) -> None:
        n_sums = sums_of(n_features)
        self._sums = [np.zeros((n_features, n_features), order="F") for _ in range(n_sums)]
        self._n_features, self.n_sums = n_features, n_sums

    def add(self, into: int, rows: Segment, picked: Array, h: Array) -> None:
        matrix, lengths = self._sums[into], np.diff(rows.indptr)[picked].astype(np.int64)
        if float(lengths @ lengths) * _DENSE_PAYS <= float(self._n_features) ** 2 * len(picked):
            add_squares(picked, h, *rows.csr, matrix)
            return
        step = max(1, BATCH_BYTES // (8 * self._n_features))
        for begin in range(0, len(picked), step):
            some = slice(begin, begin + step)
            dense = np.zeros((len(picked[some]), self._n_features))
            spread_out(picked[some], np.sqrt(h[some]), *rows.csr, dense)
            matrix += dense.T @ dense  # by numpy, which lets other threads work meanwhile; scipy's dsyrk does not

    def merge(self, other: "OfFeatures") -> None:
        matrix = self._gathered()
        matrix += other._gathered()

    def scale(self, by: float) -> None:
        matrix = self._gathered()
        matrix *= by

    def solve(self, g: Array, go_on: GoOn = no_matter) -> Array:
        matrix = self._gathered()
        matrix[np.diag_indices(self._n_features)] += 1.0
        return -solve_positive(matrix, g, go_on)

    def __getstate__(self) -> tuple[int, Array]:
        """The lower half of the matrix, packed."""
        packed, _ = dtrttp(self._gathered(), uplo="L")
        return self._n_features, packed

    def __setstate__(self, state: tuple[int, Array]) -> None:
        self._n_features, packed = state
        matrix, _ = dtpttr(self._n_features, packed, uplo="L")
        self._sums, self.n_sums = [matrix], 1

    def _gathered(self) -> Array:
        """The sum of all sums, in the first."""
        matrix, *others = self._sums
        while others:
            matrix += others.pop()
        del self._sums[1:]
        return matrix


class OfRows:
    """An equation for each row with h_i > 0."""

    n_sums = SUMS

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._parts: list[list[scipy.sparse.csr_array]] = [[] for _ in range(SUMS)]

    def add(self, into: int, rows: Segment, picked: Array, h: Array) -> None:
        columns = rows.values.astype(np.float64), rows.with_indices.indices, rows.indptr
        every = scipy.sparse.csr_array(columns, shape=(len(rows), self._n_features))
        self._parts[into].append(scipy.sparse.diags_array(np.sqrt(h)) @ every[picked])

    def merge(self, other: "OfRows") -> None:
        self._parts.extend(other._parts)

    def scale(self, by: float) -> None:
        self._parts = [[part * np.sqrt(by) for part in parts] for parts in self._parts]

    def solve(self, g: Array, go_on: GoOn = no_matter) -> Array:
        parts = [part for sums in self._parts for part in sums]
        return self._direction(scipy.sparse.vstack(parts, format="csr"), g, go_on) if parts else -g

    def _direction(self, B: scipy.sparse.csr_array, g: Array, go_on: GoOn) -> Array:
        n_rows, transposed = B.shape[0], B.T.tocsr()
        matrix = np.zeros((n_rows, n_rows), order="F")
        for begin in range(0, n_rows, _PRODUCT_ROWS):
            go_on(_PRODUCT_SECONDS)
            some = slice(begin, begin + _PRODUCT_ROWS)
            matrix[some] = (B[some] @ transposed).toarray()
        matrix[np.diag_indices(n_rows)] += 1.0
        return transposed @ solve_positive(matrix, B @ g, go_on) - g


class Iterated(OfRows):
    """Rows with h_i > 0, for a direction by conjugate gradients that are preconditioned by the diagonal."""

    def __init__(self, n_features: int, n_systems: int) -> None:
        super().__init__(n_features)
        self._n_values, self._n_systems = [0] * SUMS, n_systems

    def add(self, into: int, rows: Segment, picked: Array, h: Array) -> None:
        self._n_values[into] += int(np.diff(rows.indptr)[picked].sum())
        if not fits_iterated(sum(self._n_values), self._n_systems):
            raise TooLarge
        super().add(into, rows, picked, h)

    def _direction(self, B: scipy.sparse.csr_array, g: Array, go_on: GoOn) -> Array:
        shape, transposed = (self._n_features, self._n_features), B.T.tocsr()
        diagonal = 1.0 + np.asarray(B.multiply(B).sum(axis=0)).ravel()
        system = scipy.sparse.linalg.LinearOperator(shape, lambda d: d + transposed @ (B @ d), dtype=np.float64)
        scaled = scipy.sparse.linalg.LinearOperator(shape, lambda d: d / diagonal, dtype=np.float64)
        direction, _ = scipy.sparse.linalg.cg(
            system, -g, rtol=_LEFT, maxiter=_MOST_ITERATIONS, M=scaled, callback=_every_moment(go_on)
        )
        return direction


def _every_moment(go_on: GoOn) -> Callable[[Array], None]:
    """A function to be called after each iteration, which calls `go_on` a few times a second."""
    due = 0.0

    def after_iteration(_direction: Array) -> None:
        nonlocal due
        if time.monotonic() >= due:
            go_on(_ITERATION_SECONDS)
            due = time.monotonic() + _MOMENT_SECONDS

    return after_iteration
