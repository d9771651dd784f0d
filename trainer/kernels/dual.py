"""Dual coordinate descent on the rows of one segment."""

import numpy as np
from numba import njit

from storage.csr import LARGE_W, Array, dot
from storage.prefetch_kernel import prefetch

# Problem     min over 0 <= alpha_i <= U_i of  1/2 |w|^2 + sum D_i alpha_i^2 / 2 - sum alpha_i,  w = sum alpha_i y_i x_i
# Source      Hsieh, Chang, Lin, Keerthi, Sundararajan (ICML 2008), Algorithm 1; StreamSVM (KDD 2012), section 3
#
# Visits the rows `order` (k,) of a segment, one after the other:
#
#   G  = y_i <w, x_i> - 1 + D_i alpha_i              gradient
#   PG = 0 if alpha_i = 0 and G >= 0, or alpha_i = U_i and G <= 0; else G         projected gradient
#   alpha_i <- min(max(alpha_i - G / (Qii + D_i), 0), U_i),  w += (change of alpha_i) y_i x_i      unless |PG| <= 1e-12
#
# and notes in score[position] how little the row had left to teach when it was met: minus its term of the duality gap
# if it is free or violates its bound, |G| (>= 0) if it rests at a bound. Highest leaves the cache first.
#
# Inputs      order (k,) int32; row_id, y, Qii (n,), indptr (n + 1,), indices, values: a segment's columns
#             U_positive, D_positive, U_negative, D_negative: the loss, for rows with y = +1 and y = -1
# In place    alpha (n_rows,) by row_id; w (d,); score (n,) float32 by position; gain (k,) float64 by place in `order`:
#             by how much the dual objective rose, 0 without a step
# Returns     largest and smallest PG met (M+, M-; -inf, inf for k = 0; zeros count, as in LIBLINEAR), and the
#             changes of sum D_i alpha_i^2 / 2 and of the number of free rows

ROWS_AHEAD = 3


@njit(cache=True)
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
    w: Array,
    score: Array,
    gain: Array,
) -> tuple[float, float, float, int]:
    M_plus, M_minus, curvature, freed = -float("inf"), float("inf"), 0.0, 0
    count = order.shape[0]
    prefetches = w.shape[0] > LARGE_W
    for k in range(count):
        if k + ROWS_AHEAD < count:
            coming = order[k + ROWS_AHEAD]
            # The first three lines of a row; of a longer one the processor fetches the rest by itself.
            for line in range(3):
                prefetch(indices, indptr[coming] + 16 * line)
                prefetch(values, indptr[coming] + 16 * line)
            prefetch(Qii, coming)
            prefetch(y, coming)
            prefetch(alpha, row_id[coming])
        if prefetches and k + 1 < count:
            for j in range(indptr[order[k + 1]], indptr[order[k + 1] + 1]):
                prefetch(w, indices[j])
        position = order[k]
        i = row_id[position]
        start, end = indptr[position], indptr[position + 1]
        sign = float(y[position])
        U, D = (U_positive, D_positive) if sign > 0.0 else (U_negative, D_negative)
        a = alpha[i]

        m = sign * dot(indices, values, start, end, w)
        G = m - 1.0 + D * a

        PG = G
        if (a == 0.0 and G >= 0.0) or (a == U and G <= 0.0):
            PG = 0.0
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)

        if PG == 0.0 and (a == 0.0 or a == U):
            score[position] = abs(G)
        elif D == 0.0:
            score[position] = -(U - a) * (1.0 - m) if m < 1.0 else -a * (m - 1.0)
        else:
            slack = max(0.0, 1.0 - m)
            score[position] = a * (1.0 - m) - slack * slack / (2.0 * D) - D * a * a / 2.0

        gain[k] = 0.0
        if abs(PG) > 1e-12:
            H = Qii[position] + D
            # A row without features has no part in w: the bound is its optimum.
            new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
            alpha[i] = new
            gain[k] = (a - new) * (G + (new - a) * H / 2.0)
            curvature += D * (new * new - a * a) / 2.0
            freed += int(0.0 < new < U) - int(0.0 < a < U)
            step = (new - a) * sign
            for j in range(start, end):
                w[np.uint32(indices[j])] += step * float(values[j])
    return M_plus, M_minus, curvature, freed
