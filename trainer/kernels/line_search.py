"""The objective along a line, some rows at a time, as an exact line search needs it."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Problem     min over k >= 0 of  f(k) = 1/2 |w + k d|^2 + sum_i max(0, c_i + k B_i),
#             c_i = C_i (1 - y_i <w, x_i>),  B_i = -C_i y_i <d, x_i>
# Source      Franc, Sonnenburg, "Optimized cutting plane algorithm for support vector machines" (ICML 2008)
#
# f' jumps by |B_i| at the breakpoint k_i = -c_i / B_i, and rises by |d|^2 per unit of k between breakpoints. A row has
# the slope B_i just after k if B_i < 0 and k_i > k, or B_i > 0 and k_i <= k; else 0.
#
# Inputs      c (n,) float64, B (n,) float32: any run of rows

# slope_after(c, B, k, limit): sum of the slopes B_i just after k, and how many breakpoints lie in (k, limit].


@njit(cache=True, nogil=True)
def slope_after(c: Array, B: Array, k: float, limit: float) -> tuple[float, int]:
    slope, ahead = 0.0, 0
    for i in range(c.shape[0]):
        b = np.float64(B[i])
        if b != 0.0:
            place = -c[i] / b
            if (b < 0.0) == (place > k):
                slope += b
            ahead += int(k < place <= limit)
    return slope, ahead


# breakpoints(c, B, k, limit, place (m,), jump (m,)): fills in k_i and |B_i| of the m breakpoints in (k, limit].


@njit(cache=True, nogil=True)
def breakpoints(c: Array, B: Array, k: float, limit: float, place: Array, jump: Array) -> None:
    found = 0
    for i in range(c.shape[0]):
        b = np.float64(B[i])
        if b != 0.0 and k < -c[i] / b <= limit:
            place[found] = -c[i] / b
            jump[found] = abs(b)
            found += 1


# move_along(c, B, k): c <- c + k B in place; returns the losses sum_i max(0, c_i) there.


@njit(cache=True, nogil=True)
def move_along(c: Array, B: Array, k: float) -> float:
    losses = 0.0
    for i in range(c.shape[0]):
        c[i] += k * np.float64(B[i])
        losses += max(0.0, c[i])
    return losses
