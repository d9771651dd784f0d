"""A rival of one pass: a ball that grows (Rai, Daumé, Venkatasubramanian, "Streamed learning: one-pass SVMs", 2009).

Their StreamSVM, Algorithm 1, is for the squared hinge loss. With z_i = (y_i x_i, e_i / sqrt(C)), e_i the i-th unit
vector, the machine of rows of equal length is the centre of the smallest ball around all z_i. A row outside of the ball
so far makes it the smallest ball around the old one and the row. Of the centre's second part only its square is needed.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse


def one_pass(X: sparse.csr_matrix, y: np.ndarray, C: float) -> tuple[np.ndarray, float]:
    """w (d,) and the radius after one pass over the rows of X (n, d) in their order; y (n,) of +1 and -1."""
    X = sparse.csr_matrix(X, dtype=np.float64)
    direction, state = np.zeros(X.shape[1]), np.zeros(4)
    _grow(X.indptr, X.indices, X.data, np.asarray(y, np.float64), C, direction, state)
    return state[0] * direction, float(state[2])


# direction (d,), in place: w is state[0] times it, so that a step costs as much as the row is long
# state (4,), in place: that factor, |w|^2, the radius, the square of the centre's second part


@njit(cache=True)
def _grow(indptr, indices, values, y, C, direction, state):
    for i in range(len(y)):
        start, end = indptr[i], indptr[i + 1]
        dot = square = 0.0
        for j in range(start, end):
            dot += direction[indices[j]] * values[j]
            square += values[j] * values[j]
        inner = y[i] * state[0] * dot
        distance = np.sqrt(max(state[1] - 2.0 * inner + square, 0.0) + state[3] + 1.0 / C)
        if i and distance <= state[2]:
            continue
        # The centre goes by this share of the way to the row; the first row is the centre.
        share = 0.5 * (1.0 - state[2] / distance) if i else 1.0
        left = 1.0 - share
        state[1] = left * left * state[1] + 2.0 * left * share * inner + share * share * square
        state[2] += 0.5 * (distance - state[2]) if i else 0.0
        state[3] = left * left * state[3] + share * share / C
        state[0] = left * state[0] if i else 1.0
        for j in range(start, end):
            direction[indices[j]] += share * y[i] * values[j] / state[0]
