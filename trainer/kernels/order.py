"""Kernels that choose rows of a segment: in random order, and more often the more their last visits gained.

Random numbers are made of integers only: compiled and plain Python agree to the bit.
"""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Marsaglia's xorshift (2003), 32 bits, kept in signed 64-bit integers: nothing overflows.


@njit(cache=True)
def next_random(state: int) -> int:
    state ^= (state << 13) & 0xFFFFFFFF
    state ^= state >> 17
    state ^= (state << 5) & 0xFFFFFFFF
    return state


# permutation(seed > 0, order (n,) int32): fills `order` with 0 .. n - 1 in random order (Fisher-Yates).


@njit(cache=True)
def permutation(seed: int, order: Array) -> None:
    state = seed
    for i in range(order.shape[0]):
        state = next_random(state)
        j = (state * (i + 1)) >> 32
        order[i] = order[j]
        order[j] = i


def random_order(count: int, rng: np.random.Generator) -> Array:
    """Return the numbers 0 .. count - 1 in random order, (count,) int32."""
    order = np.empty(count, np.int32)
    permutation(int(rng.integers(1, 1 << 32)), order)
    return order


# shuffle(seed > 0, items): puts the items (n,) of an array in random order, in place.


@njit(cache=True)
def shuffle(seed: int, items: Array) -> None:
    state = seed
    for i in range(items.shape[0] - 1, 0, -1):
        state = next_random(state)
        j = (state * (i + 1)) >> 32
        kept = items[i]
        items[i] = items[j]
        items[j] = kept


# Adaptive coordinate frequencies: the more a row's last visits gained, the more often it is visited.
#
# Source      Glasmachers, Dogan, "Accelerated coordinate descent with adaptive coordinate frequencies" (ACML 2013),
#             and their algorithms 3 to 5 for linear SVMs
#
# Each row i has a preference p_i, from 1 / 20 to 20. There are two schedules.

LEAST, MOST = 1.0 / 20.0, 20.0
ADAPTATION = 0.2  # "c" in the papers
_STEEPEST = math.log(MOST / LEAST)

# With accumulators each row has a credit from 0 to 1, the fraction of a visit that it is owed. Its visits in a sweep:
#
#   t = credit_i + q p_i,  visits[position] = floor(t),  credit_i <- t - floor(t)
#
# Inputs      row_id (n,) int32; q, the visits owed to a row of preference 1
# In place    preference, credit (n_rows,) float32 by row_id; visits (n,) int32 by position


@njit(cache=True)
def share_visits(row_id: Array, q: float, preference: Array, credit: Array, visits: Array) -> None:
    for position in range(row_id.shape[0]):
        i = row_id[position]
        t = np.float64(credit[i]) + q * np.float64(preference[i])
        visits[position] = int(t)
        credit[i] = t - int(t)


# As printed in algorithm 4, a sweep makes as many visits as there are rows. Each row in turn gets
#
#   m = (visits left) p_i / (sum of the preferences of the rows to come)
#   visits[position] = floor(m), or one more with a chance of m - floor(m)
#
# Inputs      row_id (n,) int32 of one segment; seed > 0
# In place    left (2,) float64: visits left, sum of preferences to come; visits (n,) int32 by position

_NONE_TO_COME = 1e-6


@njit(cache=True)
def sample_visits(row_id: Array, seed: int, preference: Array, left: Array, visits: Array) -> None:
    state = seed
    for position in range(row_id.shape[0]):
        p = np.float64(preference[row_id[position]])
        state = next_random(state)
        if left[1] - p < _NONE_TO_COME:
            visits[position] = int(left[0])
        else:
            m = left[0] * p / left[1]
            visits[position] = int(m) + int(state < (m - int(m)) * 4294967296.0)
        left[0] -= visits[position]
        left[1] -= p


# The preferences change after each visit. With Delta the gain of a visit to row i, and r the running mean of gains:
#
#   p_i <- min(max(p_i exp(c (Delta / r - 1)), 1 / 20), 20),  r <- (1 - 1/N) r + Delta / N
#
# The first N visits of a job, and all visits before the first gain, change r only.
#
# Inputs      order (k,) int32: visited positions; row_id (n,) int32; gain (k,) float64; N, rows in a sweep
# In place    preference (n_rows,) float32 by row_id; mean (2,) float64 = r, and the visits it is the mean of, up to N


@njit(cache=True)
def adapt(order: Array, row_id: Array, gain: Array, N: int, preference: Array, mean: Array) -> None:
    for k in range(order.shape[0]):
        Delta = max(gain[k], 0.0)
        if mean[1] < N:
            mean[1] += 1.0
            mean[0] += (Delta - mean[0]) / mean[1]
        elif mean[0] > 0.0:
            i = row_id[order[k]]
            h = min(ADAPTATION * (Delta / mean[0] - 1.0), _STEEPEST)
            preference[i] = min(max(np.float64(preference[i]) * math.exp(h), LEAST), MOST)
            mean[0] += (Delta - mean[0]) / N
        else:
            mean[0] = Delta
