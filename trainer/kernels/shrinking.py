"""Dual coordinate descent with shrinking, on the active rows of one segment."""

from numba import njit

from storage.csr import Array
from trainer.kernels.coordinate import (
    DISTANCE,
    ROWS_AHEAD,
    descend,
    dot_ahead,
    prefetch_row,
    projected_gradient,
    rate,
)
from trainer.kernels.order import shuffle

BEHIND = 1e6

# Problem     as in kernels/dual.py
# Source      Hsieh et al. (ICML 2008), Algorithm 3, as in LIBLINEAR
#
# Visits the first `active` positions of `order`, in random order. A row is shrunk, not stepped on, if
#
#   alpha_i = 0 and G > above, or alpha_i = U_i and G < below
#
# where above and below are the largest and smallest PG of the round before (inf and -inf: no row is). It goes behind
# the active ones in `order`, its G is not counted, and a score of its distance is made larger than that of any row
# that is not shrunk. All others get the step of kernels/dual.py.
#
# Inputs      active >= 0; seed > 0; a segment's columns; U and D of both signs; `kind` of score (coordinate.rate)
# In place    order (n,) int32, a permutation of all positions; alpha (n_rows,) by row_id; w (d,); score (n,) float32
#             by position, of the rows visited
# Returns     rows still active; largest and smallest PG of these (-inf, inf if there are none), and the changes of
#             sum D_i alpha_i^2 / 2 and of the number of free rows


@njit(cache=True)
def visit_active(
    order: Array,
    active: int,
    seed: int,
    above: float,
    below: float,
    kind: int,
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
) -> tuple[int, float, float, float, int]:
    M_plus, M_minus, curvature, freed = -float("inf"), float("inf"), 0.0, 0
    shuffle(seed, order, active)
    k = 0
    while k < active:
        if k + ROWS_AHEAD < active:
            prefetch_row(order[k + ROWS_AHEAD], row_id, y, Qii, indptr, indices, values, alpha)
        position = order[k]
        i = row_id[position]
        start, end = indptr[position], indptr[position + 1]
        sign = float(y[position])
        U, D = (U_positive, D_positive) if sign > 0.0 else (U_negative, D_negative)
        a = alpha[i]

        m = sign * dot_ahead(order, k, active, start, end, indptr, indices, values, w)
        G = m - 1.0 + D * a
        PG = projected_gradient(a, G, U)
        score[position] = rate(kind, a, m, G, PG, U, D)

        if (a == 0.0 and above < G) or (a == U and below > G):
            if kind == DISTANCE:
                score[position] = BEHIND * (1.0 + abs(m))
            active -= 1
            order[k] = order[active]
            order[active] = position
            continue
        k += 1
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        if abs(PG) > 1e-12:
            new = descend(start, end, indices, values, sign, a, G, Qii[position] + D, U, w)
            alpha[i] = new
            curvature += D * (new * new - a * a) / 2.0
            freed += int(0.0 < new < U) - int(0.0 < a < U)
    return active, M_plus, M_minus, curvature, freed
