"""Inner loops of feature maps."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array

_AHEAD = 16  # number of values by which kernels prefetch ahead

# gather_rows(picked (k,), indptr, indices, values; out_indptr (k + 1,), out_indices, out_values): copies the rows at
# the positions `picked`, in this order.


@njit(cache=True, nogil=True)
def gather_rows(
    picked: Array, indptr: Array, indices: Array, values: Array, out_indptr: Array, out_indices: Array,
    out_values: Array,
) -> None:  # fmt: skip
    k = 0
    out_indptr[0] = 0
    for i in range(picked.shape[0]):
        for j in range(indptr[picked[i]], indptr[picked[i] + 1]):
            out_indices[k], out_values[k] = indices[j], values[j]
            k += 1
        out_indptr[i + 1] = k


# make_unit_rows(indptr (n + 1,), values (nnz,), out (nnz,) float32): divides each row by its norm, if that is not 0.


@njit(cache=True, nogil=True)
def make_unit_rows(indptr: Array, values: Array, out: Array) -> None:
    for row in range(indptr.shape[0] - 1):
        total = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            value = np.float64(values[j])
            total += value * value
        length = math.sqrt(total) if total > 0.0 else 1.0
        for j in range(indptr[row], indptr[row + 1]):
            out[j] = np.float64(values[j]) / length


# weigh(indices, values (nnz,), weights (width,) float64, out (nnz,) float32): out[j] = values[j] weights[indices[j]].


@njit(cache=True, nogil=True)
def weigh(indices: Array, values: Array, weights: Array, out: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(weights, indices[j + _AHEAD])
        out[j] = np.float64(values[j]) * weights[np.uint32(indices[j])]


# project(indptr, indices, values, omega (width, D), b (D,), z (n, D) float32): z_i = b + sum_f x_if omega_f.


@njit(cache=True, nogil=True, fastmath=True)
def project(indptr: Array, indices: Array, values: Array, omega: Array, b: Array, z: Array) -> None:
    dimension = b.shape[0]
    for i in range(z.shape[0]):
        for d in range(dimension):
            z[i, d] = b[d]
        for j in range(indptr[i], indptr[i + 1]):
            f, value = indices[j], values[j]
            for d in range(dimension):
                z[i, d] += value * omega[f, d]


# count_features(indices, values (nnz,), rows int64, sums, squares float64, largest float32 (width,)): adds each value
# to the statistics of its feature, in place. A feature occurs at most once in a row, so each value counts one row.


@njit(cache=True, nogil=True)
def count_features(indices: Array, values: Array, rows: Array, sums: Array, squares: Array, largest: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            ahead = indices[j + _AHEAD]
            prefetch(rows, ahead)
            prefetch(sums, ahead)
            prefetch(squares, ahead)
            prefetch(largest, ahead)
        f, value = indices[j], np.float64(values[j])
        rows[f] += 1
        sums[f] += value
        squares[f] += value * value
        largest[f] = max(largest[f], abs(values[j]))


# make_pairs(indptr, indices, values, width, squares; made_indptr (n + 1,), made, products): writes the features of each
# row, then the products of its features i < j (i <= j with `squares`), numbered width + j (j + 1) / 2 + i. Returns the
# number of values written.


@njit(cache=True, nogil=True)
def make_pairs(
    indptr: Array, indices: Array, values: Array, width: int, squares: bool, made_indptr: Array, made: Array,
    products: Array,
) -> int:  # fmt: skip
    k = 0
    made_indptr[0] = 0
    for row in range(indptr.shape[0] - 1):
        start, end = indptr[row], indptr[row + 1]
        for a in range(start, end):
            made[k], products[k] = indices[a], values[a]
            k += 1
        for a in range(start, end):
            for b in range(start, a + 1 if squares else a):
                low, high = min(indices[a], indices[b]), max(indices[a], indices[b])
                made[k] = width + np.int64(high) * (np.int64(high) + 1) // 2 + low
                products[k] = values[a] * values[b]
                k += 1
        made_indptr[row + 1] = k
    return k


# pair_hash(low, high): the finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014), applied to the pair.


@njit(cache=True)
def pair_hash(low: int, high: int) -> int:
    z = (np.uint64(high) << np.uint64(32)) + np.uint64(low) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))  # type: ignore[return-value]


# make_hashed_pairs(..., place (2^bits,) int32, all -1, ...): as make_pairs, but a pair has the number width + hash mod
# 2^bits, and a sign from another bit of the hash. Products of a row with equal numbers are added, so no number repeats.


@njit(cache=True, nogil=True)
def make_hashed_pairs(
    indptr: Array, indices: Array, values: Array, width: int, squares: bool, place: Array, made_indptr: Array,
    made: Array, products: Array,
) -> int:  # fmt: skip
    k, mask = 0, np.uint64(place.shape[0] - 1)
    made_indptr[0] = 0
    for row in range(indptr.shape[0] - 1):
        start, end = indptr[row], indptr[row + 1]
        for a in range(start, end):
            made[k], products[k] = indices[a], values[a]
            k += 1
        first = k
        for a in range(start, end):
            for b in range(start, a + 1 if squares else a):
                hashed = pair_hash(min(indices[a], indices[b]), max(indices[a], indices[b]))
                product = values[a] * values[b]
                if hashed >> np.uint64(63):
                    product = -product
                number = np.int64(hashed & mask)
                if place[number] < 0:
                    place[number] = k - first
                    made[k], products[k] = width + number, product
                    k += 1
                else:
                    products[first + place[number]] += product
        for j in range(first, k):
            place[made[j] - width] = -1
        made_indptr[row + 1] = k
    return k


# make_mers(indptr, words, marks: rows of storage.rows.csr, length, weights (degree,): sqrt(beta_j), offsets
#           (degree + 1,), made_indptr (n + 1,), made, values): see WeightedDegree. Returns the number
#           of values written.
#
# For each length j the loop runs over all positions: the code of a j-mer is 4 times the code of the (j - 1)-mer at the
# same position, plus a base, so that positions do not depend on each other.


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
