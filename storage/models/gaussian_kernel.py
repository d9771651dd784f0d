"""Gaussian kernel values of sparse rows with many vectors at once."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# The vectors stand feature by feature, Z (width, n_vectors) float32: a stored value of a row meets all of them in one
# run through memory. Four features at a time, so that a sum is loaded and stored once for four products.

LANES = 16  # numbers of vectors are multiples of it: a run through memory then has no end that is treated apart

# inner_products(indices, values, start, end, Z, out (n_vectors,) float32): out[s] = <z_s, x> of the row at start:end,
# whose features are all below the width.


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


# gaussian(products (m,) float32, norms (m,) = |z_s|^2, norm = |x|^2, gamma, room (m,) float64, out (m,) float64):
#
#   out[s] = exp(-gamma max(|z_s|^2 + |x|^2 - 2 <z_s, x>, 0))
#
# By a polynomial, so that several values are made at once: relative error below 1e-13; exp(-700) stands for all below.
# exp(t) = 2^n 2^f with n + f = t log2(e), |f| <= 1/2. Adding 1.5 2^52 rounds to n, then in the lowest bits.

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
