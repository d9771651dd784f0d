"""Dual coordinate descent for hinge and squared hinge loss in one task; `hinge_lanes` visits rows in several tasks."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array, add_row
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import (
    ROWS_AHEAD,
    dot_ahead,
    kind_of,
    prefetch_row,
    projected_gradient,
    score_of,
    weighed,
    weight_of,
)
from streamsvm.trainer.kernels.threads import acquire, release
from streamsvm.trainer.problem.tasks import KindTable


class Dual(NamedTuple):
    """Dual variables alpha (n_rows * lanes,) by row id; before: alpha before momentum moved it, or alpha itself."""

    alpha: Array
    before: Array


class Weights(NamedTuple):
    """Weights w (d * lanes,) float64: for each of d features, the weights in all lanes side by side.

    lock  (1,) int64, held while a row is added to w, if other threads visit rows at the same w; else (0,)
    """

    w: Array
    lock: Array


class VisitNotes(NamedTuple):
    """What a kernel records of each visit, (k,) in the order of the visits.

    score  float32, the higher the less training can gain by the row, see coordinate.score_of
    gain   float64, by how much the dual objective rose
    rest   float32, |G| of a row at a bound that G keeps there, -1 of any other row; empty if the caller needs none
    """

    score: Array
    gain: Array
    rest: Array


# Problem     min over 0 <= alpha_i <= U_i of  1/2 |w|^2 + sum D_i alpha_i^2 / 2 - sum alpha_i,  w = sum alpha_i y_i x_i
# Source      Hsieh, Chang, Lin, Keerthi, Sundararajan (ICML 2008), Algorithm 1; StreamSVM (KDD 2012), section 3;
#             on several threads: Hsieh, Yu, Dhillon, "PASSCoDe" (ICML 2015), with a lock for each row's addition to w:
#             dot products meet a w that changes meanwhile, but it stays the sum of alpha_i y_i x_i
#
# Visits the rows at the positions `order` (k,) int32, one after the other:
#
# A row whose U_i is 0 is left out: it gets the score inf, and its alpha_i stays as it is.
#
#   G  = y_i <w, x_i> - 1 + D_i alpha_i              gradient
#   PG = 0 if alpha_i = 0 and G >= 0, or alpha_i = U_i and G <= 0; else G         projected gradient
#   alpha_i <- min(max(alpha_i - G / (Qii + D_i), 0), U_i),  w += (change of alpha_i) y_i x_i      unless |PG| <= 1e-12
#
# An alpha_i that momentum has moved out of its box counts, for PG and the score, as the nearest in it.
#
# Inputs      rows: a segment's columns; table of one task; kind of score, see coordinate.score_of
# In place    dual.alpha; weights; notes: score and rest as the row was met; gain 0 without a step, less than 0 if the
#             row had to come back into its box
# Returns     largest and smallest PG met (M+, M-; -inf, inf for k = 0; zeros count, as in LIBLINEAR), and the
#             changes of sum D_i alpha_i^2 / 2 and of the number of free rows, from what was `before`


@njit(cache=True, nogil=True)
def visit_rows(
    order: Array, rows: Columns, table: KindTable, kind: int, dual: Dual, weights: Weights, notes: VisitNotes
) -> tuple[float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    alpha, before = dual
    w, lock = weights
    count = order.shape[0]
    M_plus, M_minus, curvature, freed = -float("inf"), float("inf"), 0.0, 0
    for k in range(count):
        if k + ROWS_AHEAD < count:
            coming = order[k + ROWS_AHEAD]
            prefetch_row(coming, rows, alpha, 1)
            prefetch(before, row_id[coming])
        position = order[k]
        i, start, end = row_id[position], indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        sign = table.sign[line, 0]
        U, D = weighed(table.U[line, 0], table.D[line, 0], weight_of(position, rows))
        if U == 0.0:
            notes.score[k], notes.gain[k] = np.inf, 0.0
            if notes.rest.shape[0] > 0:
                notes.rest[k] = np.inf
            continue
        was, a = before[i], alpha[i]
        inside = min(max(a, 0.0), U)

        m = sign * dot_ahead(order, k, count, start, end, indptr, indices, values, w)
        G = m - 1.0 + D * a

        PG = projected_gradient(inside, G, U)
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        notes.score[k] = score_of(kind, inside, m, G, PG, U, D)
        if notes.rest.shape[0] > 0:
            notes.rest[k] = abs(G) if PG == 0.0 and (inside == 0.0 or inside == U) else -1.0

        new, risen = a, 0.0
        if abs(PG) > 1e-12 or inside != a:
            H = Qii[position] + D
            # A row without features has no part in w: the bound is its optimum.
            new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
            alpha[i] = new
            if lock.shape[0] > 0:
                acquire(lock)
            add_row(start, end, indices, values, (new - a) * sign, w)
            if lock.shape[0] > 0:
                release(lock)
            risen = (a - new) * (G + (new - a) * H / 2.0)
        notes.gain[k] = risen
        curvature += D * (new * new - was * was) / 2.0
        freed += int(0.0 < new < U) - int(0.0 < was < U)
    return M_plus, M_minus, curvature, freed


# move_on(x (n,), earlier (n,), beta): x <- x + beta (x - earlier), earlier <- what x was, in place: momentum.


@njit(cache=True, nogil=True)
def move_on(x: Array, earlier: Array, beta: float) -> None:
    for i in range(x.shape[0]):
        was = x[i]
        x[i] = was + beta * (was - earlier[i])
        earlier[i] = was
