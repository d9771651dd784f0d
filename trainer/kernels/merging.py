"""Merging two support vectors of a Gaussian kernel into the one vector that is nearest to their sum."""

import functools
import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# Source      Wang, Crammer, Vucetic, "Breaking the curse of kernelization" (JMLR 2012), section 5; Glasmachers, Qaadan,
#             "Speeding up budgeted stochastic gradient descent SVM training with precomputed golden section search"
#
# beta_i phi(z_i) + beta_j phi(z_j), both of one sign, become beta phi(z) with
#
#   m = beta_i / (beta_i + beta_j),  k = k(z_i, z_j),  s(h) = m k^((1-h)^2) + (1-m) k^(h^2)
#   h* = argmax over [0, 1] of s,  z = h* z_i + (1-h*) z_j,  beta = (beta_i + beta_j) s(h*)
#
# and lose  |...|^2 = (beta_i + beta_j)^2 wd(m, k),  wd = m^2 + (1-m)^2 + 2 m (1-m) k - s(h*)^2,  from 0 to 1/4.
#
# For m <= 1/2 the best h is at most 1/2: there s(h) >= s(1-h). For k < e^-2 and m near 1/2 s has two maxima, one on
# either side of 1/2. So the search is in one half.

GRID = 400
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_NEWTON = 5  # steps, from COARSE on
COARSE = 0.01  # of h, where each candidate is searched: that of the authors
_STARTS = 8


@njit(cache=True, nogil=True)
def share(h: float, m: float, log_k: float) -> float:
    return m * math.exp((1.0 - h) * (1.0 - h) * log_k) + (1.0 - m) * math.exp(h * h * log_k)


# golden_section(m, k, low, high, tolerance): h in [low, high] where s is largest, if it has one maximum there.


@njit(cache=True, nogil=True)
def golden_section(m: float, log_k: float, low: float, high: float, tolerance: float) -> float:
    width = high - low
    a, b = high - _GOLDEN * width, low + _GOLDEN * width
    at_a, at_b = share(a, m, log_k), share(b, m, log_k)
    while high - low > tolerance:
        if at_a >= at_b:
            high, b, at_b = b, a, at_a
            a = high - _GOLDEN * (high - low)
            at_a = share(a, m, log_k)
        else:
            low, a, at_a = a, b, at_b
            b = low + _GOLDEN * (high - low)
            at_b = share(b, m, log_k)
    return 0.5 * (low + high)


# best_h(m, k): in the right half, near the best of some places, by golden section and then Newton's method on s'.


@njit(cache=True, nogil=True)
def best_h(m: float, k: float) -> float:
    log_k = math.log(max(k, 1e-300))
    first = 0.0 if m <= 0.5 else 0.5
    step = 0.5 / _STARTS
    best, most = first, -1.0
    for place in range(_STARTS + 1):
        h = first + place * step
        s = share(h, m, log_k)
        if s > most:
            best, most = h, s
    low, high = max(first, best - step), min(first + 0.5, best + step)
    h = golden_section(m, log_k, low, high, COARSE)
    for _ in range(_NEWTON):
        a = m * math.exp((1.0 - h) * (1.0 - h) * log_k)
        b = (1.0 - m) * math.exp(h * h * log_k)
        slope = h * b - (1.0 - h) * a
        bend = a * (1.0 + 2.0 * log_k * (1.0 - h) * (1.0 - h)) + b * (1.0 + 2.0 * log_k * h * h)
        if bend <= 0.0:
            break  # log_k < 0: s would be convex here
        h = min(max(h - slope / bend, low), high)
    # Neither method reaches the end of the half exactly.
    return h if share(h, m, log_k) >= most else best


# degradation(h, m, k): wd at that h.


@njit(cache=True, nogil=True)
def degradation(h: float, m: float, k: float) -> float:
    s = share(h, m, math.log(max(k, 1e-300)))
    return max(m * m + (1.0 - m) * (1.0 - m) + 2.0 * m * (1.0 - m) * k - s * s, 0.0)


# searched(m, k): wd by golden section at the authors' precision.


@njit(cache=True, nogil=True)
def searched(m: float, k: float) -> float:
    first = 0.0 if m <= 0.5 else 0.5
    h = golden_section(m, math.log(max(k, 1e-300)), first, first + 0.5, COARSE)
    return degradation(h, m, k)


# looked_up(table (GRID + 1, GRID + 1), m, k): wd between four places of the table; m and k from 0 to 1.
#
# The table holds wd / (m (1-m))^2. For small m wd grows as m^2, and the lightest of some hundred vectors often has an m
# in the first cell: a line in m between values of wd itself would misjudge partners there. At m = 0 and m = 1 the
# quotient is
#
#   lim wd / m^2 = 1 - k^2 + 2 k^2 log k    (h* / m -> k as m -> 0)


@njit(cache=True, nogil=True)
def looked_up(table: Array, m: float, k: float) -> float:
    x, y = m * GRID, k * GRID
    i, j = min(int(x), GRID - 1), min(int(y), GRID - 1)
    u, v = x - i, y - j
    low = table[i, j] * (1.0 - v) + table[i, j + 1] * v
    high = table[i + 1, j] * (1.0 - v) + table[i + 1, j + 1] * v
    size = m * (1.0 - m)
    return size * size * (low * (1.0 - u) + high * u)


@njit(cache=True, nogil=True)
def _fill(table: Array) -> None:
    for j in range(GRID + 1):
        k = j / GRID
        edge = 1.0 - k * k + 2.0 * k * k * math.log(k) if j > 0 else 1.0
        table[0, j] = table[GRID, j] = edge
        for i in range(1, GRID):
            m = i / GRID
            table[i, j] = degradation(best_h(m, k), m, k) / (m * (1.0 - m)) ** 2


@functools.lru_cache(maxsize=1)
def degradation_table() -> Array:
    """Return a table (GRID + 1, GRID + 1) float64 of wd(m, k) / (m (1-m))^2 at m = i / GRID and k = j / GRID."""
    table = np.empty((GRID + 1, GRID + 1))
    _fill(table)
    return table
