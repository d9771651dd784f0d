"""Dual coordinate descent for logistic regression."""

import math

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import ROWS_AHEAD, add_row, dot_ahead, kind_of, prefetch_row, weight_of
from streamsvm.trainer.problem.losses.logistic import LEAST_SHARE, MOST_SHARE
from streamsvm.trainer.problem.tasks import Table

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


@njit(cache=True)
def logistic_gradient(a: float, m: float, C: float) -> float:
    """G, or 0 where it points out of the box."""
    share = min(max(a / C, LEAST_SHARE), MOST_SHARE)
    G = m + math.log(share / (1.0 - share))
    if (share == LEAST_SHARE and G >= 0.0) or (share == MOST_SHARE and G <= 0.0):
        return 0.0
    return G


@njit(cache=True)
def logistic_step(a: float, m: float, Q: float, C: float) -> float:
    """The best alpha_i, all others as they are."""
    is_lower = Q * (C - a - a) / 2.0 + m >= 0.0
    old = a if is_lower else C - a
    slope = m if is_lower else -m
    least = (LEAST_SHARE if is_lower else 1.0 - MOST_SHARE) * C
    z = max(old, least)
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


@njit(cache=True)
def negative_entropy(a: float, C: float) -> float:
    """Minus a row's term d of the dual objective: a log a + (C - a) log(C - a) - C log C."""
    share = a / C
    total = 0.0
    if share > 0.0:
        total += share * math.log(share)
    if share < 1.0:
        total += (1.0 - share) * math.log(1.0 - share)
    return C * total


# Visits the rows at the positions `order` (k,) int32.
#
# Inputs      rows: a segment's columns; table of one task, with U = C
# In place    alpha (n_rows,) by row_id; w (d,)
# Returns     M+ = max(0, largest G met) and M- = min(0, smallest G met), so that their difference bounds |G|; and
#             the changes of sum [alpha_i - d_i(alpha_i)], d_i the row's part of the dual objective, and of the number
#             of rows with 0 < alpha_i < C_i


@njit(cache=True)
def visit_logistic(
    order: Array, rows: Columns, table: Table, alpha: Array, w: Array
) -> tuple[float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    M_plus, M_minus, taken, freed = 0.0, 0.0, 0.0, 0
    count = order.shape[0]
    for k in range(count):
        if k + ROWS_AHEAD < count:
            prefetch_row(order[k + ROWS_AHEAD], rows, alpha, 1)
        position = order[k]
        i = row_id[position]
        start, end = indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        sign, C = table.sign[line, 0], table.U[line, 0] * weight_of(position, rows)
        if C == 0.0:
            continue
        a = alpha[i]

        m = sign * dot_ahead(order, k, count, start, end, indptr, indices, values, w)
        G = logistic_gradient(a, m, C)
        M_plus, M_minus = max(M_plus, G), min(M_minus, G)
        if abs(G) > EXACT:
            new = logistic_step(a, m, Qii[position], C)
            alpha[i] = new
            taken += (new + negative_entropy(new, C)) - (a + negative_entropy(a, C))
            freed += int(0.0 < new < C) - int(0.0 < a < C)
            add_row(start, end, indices, values, (new - a) * sign, w)
    return M_plus, M_minus, taken, freed
