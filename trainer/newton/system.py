"""The system of a Newton step, (I + sum_i h_i x_i x_i') d = -g, which a scan adds up.

LAPACK solves it. It has an equation for each feature or, if fewer rows than features have h_i > 0, one for each such
row. In that case, by Woodbury's formula,

    d = -(g - B' (I + B B')^-1 B g),   where B has the line sqrt(h_i) x_i' for each row with h_i > 0.

With more than LARGEST features and such rows, conjugate gradients find a direction that is near enough to d (ITERATED),
as in trust region Newton methods (Lin, Weng and Keerthi 2008); B has to fit into memory.
"""

import time
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from scipy.linalg.lapack import dpotrf, dpotrs, dtpttr, dtrttp

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.newton.scans import SUMS
from streamsvm.trainer.newton.system_kernel import add_squares, spread_out

SMALL = 1000  # equations: matrices up to this size are factored by several threads, one each, in little time
_FIRST_RIDGE, _MORE_RIDGE, _LARGEST_RIDGE = 1e-12, 100.0, 1.0
_FLOP = 1e-9  # seconds, on a slow core that is shared with others
_LEAST_PIVOT = 1e-13  # of the scaled matrix: below it the solution is made of rounding

GoOn = Callable[[float], None]


def no_matter(_seconds: float) -> None:
    """Do nothing: a GoOn that never ends the work."""


def solve_positive(matrix: Array, right: Array, go_on: GoOn = no_matter) -> Array:
    """Return x with matrix x = right, (n,) or (n, k). matrix (n, n) is positive definite; its lower half is read.

    The matrix is overwritten.

    Rows and columns are scaled to a diagonal of ones: features may differ by many orders of magnitude. If the matrix is
    singular up to rounding, as with equal columns, a ridge is added, if need be a larger one. Raises ValuesOverflow.

    go_on  is called before each factorisation with the seconds that it may take; may raise an error to end the work
    """
    scale = 1.0 / np.sqrt(np.diag(matrix))
    matrix *= scale
    matrix *= scale[:, np.newaxis]
    ridge = 0.0
    seconds = _FLOP * len(matrix) ** 3 / 3.0
    go_on(seconds)
    while (factor := _factor(matrix)) is None and ridge < _LARGEST_RIDGE:
        larger = max(_FIRST_RIDGE, ridge * _MORE_RIDGE)
        matrix[np.diag_indices(len(matrix))] += larger - ridge
        ridge = larger
        go_on(seconds)
    if factor is None:
        raise ValuesOverflow("the system of a Newton step")
    # LAPACK takes a matrix column by column without a copy.
    lies = (factor.T, 0) if factor.flags.c_contiguous else (factor, 1)
    solution, _ = dpotrs(lies[0], (scale * right.T).T, lower=lies[1])
    return np.asarray((scale * solution.T).T)


def _factor(matrix: Array) -> Array | None:
    """Return the lower Cholesky factor; None if the matrix has none, or one that is mostly rounding.

    numpy factors small matrices, in memory for a copy, and lets other threads work meanwhile; scipy does neither.
    """
    if len(matrix) <= SMALL:
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None
    else:
        factor, column = dpotrf(matrix, lower=1, clean=0)
        if column:
            return None
    return factor if np.diag(factor).min() ** 2 >= _LEAST_PIVOT else None


LARGEST = 8000  # equations: two cores take a minute to solve a system of this size
_FEW = 128  # features: a system of this size is solved sooner than sparse rows are multiplied with each other
_SMALL_BYTES = 1 << 23  # of a matrix
BATCH_BYTES = 1 << 22  # of dense rows
DENSE_PAYS = 12.0  # products that BLAS makes in the time of one product of two values in a sparse row
# A direction is near enough to d when the residual is this share of |g|, or after this number of iterations. With fewer
# iterations steps were cheaper, but so many more that training took longer (news20, logistic loss, C = 10,000).
_LEFT, _MOST_ITERATIONS = 1e-2, 1000
_ITERATED_BYTES = 20 * LARGEST**2  # most bytes of B: those of the largest dense system (trainer.newton.memory)
_VALUE_BYTES, _COPIES = 12, 3  # bytes of a value of B: float64 and int32; further copies of B while it is solved for
_PRODUCT_ROWS, _PRODUCT_SECONDS = 256, 10.0  # rows of B B' computed at a time; the most seconds that they take
_MOMENT_SECONDS, _ITERATION_SECONDS = 0.2, 10.0  # between two calls of go_on; the most that an iteration takes


class TooLarge(Exception):
    """A system would have more equations, or more values in its rows, than there is room for."""


class Kind(Enum):
    """Kinds of systems: with an equation for each of the FEATURES or ROWS; ITERATED systems are not solved exactly."""

    FEATURES = "features"
    ROWS = "rows"
    ITERATED = "iterated"


def kind_of(n_features: int, n_free: int, most: int = LARGEST, may_iterate: bool = True) -> Kind:
    """Return the kind of system with the fewest equations, if `n_free` rows have h_i > 0.

    most         most equations that there is room for
    may_iterate  whether the loss is smooth: other losses have a sigma, which grows, so that iterations take ever longer
    Raises TooLarge if the system has more equations than `most`, and `most` is below LARGEST or it may not be iterated.
    """
    if min(n_features, n_free) <= most:
        return Kind.FEATURES if n_features <= max(n_free, min(_FEW, most)) else Kind.ROWS
    if most < LARGEST or not may_iterate:
        raise TooLarge
    return Kind.ITERATED


