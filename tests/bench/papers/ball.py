"""A rival of one pass: a ball that grows (Rai, Daumé, Venkatasubramanian, "Streamed learning: one-pass SVMs", 2009).

Their StreamSVM, Algorithm 1, is for the squared hinge loss. With z_i = (y_i x_i, e_i / sqrt(C)), e_i the i-th unit
vector, the machine of rows of equal length is the centre of the smallest ball around all z_i. A row outside of the ball
so far makes it the smallest ball around the old one and the row. Of the centre's second part only its square is needed.
"""

from __future__ import annotations

import numpy as np
from numba import njit


class Ball:
    """Grows with the rows that it takes: `w` (features,) and `radius` are those of the rows so far."""

    def __init__(self, n_features: int, C: float) -> None:
        self._C = C
        # w is state[0] times the direction, so that a step costs as much as the row is long. state: that factor,
        # |w|^2, the radius, the square of the centre's second part.
        self._direction, self._state = np.zeros(n_features), np.zeros(4)

    def take(self, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, y: np.ndarray) -> None:
        """Take rows in their order, as CSR; y (n,) of +1 and -1."""
        values, y = (np.asarray(each, np.float64) for each in (values, y))
        _grow(indptr, indices, values, y, self._C, self._direction, self._state)

    @property
    def w(self) -> np.ndarray:
        return self._state[0] * self._direction

    @property
    def radius(self) -> float:
        return float(self._state[2])


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
        is_first = state[0] == 0.0
        if not is_first and distance <= state[2]:
            continue
        # The centre goes by this share of the way to the row; the first row is the centre.
        share = 1.0 if is_first else 0.5 * (1.0 - state[2] / distance)
        left = 1.0 - share
        state[1] = left * left * state[1] + 2.0 * left * share * inner + share * share * square
        state[2] += 0.0 if is_first else 0.5 * (distance - state[2])
        state[3] = left * left * state[3] + share * share / C
        state[0] = 1.0 if is_first else left * state[0]
        for j in range(start, end):
            direction[indices[j]] += share * y[i] * values[j] / state[0]
