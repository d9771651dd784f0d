"""Dual coordinate descent for logistic loss and for regression, on rows in memory, in one task or several at once."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import ROWS_AHEAD, kind_of, prefetch_row, weighed, weight_of
from streamsvm.trainer.kernels.hinge import Dual, Weights
from streamsvm.trainer.kernels.threads import acquire, release
from streamsvm.trainer.problem.lane_kernel import add_lanes, dot_lanes
from streamsvm.trainer.problem.losses.logistic import LEAST_SHARE, MOST_SHARE
from streamsvm.trainer.problem.tasks import KindTable
from streamsvm.trainer.updates.statistics import VisitSums

# Regression  min over |beta_i| <= U of  1/2 |w|^2 + sum [D beta_i^2 / 2 - y_i beta_i + epsilon |beta_i|],
#             w = sum beta_i x_i
# Source      Ho and Lin, "Large-scale linear support vector regression" (JMLR 2012), algorithm 4
#
# One variable, with r = <w, x_i> - y_i and G = r + D beta_i: the objective is a parabola on either side of beta_i = 0,
# where its slope jumps from G - epsilon to G + epsilon.


@njit(cache=True, nogil=True)
def regression_gradient(beta: float, G: float, U: float, epsilon: float) -> float:
    """Return the projected gradient PG: a slope of the objective down which beta_i can go from beta; 0 if none."""
    if beta > 0.0 or (beta == 0.0 and G + epsilon < 0.0):
        PG = G + epsilon
        return max(PG, 0.0) if beta == U else PG
    if beta < 0.0 or G - epsilon > 0.0:
        PG = G - epsilon
        return min(PG, 0.0) if beta == -U else PG
    return 0.0


@njit(cache=True, nogil=True)
def regression_step(beta: float, G: float, H: float, U: float, epsilon: float) -> float:
    """Return the best beta_i while no other changes; H = Qii + D. Momentum may have moved `beta` out of its box."""
    if H == 0.0:  # a row without features has no part in w
        return U if G + epsilon < 0.0 else -U if G - epsilon > 0.0 else 0.0
    if G + epsilon < H * beta:
        new = beta - (G + epsilon) / H
    elif G - epsilon > H * beta:
        new = beta - (G - epsilon) / H
    else:
        new = 0.0
    return min(max(new, -U), U)


# regression_visit(beta, r, Q, U, D, epsilon): what a visit to beta_i = beta finds and does, r = <w, x_i> - y_i, and
# returns
#
#   PG     the projected gradient, see regression_gradient
#   rest   how far the row rests: at beta_i = 0 inside its tube, min(G + epsilon, epsilon - G);  at U, -(G + epsilon);
#          or at -U, G - epsilon.  -1 if it does not
#   term   the row's term of P - D:  C loss(r) + beta <w, x_i> - d(beta), at least 0
#   new    beta_i after the visit
#   gain   by how much the dual objective rose; less than 0 if the row had to come back into its box


@njit(cache=True, nogil=True)
def regression_visit(
    beta: float, r: float, Q: float, U: float, D: float, epsilon: float
) -> tuple[float, float, float, float, float]:
    inside, G = min(max(beta, -U), U), r + D * beta
    PG = regression_gradient(inside, G, U, epsilon)
    rest = -1.0
    if PG == 0.0:
        if inside == 0.0:
            rest = min(G + epsilon, epsilon - G)
        elif abs(inside) == U:
            rest = -(G + epsilon) if inside > 0.0 else G - epsilon
    excess = max(0.0, abs(r) - epsilon)
    loss = excess * excess / (2.0 * D) if D > 0.0 else U * excess
    term = max(0.0, loss + inside * r + epsilon * abs(inside) + D * inside * inside / 2.0)
    if abs(PG) <= 1e-12 and inside == beta:
        return PG, rest, term, beta, 0.0
    new, H = regression_step(beta, G, Q + D, U, epsilon), Q + D
    d = new - beta
    return PG, rest, term, new, -(d * (G + d * H / 2.0) + epsilon * (abs(new) - abs(beta)))


# regression_taken(was, new, target, D, epsilon): the change of beta_i - d(beta_i).


@njit(cache=True, nogil=True)
def regression_taken(was: float, new: float, target: float, D: float, epsilon: float) -> float:
    return (new - was) * (1.0 - target) + epsilon * (abs(new) - abs(was)) + D * (new * new - was * was) / 2.0


# Logistic    min over 0 <= alpha_i <= C_i of  1/2 |w|^2 + sum [alpha_i log alpha_i + (C_i - alpha_i) log(C_i - alpha_i)
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


# Problem     that of logistic loss, or of regression with a tube of half the width epsilon, see above
#
# Visits the rows at the positions `order` (k,) int32, one after the other, each in all tasks at once. Threads share w
# as in kernels/hinge.py. A task with U_i = 0 for the row is left as it is.
#
# An alpha_i that momentum has moved out of its box counts as the nearest in it.
#
# Inputs      rows: a segment's columns; table; tube: epsilon, or -1 for logistic loss
# In place    dual.alpha; weights; sums, (width,) each: `curvature` is the change of sum alpha_i - d(alpha_i), d a row's
#             part of the dual objective, as it is for hinge losses. With logistic loss M+ is at least and M- at most 0,
#             so that their difference bounds |G|
#             score (k,) float32: how far the row rests, or minus its term of P - D, the lowest of all tasks'; inf if
#             they all leave the row out
#             rest (k,) float32: how far it rests in the last task, -1 if it does not, inf if it is left out; or (0,)


@njit(cache=True, nogil=True)
def visit_logistic_or_regression(
    order: Array, rows: Columns, table: KindTable, tube: float, dual: Dual, weights: Weights, score: Array, rest: Array,
    sums: VisitSums,
) -> None:  # fmt: skip
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    alpha, before = dual
    w, lock = weights
    width, count, is_logistic = table.sign.shape[1], order.shape[0], tube < 0.0
    z, step = np.empty(width), np.zeros(width)
    for k in range(count):
        if k + ROWS_AHEAD < count:
            coming = order[k + ROWS_AHEAD]
            prefetch_row(coming, rows, alpha, width)
            prefetch(before, row_id[coming] * width)
        position = order[k]
        start, end = indptr[position], indptr[position + 1]
        after = order[min(k + 1, count - 1)]
        ahead = indptr[after + 1] if w.shape[0] > LARGE_W else indptr[after]
        dot_lanes(indices, values, start, end, w, width, indptr[after], ahead, z)
        kind, first = kind_of(position, rows, table.n_folds), row_id[position] * width
        weight, Q = weight_of(position, rows), Qii[position]
        target = 0.0 if is_logistic else np.float64(rows.target[position])
        least, has_moved, rests = float("inf"), False, float("inf")
        for lane in range(width):
            step[lane] = 0.0
            U, D = weighed(table.U[kind, lane], table.D[kind, lane], weight)
            if U == 0.0:
                continue
            i, sign = first + lane, table.sign[kind, lane]
            was, a = before[i], alpha[i]
            if is_logistic:
                PG, rests, term, new, gain = logistic_visit(a, sign * z[lane], Q, U)
                sums.M_plus[lane], sums.M_minus[lane] = max(sums.M_plus[lane], 0.0), min(sums.M_minus[lane], 0.0)
                taken = logistic_taken(was, new, U) if new != was else 0.0
            else:
                PG, rests, term, new, gain = regression_visit(a, z[lane] - target, Q, U, D, tube)
                taken = regression_taken(was, new, target, D, tube)
            sums.M_plus[lane], sums.M_minus[lane] = max(sums.M_plus[lane], PG), min(sums.M_minus[lane], PG)
            sums.gap[lane] += term
            least = min(least, rests if rests >= 0.0 else -term)
            if new != a:
                alpha[i] = new
                step[lane] = (new - a) * sign
                has_moved = True
                sums.squares[lane] += 2.0 * max(gain, 0.0) * Q
            sums.curvature[lane] += taken
            sums.freed[lane] += np.int64(0.0 < abs(new) < U) - np.int64(0.0 < abs(was) < U)
        score[k] = least
        if rest.shape[0] > 0:
            rest[k] = rests
        if has_moved:
            if lock.shape[0] > 0:
                acquire(lock)
            add_lanes(indices, values, start, end, step, w, width)
            if lock.shape[0] > 0:
                release(lock)
