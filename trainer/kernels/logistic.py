"""Dual coordinate descent for logistic regression: a visit to one alpha_i. See logistic_and_regression.py."""

import math

from streamsvm.storage.machine.compiled import njit
from streamsvm.trainer.problem.losses.logistic import LEAST_SHARE, MOST_SHARE

# Problem     min over 0 <= alpha_i <= C_i of  1/2 |w|^2 + sum [alpha_i log alpha_i + (C_i - alpha_i) log(C_i - alpha_i)
#             - C_i log C_i],  w = sum alpha_i y_i x_i
# Source      Yu, Huang, Lin, "Dual coordinate descent methods for logistic regression and maximum entropy models"
#             (Machine Learning 85, 2011), algorithm 5
#
# One variable, with m = y_i <w, x_i>:
#
#   G = m + log(alpha_i / (C_i - alpha_i))          gradient
#   z is alpha_i or C_i - alpha_i, whichever will be at most C_i / 2; for it Newton steps on
#   g(z) = Qii (z - z_old) +- m + log(z / (C_i - z)):  z <- z - g / (Qii + C_i / (z (C_i - z))), or z / 10 if that is
#   negative. g is concave there: from the first step on z is below the root, and comes ever nearer
#
# alpha_i is taken for 0 below 2^-100 C_i, and for C_i from (1 - 2^-33) C_i on, where C_i - alpha_i loses its digits: m
# is below -22 there, and the row's loss 10^11 times what is given away. A row starts at alpha_i = 0, where the
# objective is 0, and leaves it when visited.
# Their paper solves g = 0 roughly at first; here every step is exact, so that the dual objective never falls.

EXACT = 1e-10
_MOST_STEPS = 100


@njit(cache=True, nogil=True)
def logistic_gradient(a: float, m: float, C: float) -> float:
    """Return the projected gradient at alpha_i = a and margin m: G, or 0 where a step along -G would leave [0, C]."""
    share = min(max(a / C, LEAST_SHARE), MOST_SHARE)
    G = m + math.log(share / (1.0 - share))
    if (share == LEAST_SHARE and G >= 0.0) or (share == MOST_SHARE and G <= 0.0):
        return 0.0
    return G


@njit(cache=True, nogil=True)
def logistic_step(a: float, m: float, Q: float, C: float) -> float:
    """Return the best alpha_i while no other changes; it is `a` now, maybe outside [0, C]. m: margin, Q = |x_i|^2."""
    is_lower = Q * (C - a - a) / 2.0 + m >= 0.0
    old = a if is_lower else C - a
    slope = m if is_lower else -m
    least = (LEAST_SHARE if is_lower else 1.0 - MOST_SHARE) * C
    z = min(max(old, least), C)
    if z > C / 2.0:
        z *= 0.1
    for _ in range(_MOST_STEPS):
        g = Q * (z - old) + slope + math.log(z / (C - z))
        if abs(g) <= EXACT:
            break
        before = z
        z -= g / (Q + C / (z * (C - z)))
        if z <= 0.0:
            z = before * 0.1
        z = max(z, least)
        if z == before:
            break
    if z == least:
        z = 0.0
    return z if is_lower else C - z


@njit(cache=True, nogil=True)
def negative_entropy(a: float, C: float) -> float:
    """Return minus a row's term d of the dual objective: a log a + (C - a) log(C - a) - C log C."""
    share = a / C
    total = 0.0
    if share > 0.0:
        total += share * math.log(share)
    if share < 1.0:
        total += (1.0 - share) * math.log(1.0 - share)
    return C * total


# logistic_visit(a, m, Q, C): what a visit to alpha_i = a finds and does, m = y_i <w, x_i>, and returns
#
#   PG     the projected gradient: G, or 0 where a step along -G would leave the box
#   rest   -1: no row rests, at the optimum none is at a bound
#   term   the row's term of P - D:  C log(1 + exp(-m)) + a m - d(a), at least 0
#   new    alpha_i after the visit
#   gain   0: how far margins have moved matters for rows that rest


@njit(cache=True, nogil=True)
def logistic_visit(a: float, m: float, Q: float, C: float) -> tuple[float, float, float, float, float]:
    inside = min(max(a, 0.0), C)
    PG = logistic_gradient(inside, m, C)
    # C max(0, -m) + a m without the two parts, of which little may be left.
    term = m * (inside if m > 0.0 else inside - C) + C * math.log1p(math.exp(-abs(m))) + negative_entropy(inside, C)
    new = logistic_step(a, m, Q, C) if abs(PG) > EXACT or inside != a else a
    return PG, -1.0, max(term, 0.0), new, 0.0


# logistic_taken(was, new, C): the change of alpha_i - d(alpha_i).


@njit(cache=True, nogil=True)
def logistic_taken(was: float, new: float, C: float) -> float:
    return (new + negative_entropy(new, C)) - (was + negative_entropy(was, C))
