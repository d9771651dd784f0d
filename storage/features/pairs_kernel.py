"""Makes products of pairs of features."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

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
