"""Sparse rows (compressed sparse row form), and the kernels on them that reader and trainer share.

Row i has the features `indices[indptr[i]:indptr[i+1]]`, with the values at these positions of `values`.

Rows may be strings of bases. `indices` then hold the words of a row as bit patterns: 16 bases in a word, 2 bits each,
the first in the lowest bits; A C G T are 0 1 2 3. `values` are 1 + m, where bit k of m says that base k of the word is
unknown. Unknown bases, and the bits of the last word beyond the string, are 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch

Array = NDArray[Any]
Figure = Any  # a number for one task; for several tasks an array (n_tasks,)
EMPTY: Mapping[str, Array] = {}  # a set of arrays by name that has none

INDPTR = np.dtype("<i8")
INDEX = np.dtype("<i4")
VALUE = np.dtype("<f4")
LABEL = np.dtype("<f8")
WEIGHT = np.dtype("<f8")
GROUP = np.dtype("<u8")
BASES_A_WORD = 16  # bases of a string in one index

# A longer w exceeds the processor cache of a core: kernels then prefetch its weights.
LARGE_W = 1 << 18

# Up to this length w has a weight for every feature number, whether the feature occurs or not.
DENSE_WIDTH = 1 << 21

# Kernels that read rows in order prefetch the weight that they need READ_AHEAD non-zeros later. 64 and 128 take 0.74 of
# the time of prefetching one row ahead, 32 takes 0.91.
READ_AHEAD = 64


@dataclass(frozen=True)
class Rows:
    """Labelled rows in compressed sparse row form.

    label   (n_rows,)     float64, the label in the input; for a string, its index in Manifest.label_names
    indptr  (n_rows + 1,) int64, starts at 0
    indices (nnz,)        int32, no feature twice in a row; the input's feature numbers (base 0 or 1), increasing within
                          a row, unless the dataset has renumbered features, or orders columns by name
    values  (nnz,)        float32, finite
    weight  (n_rows,)     float64, finite and >= 0; None: each row has weight 1
    group   (n_rows,)     uint64, equal for rows that one fold must contain together; None: each row is its own group
    """

    label: Array
    indptr: Array
    indices: Array
    values: Array
    weight: Array | None = None
    group: Array | None = None

    def __len__(self) -> int:
        return len(self.label)

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.indptr[-1])

    def pieces(self, most: int) -> Iterator["Rows"]:
        """Yield the rows in order, in batches of at most `most` rows; if there are no rows, yield one empty batch."""
        if len(self) <= most:
            yield self
            return
        for begin in range(0, len(self), most):
            yield self.part(begin, begin + most)

    def part(self, begin: int, end: int) -> "Rows":
        """Return the rows from number `begin` up to `end`."""
        rows, indptr = slice(begin, end), self.indptr[begin : end + 1]
        stored = slice(int(indptr[0]), int(indptr[-1]))
        weight, group = (None if each is None else each[rows] for each in (self.weight, self.group))
        return Rows(self.label[rows], indptr - indptr[0], self.indices[stored], self.values[stored], weight, group)


def read_only(*arrays: Array) -> tuple[Array, ...]:
    """Return read-only views of arrays for a kernel, so that numba compiles one version for rows of any origin."""
    views = tuple(array[:] for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views


def load_kernels() -> None:
    """Call a small kernel: the first call in a process takes 0.3 s, to load code that all kernels need."""
    squared_norms(np.zeros(1, INDPTR), np.empty(0, VALUE), np.empty(0))


# squared_norms(indptr (n + 1,), values (nnz,), out (n,) float64): out[i] = |x_i|^2, called Qii in the papers.


@njit(cache=True, nogil=True)
def squared_norms(indptr: Array, values: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[j])  # float() would leave it a float32 when compiled
            total += value * value
        out[i] = total


# feature(indices, start, j): the feature of values[j], in the row that begins at `start`. Dense rows have no indices:
# their values are those of the features 0, 1, 2, ... The result is unsigned: numba tests signed indices for being
# negative.


@njit(cache=True, nogil=True, inline="always")
def feature(indices: Array, start: int, j: int) -> np.uint32:
    return np.uint32(indices[j]) if indices.shape[0] > 0 else np.uint32(j - start)


# dot(indices, values, start, end, w): <w, x> of the row at start:end. With four sums no addition waits for the addition
# before it; for dense rows the compiler makes vector code of the sums.


@njit(cache=True, nogil=True)
def dot(indices: Array, values: Array, start: int, end: int, w: Array) -> float:
    if indices.shape[0] == 0:
        return _dense_dot(values[start:end], w)
    even = end - ((end - start) & 3)
    s0 = s1 = s2 = s3 = 0.0
    for j in range(start, even, 4):
        s0 += w[np.uint32(indices[j])] * values[j]
        s1 += w[np.uint32(indices[j + 1])] * values[j + 1]
        s2 += w[np.uint32(indices[j + 2])] * values[j + 2]
        s3 += w[np.uint32(indices[j + 3])] * values[j + 3]
    for j in range(even, end):
        s0 += w[np.uint32(indices[j])] * values[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def _dense_dot(x: Array, w: Array) -> float:
    even = x.shape[0] & ~3
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, even, 4):
        s0 += w[j] * x[j]
        s1 += w[j + 1] * x[j + 1]
        s2 += w[j + 2] * x[j + 2]
        s3 += w[j + 3] * x[j + 3]
    for j in range(even, x.shape[0]):
        s0 += w[j] * x[j]
    return (s0 + s1) + (s2 + s3)


# dot_fetching(..., coming, coming_end): as `dot`; it also prefetches the weights of the row at coming:coming_end, while
# it adds: it handles 1.2 to 1.35 times as many non-zeros a second as prefetching before adding.


@njit(cache=True, nogil=True)
def dot_fetching(indices: Array, values: Array, start: int, end: int, w: Array, coming: int, coming_end: int) -> float:
    if indices.shape[0] == 0:
        return _dense_dot(values[start:end], w)
    both = min(end - start, coming_end - coming) & ~3
    s0 = s1 = s2 = s3 = 0.0
    for j in range(start, start + both, 4):
        ahead = coming + (j - start)
        prefetch(w, indices[ahead])
        prefetch(w, indices[ahead + 1])
        prefetch(w, indices[ahead + 2])
        prefetch(w, indices[ahead + 3])
        s0 += w[np.uint32(indices[j])] * values[j]
        s1 += w[np.uint32(indices[j + 1])] * values[j + 1]
        s2 += w[np.uint32(indices[j + 2])] * values[j + 2]
        s3 += w[np.uint32(indices[j + 3])] * values[j + 3]
    for j in range(coming + both, coming_end):
        prefetch(w, indices[j])
    return (s0 + s1) + (s2 + s3) + dot(indices, values, start + both, np.int64(end), w)


# dot_streaming(...): as `dot`, for rows that are read in order: it prefetches the weights READ_AHEAD positions later,
# in this row or a later one. `indices` must have READ_AHEAD + 4 positions after `end`.


@njit(cache=True, nogil=True)
def dot_streaming(indices: Array, values: Array, start: int, end: int, w: Array) -> float:
    even = end - ((end - start) & 3)
    s0 = s1 = s2 = s3 = 0.0
    for j in range(start, even, 4):
        ahead = j + READ_AHEAD
        prefetch(w, indices[ahead])
        prefetch(w, indices[ahead + 1])
        prefetch(w, indices[ahead + 2])
        prefetch(w, indices[ahead + 3])
        s0 += w[np.uint32(indices[j])] * values[j]
        s1 += w[np.uint32(indices[j + 1])] * values[j + 1]
        s2 += w[np.uint32(indices[j + 2])] * values[j + 2]
        s3 += w[np.uint32(indices[j + 3])] * values[j + 3]
    for j in range(even, end):
        s0 += w[np.uint32(indices[j])] * values[j]
    return (s0 + s1) + (s2 + s3)


# row_dots(indptr, indices, values, w (d,) float64, out (n,) float64): out[i] = <w, x_i>, bit for bit independent of d.
# Features >= d, which must be the last of their row, are ignored, as in LIBLINEAR's predict.


@njit(cache=True, nogil=True)
def row_dots(indptr: Array, indices: Array, values: Array, w: Array, out: Array) -> None:
    dimension = w.shape[0]
    last = indptr[out.shape[0]] - READ_AHEAD - 4 if dimension > LARGE_W and indices.shape[0] > 0 else -1
    for i in range(out.shape[0]):
        start, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
        while end > start and feature(indices, start, end - 1) >= dimension:
            end -= 1
        if end <= last:
            out[i] = dot_streaming(indices, values, start, end, w)
        else:
            out[i] = dot(indices, values, start, end, w)


# add_rows(coefficient (n,), indptr, indices, values, w (d,)): w += sum_i coefficient[i] x_i, in place.


@njit(cache=True, nogil=True)
def add_rows(coefficient: Array, indptr: Array, indices: Array, values: Array, w: Array) -> None:
    prefetches = w.shape[0] > LARGE_W and indices.shape[0] > 0
    for i in range(coefficient.shape[0]):
        if prefetches and i + 1 < coefficient.shape[0] and coefficient[i + 1] != 0.0:
            for j in range(indptr[i + 1], indptr[i + 2]):
                prefetch(w, indices[j])
        if coefficient[i] != 0.0:
            add_row(indptr[i], indptr[i + 1], indices, values, coefficient[i], w)


# add_row(start, end, indices, values, step, w): w += step x, in place, where x is the row at start:end.


@njit(cache=True, nogil=True)
def add_row(start: int, end: int, indices: Array, values: Array, step: float, w: Array) -> None:
    if indices.shape[0] == 0:
        x = values[start:end]
        for j in range(end - start):
            w[j] += step * np.float64(x[j])
    else:
        for j in range(start, end):
            w[np.uint32(indices[j])] += step * np.float64(values[j])
