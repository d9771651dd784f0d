"""Dual coordinate descent on the rows of one segment."""

from numba import njit

from storage.csr import Array
from storage.prefetch_kernel import prefetch
from trainer.kernels.coordinate import (
    GAP,
    ROWS_AHEAD,
    descend,
    dot_ahead,
    prefetch_row,
    projected_gradient,
    rate,
)

# Problem     min over 0 <= alpha_i <= U_i of  1/2 |w|^2 + sum D_i alpha_i^2 / 2 - sum alpha_i,  w = sum alpha_i y_i x_i
# Source      Hsieh, Chang, Lin, Keerthi, Sundararajan (ICML 2008), Algorithm 1; StreamSVM (KDD 2012), section 3
#
# Visits the rows `order` (k,) of a segment, one after the other:
#
#   G  = y_i <w, x_i> - 1 + D_i alpha_i              gradient
#   PG = 0 if alpha_i = 0 and G >= 0, or alpha_i = U_i and G <= 0; else G         projected gradient
#   alpha_i <- min(max(alpha_i - G / (Qii + D_i), 0), U_i),  w += (change of alpha_i) y_i x_i      unless |PG| <= 1e-12
#
# where alpha_i, if momentum has moved it out of its bounds, is for PG and the score the nearest inside,
#
# and notes in score[position] how little the row had left to teach when it was met: minus its term of the duality gap
# if it is free or violates its bound, |G| (>= 0) if it rests at a bound. Highest leaves the cache first.
#
# Inputs      order (k,) int32; row_id, y, Qii (n,), indptr (n + 1,), indices, values: a segment's columns
#             U_positive, D_positive, U_negative, D_negative: the loss, for rows with y = +1 and y = -1
#             feasible (n_rows,) by row_id: alpha before momentum moved it; alpha itself where there is none
# In place    alpha (n_rows,) by row_id; w (d,); score (n,) float32 by position; gain (k,) float64 by place in `order`:
#             by how much the dual objective rose, 0 without a step; less than 0 if the row had to come back inside
# Returns     largest and smallest PG met (M+, M-; -inf, inf for k = 0; zeros count, as in LIBLINEAR), and the
#             changes of sum D_i alpha_i^2 / 2 and of the number of free rows, from what is `feasible`


@njit(cache=True, nogil=True)
def visit_rows(
    order: Array,
    row_id: Array,
    y: Array,
    Qii: Array,
    indptr: Array,
    indices: Array,
    values: Array,
    U_positive: float,
    D_positive: float,
    U_negative: float,
    D_negative: float,
    alpha: Array,
    feasible: Array,
    w: Array,
    score: Array,
    gain: Array,
) -> tuple[float, float, float, int]:
    M_plus, M_minus, curvature, freed = -float("inf"), float("inf"), 0.0, 0
    count = order.shape[0]
    for k in range(count):
        if k + ROWS_AHEAD < count:
            coming = order[k + ROWS_AHEAD]
            prefetch_row(coming, row_id, y, Qii, indptr, indices, values, alpha)
            prefetch(feasible, row_id[coming])
        position = order[k]
        i = row_id[position]
        start, end = indptr[position], indptr[position + 1]
        sign = float(y[position])
        U, D = (U_positive, D_positive) if sign > 0.0 else (U_negative, D_negative)
        was, a = feasible[i], alpha[i]
        inside = min(max(a, 0.0), U)

        m = sign * dot_ahead(order, k, count, start, end, indptr, indices, values, w)
        G = m - 1.0 + D * a

        PG = projected_gradient(inside, G, U)
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        score[position] = rate(GAP, inside, m, G, PG, U, D)

        new, gain[k] = a, 0.0
        if abs(PG) > 1e-12 or inside != a:
            H = Qii[position] + D
            new = descend(start, end, indices, values, sign, a, G, H, U, w)
            alpha[i] = new
            gain[k] = (a - new) * (G + (new - a) * H / 2.0)
        curvature += D * (new * new - was * was) / 2.0
        freed += int(0.0 < new < U) - int(0.0 < was < U)
    return M_plus, M_minus, curvature, freed
