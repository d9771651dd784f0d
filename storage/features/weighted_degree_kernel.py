"""Makes the features of the weighted-degree kernel."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# make_mers(indptr, words, marks: rows of storage.rows.csr, length, weights (degree,): sqrt(beta_j), offsets
#           (degree + 1,), made_indptr (n + 1,), made, values): writes the features of storage.features.weighted_degree.
#           Returns the number of values written.
#
# For each length j the loop runs over all positions: the code of a j-mer is 4 times the code of the (j - 1)-mer at the
# same position, plus the code of a base, so that positions do not depend on each other.


@njit(cache=True, nogil=True)
def make_mers(
    indptr: Array, words: Array, marks: Array, length: int, weights: Array, offsets: Array, made_indptr: Array,
    made: Array, values: Array,
) -> int:  # fmt: skip
    degree, a_place, k = weights.shape[0], offsets[-1], 0
    base, code, is_known = np.empty(length, np.int32), np.empty(length, np.int32), np.empty(length, np.int32)
    scaled = np.zeros(degree, np.float32)
    total = 0.0
    for j in range(min(degree, length)):
        total += (length - j) * weights[j] * weights[j]
    for j in range(degree):
        scaled[j] = weights[j] / math.sqrt(total)
    made_indptr[0] = 0
    for row in range(indptr.shape[0] - 1):
        start, has_unknown = indptr[row], False
        for at in range(length):
            word, bit = np.uint32(words[start + (at >> 4)]), np.uint32(at & 15)
            base[at] = np.int32((word >> (np.uint32(2) * bit)) & np.uint32(3))
            unknown = (np.uint32(marks[start + (at >> 4)] - np.float32(1.0)) >> bit) & np.uint32(1)
            is_known[at] = np.int32(1) - np.int32(unknown)
            has_unknown |= unknown != 0
            code[at] = np.int32(0)
        first = k
        if has_unknown:
            k = _make_known_mers(base, code, is_known, degree, a_place, weights, offsets, k, made, values)
        else:
            for j in range(min(degree, length)):
                value, shift = scaled[j], np.int32(offsets[j])
                for at in range(length - j):
                    code[at] = code[at] * np.int32(4) + base[at + j]
                    made[k + at] = np.int32(at * a_place) + shift + code[at]
                    values[k + at] = value
                k += length - j
        if has_unknown and k > first:
            _normalise(values, first, k)
        made_indptr[row + 1] = k
    return k


# Makes the features of a row that has unknown bases, not yet scaled to norm 1. is_known (length,) changes in place:
# after round j, is_known[l] says whether the j-mer at position l has no unknown base.


@njit(cache=True)
def _make_known_mers(
    base: Array, code: Array, is_known: Array, degree: int, a_place: int, weights: Array, offsets: Array, k: int,
    made: Array, values: Array,
) -> int:  # fmt: skip
    length = base.shape[0]
    known_base = is_known.copy()
    for j in range(min(degree, length)):
        for at in range(length - j):
            code[at] = code[at] * np.int32(4) + base[at + j]
            is_known[at] &= known_base[at + j]
            if is_known[at]:
                made[k] = at * a_place + offsets[j] + code[at]
                values[k] = weights[j]
                k += 1
    return k


@njit(cache=True)
def _normalise(values: Array, start: int, end: int) -> None:
    total = 0.0
    for j in range(start, end):
        total += np.float64(values[j]) * np.float64(values[j])
    for j in range(start, end):
        values[j] = np.float64(values[j]) / math.sqrt(total)
