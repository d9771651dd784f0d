"""Computes distances, and Gaussian kernel values, between a sparse row and many vectors at once."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# The vectors are the columns of Z (width, n_vectors), so that for each value of a row, the loop over all vectors runs
# through contiguous memory. The loop takes four features at a time: it loads and stores a sum once for four products.

LANES = 16  # n_vectors is a multiple of 16, so that vector code needs no loop for a remainder

# inner_products(indices, values, start, end, Z, out (n_vectors,)): out[s] = <z_s, x> of the row at start:end, whose
# features are all below the width. Training has float32 arrays, prediction float64.


@njit(cache=True, nogil=True, fastmath={"contract"})
def inner_products(indices: Array, values: Array, start: int, end: int, Z: Array, out: Array) -> None:
    n_vectors = Z.shape[1]
    for s in range(n_vectors):
        out[s] = 0.0
    even = end - ((end - start) & 3)
    for j in range(start, even, 4):
        z0, z1 = Z[np.uint32(indices[j])], Z[np.uint32(indices[j + 1])]
        z2, z3 = Z[np.uint32(indices[j + 2])], Z[np.uint32(indices[j + 3])]
        v0, v1, v2, v3 = values[j], values[j + 1], values[j + 2], values[j + 3]
        for s in range(n_vectors):
            out[s] += (v0 * z0[s] + v1 * z1[s]) + (v2 * z2[s] + v3 * z3[s])
    for j in range(even, end):
        z0, v0 = Z[np.uint32(indices[j])], values[j]
        for s in range(n_vectors):
            out[s] += v0 * z0[s]


# squared_distances(indptr (n + 1,), indices, values (nnz,) float64, place, Z (n_used, m) float64, norms (m,), out):
#
#   out[i, s] = |z_s - x_i|^2 = |z_s|^2 + |x_i|^2 - 2 <z_s, x_i>, (n, m) float64
#
# norms[s] = |z_s|^2. Z has a row for each feature that some vector has: feature f has the row place[f] of Z. Features
# with place[f] < 0, or f >= len(place), only add to |x_i|^2: they are 0 in all vectors.


@njit(cache=True, nogil=True)
def squared_distances(
    indptr: Array, indices: Array, values: Array, place: Array, Z: Array, norms: Array, out: Array
) -> None:
    features, stored, products = np.empty(len(indices), np.int32), np.empty(len(indices)), np.empty(Z.shape[1])
    for i in range(out.shape[0]):
        norm, n = 0.0, 0
        for j in range(indptr[i], indptr[i + 1]):
            norm += values[j] * values[j]
            f = np.uint32(indices[j])
            if f < place.shape[0] and place[f] >= 0:
                features[n], stored[n] = place[f], values[j]
                n += 1
        if np.isinf(norm):
            out[i] = np.inf
            continue
        inner_products(features, stored, 0, n, Z, products)
        for s in range(out.shape[1]):
            out[i, s] = max(norms[s] + norm - 2.0 * products[s], 0.0)


# gaussian(products (m,) float32, norms (m,) = |z_s|^2, norm = |x|^2, gamma, room (m,) float64, out (m,) float64):
#
#   out[s] = exp(-gamma max(|z_s|^2 + |x|^2 - 2 <z_s, x>, 0))
#
# The exponential is a polynomial, which compiles to vector code; its relative error is below 1e-13. Arguments below
# -700 count as -700. exp(t) = 2^n 2^f with n + f = t log2(e), |f| <= 1/2. Adding 1.5 2^52 rounds to the integer n and
# leaves it in the lowest bits.

_ROUNDS = 6755399441055744.0
_LEAST = -700.0
_LOG2E, _LN2 = 1.0 / math.log(2.0), math.log(2.0)
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (1.0 / math.factorial(k) for k in range(2, 13))


@njit(cache=True, nogil=True, fastmath={"contract"})
def gaussian(products: Array, norms: Array, norm: float, gamma: float, room: Array, out: Array) -> None:
    bits = room.view(np.int64)
    for s in range(out.shape[0]):
        distance = max(norms[s] + norm - 2.0 * np.float64(products[s]), 0.0)
        t = max(-gamma * distance, _LEAST) * _LOG2E
        shifted = t + _ROUNDS
        x = (t - (shifted - _ROUNDS)) * _LN2
        high = _C8 + x * (_C9 + x * (_C10 + x * (_C11 + x * _C12)))
        low = 1.0 + x * (1.0 + x * (_C2 + x * (_C3 + x * (_C4 + x * (_C5 + x * (_C6 + x * _C7))))))
        x2 = x * x
        x4 = x2 * x2
        out[s] = low + high * (x4 * x4)
        room[s] = shifted
    for s in range(out.shape[0]):
        bits[s] = (bits[s] + 1023) << 52
    for s in range(out.shape[0]):
        out[s] *= room[s]
