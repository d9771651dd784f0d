"""Rows of sparse data, and the few kernels that reader and trainer share.

A row i of `Rows` has the features `indices[indptr[i]:indptr[i+1]]` with the values at the same places of `values`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.prefetch_kernel import prefetch

Array = NDArray[Any]
Figure = Any  # a number, or, of several lanes, an array (lanes,) of them
EMPTY: Mapping[str, Array] = {}  # no arrays

INDPTR = np.dtype("<i8")
INDEX = np.dtype("<i4")
VALUE = np.dtype("<f4")
LABEL = np.dtype("<f8")
WEIGHT = np.dtype("<f8")
GROUP = np.dtype("<u8")

# From this length on w outgrows the cache next to a core, and it pays to ask for a row's weights one row ahead.
LARGE_W = 1 << 18

# Up to this length a w has a place for each feature there could be, whether it occurs or not.
DENSE_WIDTH = 1 << 21

# Rows that are met one after the other: weights are asked for so many non-zeros ahead (64 and 128 take 0.74 of the time
# that one row ahead does, 32 takes 0.91).
READ_AHEAD = 64


@dataclass(frozen=True)
class Rows:
    """A run of labelled rows in compressed sparse row form.

    label   (n_rows,)     float64, the label as it stood in the input
    indptr  (n_rows + 1,) int64, starts at 0
    indices (nnz,)        int32, each once in a row; strictly increasing inside it, as numbered in the input (base 0 or
                          1), unless features were numbered anew
    values  (nnz,)        float32, finite
    weight  (n_rows,)     float64, finite and >= 0; None: each row has weight 1
    group   (n_rows,)     uint64, the same for rows that belong together; None: each row is a group of its own
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
        """Stored values."""
        return int(self.indptr[-1])

    def pieces(self, most: int) -> Iterator["Rows"]:
        """The rows in their order, so many at a time at the most; without rows one piece that has none."""
        if len(self) <= most:
            yield self
            return
        for begin in range(0, len(self), most):
            some = slice(begin, begin + most)
            indptr = self.indptr[begin : begin + most + 1]
            own = slice(int(indptr[0]), int(indptr[-1]))
            weight, group = (None if each is None else each[some] for each in (self.weight, self.group))
            yield Rows(self.label[some], indptr - indptr[0], self.indices[own], self.values[own], weight, group)


def load_kernels() -> None:
    """Call a kernel: the first of a process takes 0.3 s more, whichever it is, to load what all need."""
    squared_norms(np.zeros(1, INDPTR), np.empty(0, VALUE), np.empty(0))


# squared_norms(indptr (n + 1,), values (nnz,), out (n,) float64): out[i] = |x_i|^2, "Qii" in the papers.


@njit(cache=True, nogil=True)
def squared_norms(indptr: Array, values: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[j])  # float() would leave it a float32 when compiled
            total += value * value
        out[i] = total


# dot(indices, values, start, end, w): <w, x> of the row at start:end. Four sums, so that an addition need not wait for
# the one before it; unsigned indices, since each signed one is asked whether it counts from the end.


@njit(cache=True, nogil=True)
def dot(indices: Array, values: Array, start: int, end: int, w: Array) -> float:
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


# dot_fetching(..., coming, coming_end): the same, and asks for the weights of the row at coming:coming_end meanwhile:
# memory then works while the sums are made (1.2 to 1.35 times as many non-zeros a second as asking beforehand).


@njit(cache=True, nogil=True)
def dot_fetching(indices: Array, values: Array, start: int, end: int, w: Array, coming: int, coming_end: int) -> float:
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
    return (s0 + s1) + (s2 + s3) + dot(indices, values, start + both, end, w)


# dot_streaming(...): as dot, and asks for the weights of what is READ_AHEAD places further on, in whatever row: rows
# are met one after the other. READ_AHEAD + 4 places behind `end` have to be there.


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


# row_dots(indptr, indices, values, w (d,) float64, out (n,) float64): out[i] = <w, x_i>, the same for any d.
# Features at or beyond d are ignored, as LIBLINEAR's predict does.


@njit(cache=True, nogil=True)
def row_dots(indptr: Array, indices: Array, values: Array, w: Array, out: Array) -> None:
    dimension = w.shape[0]
    last = indptr[out.shape[0]] - READ_AHEAD - 4 if dimension > LARGE_W else -1
    for i in range(out.shape[0]):
        start, end = indptr[i], indptr[i + 1]
        while end > start and indices[end - 1] >= dimension:
            end -= 1
        if end <= last:
            out[i] = dot_streaming(indices, values, start, end, w)
        else:
            out[i] = dot(indices, values, start, end, w)


# add_rows(coefficient (n,), indptr, indices, values, w (d,)): w += sum_i coefficient[i] x_i, in place.


@njit(cache=True, nogil=True)
def add_rows(coefficient: Array, indptr: Array, indices: Array, values: Array, w: Array) -> None:
    prefetches = w.shape[0] > LARGE_W
    for i in range(coefficient.shape[0]):
        if prefetches and i + 1 < coefficient.shape[0] and coefficient[i + 1] != 0.0:
            for j in range(indptr[i + 1], indptr[i + 2]):
                prefetch(w, indices[j])
        if coefficient[i] != 0.0:
            for j in range(indptr[i], indptr[i + 1]):
                w[np.uint32(indices[j])] += coefficient[i] * values[j]