def fits_iterated(n_values: float, n_systems: int) -> bool:
    """Whether the rows of an ITERATED system may have `n_values` values, if `n_systems` exist at the same time."""
    return n_values * _VALUE_BYTES * (n_systems + _COPIES) <= _ITERATED_BYTES


def sums_of(n_features: int) -> int:
    """Return the number of sums of a system with an equation for each feature.

    A matrix of more than _SMALL_BYTES exists only once, so that one thread at a time adds to it.
    """
    return SUMS if 8 * n_features**2 <= _SMALL_BYTES else 1


class OfFeatures:
    """A system with an equation for each feature: `add` all rows; `merge` systems of other machines; then `solve`.

    A system can be pickled, to be sent from one machine to another.

    n_sums  number of sums to which threads can add at the same time
    """

    def __init__(self, n_features: int) -> None:
        n_sums = sums_of(n_features)
        self._sums = [np.zeros((n_features, n_features), order="F") for _ in range(n_sums)]
        self._n_features, self.n_sums = n_features, n_sums

    def add(self, into: int, rows: Segment, picked: Array, h: Array) -> None:
        """Add the rows at the positions `picked` (k,), with these h (k,) > 0, to the sum of number `into`, in order."""
        matrix, lengths = self._sums[into], np.diff(rows.indptr)[picked].astype(np.int64)
        if float(lengths @ lengths) * DENSE_PAYS <= float(self._n_features) ** 2 * len(picked):
            add_squares(picked, h, *rows.csr, matrix)
            return
        step = max(1, BATCH_BYTES // (8 * self._n_features))
        for begin in range(0, len(picked), step):
            some = slice(begin, begin + step)
            dense = np.zeros((len(picked[some]), self._n_features))
            spread_out(picked[some], np.sqrt(h[some]), *rows.csr, dense)
            matrix += dense.T @ dense  # by numpy, which lets other threads work meanwhile; scipy's dsyrk does not

    def merge(self, other: Any) -> None:
        """Add the rows of another system of the same kind, which must not be used afterwards."""
        matrix = self._gathered()
        matrix += other._gathered()

    def scale(self, by: float) -> None:
        """Multiply h of all rows by a number above 0."""
        matrix = self._gathered()
        matrix *= by

    def solve(self, g: Array, go_on: GoOn = no_matter) -> Array:
        """Return the direction d (features,) for the gradient g (features,). The system must not be used afterwards.

        go_on  is called now and then with the most seconds until its next call; may raise an error to end the work
        """
        matrix = self._gathered()
        matrix[np.diag_indices(self._n_features)] += 1.0
        return -solve_positive(matrix, g, go_on)

    def inverse(self) -> Array:
        """Return the inverse of the matrix, (features, features). The system must not be used afterwards."""
        return -self.solve(np.eye(self._n_features))

    def __getstate__(self) -> tuple[int, Array]:
        """Return the number of features, and the lower half of the matrix, packed."""
        packed, _ = dtrttp(self._gathered(), uplo="L")
        return self._n_features, packed

    def __setstate__(self, state: tuple[int, Array]) -> None:
        self._n_features, packed = state
        matrix, _ = dtpttr(self._n_features, packed, uplo="L")
        self._sums, self.n_sums = [matrix], 1

    def _gathered(self) -> Array:
        """Add up all sums in the array of the first, and return it."""
        matrix, *others = self._sums
        while others:
            matrix += others.pop()
        del self._sums[1:]
        return matrix


class OfRows:
    """A system with an equation for each row with h_i > 0, to be used as the systems OfFeatures are."""

    n_sums = SUMS

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._parts: list[list[scipy.sparse.csr_array]] = [[] for _ in range(SUMS)]

    def add(self, into: int, rows: Segment, picked: Array, h: Array) -> None:
        columns = rows.values.astype(np.float64), rows.with_indices.indices, rows.indptr
        every = scipy.sparse.csr_array(columns, shape=(len(rows), self._n_features))
        self._parts[into].append(scipy.sparse.diags_array(np.sqrt(h)) @ every[picked])

    def merge(self, other: Any) -> None:
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
    """A system of rows with h_i > 0; conjugate gradients, preconditioned by the diagonal, find its direction."""

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


System = OfFeatures | OfRows


def make_system(n_features: int, kind: Kind, n_systems: int = 1) -> System:
    """Return an empty system of this kind; `n_systems` exist at the same time."""
    if kind is Kind.ITERATED:
        return Iterated(n_features, n_systems)
    return OfFeatures(n_features) if kind is Kind.FEATURES else OfRows(n_features)


def _every_moment(go_on: GoOn) -> Callable[[Array], None]:
    """Return a function to be called after each iteration, which calls `go_on` a few times a second."""
    due = 0.0

    def after_iteration(_direction: Array) -> None:
        nonlocal due
        if time.monotonic() >= due:
            go_on(_ITERATION_SECONDS)
            due = time.monotonic() + _MOMENT_SECONDS

    return after_iteration
