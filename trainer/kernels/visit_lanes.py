"""Dual coordinate descent on rows in memory in several lanes at once: hinge and squared hinge."""

from typing import NamedTuple

import numpy as np
from numba import njit

from storage.csr import Array
from storage.lane_kernel import add_lanes, dot_lanes
from storage.prefetch_kernel import prefetch
from storage.segment import Columns
from trainer.kernels.coordinate import GAP, ROWS_AHEAD, prefetch_row, projected_gradient, score_of
from trainer.kernels.shared import acquire, release
from trainer.kernels.visit import Dual, Weights
from trainer.sums import Sums


class Terms(NamedTuple):
    """What a row of each kind is in each lane, (n_kinds, width) float64: its sign, 0 if no lane's; U and D.

    weight (n_rows,) float32 by row id: of rows that have some; (0,): none has
    """

    sign: Array
    U: Array
    D: Array
    weight: Array


# Problem     as in kernels/visit.py, in each lane; y holds a row's kind, see storage.lanes
#
# A row is visited in all lanes at once: its dot products are summed up together, and w is added to if any alpha of it
# has changed. A lane in which the row has no part is left as it is.
#
# In place    dual.alpha; weights; sums, (width,) each; score (k,) float32: the lowest of all lanes', inf if the row has
#             a part in none


@njit(cache=True, nogil=True)
def visit_lanes(
    order: Array, rows: Columns, terms: Terms, dual: Dual, weights: Weights, score: Array, sums: Sums
) -> None:
    row_id, y, Qii, indptr, indices, values = rows
    alpha, before = dual
    w, lock = weights
    width, count = terms.sign.shape[1], order.shape[0]
    z, step = np.empty(width), np.zeros(width)
    for k in range(count):
        if k + ROWS_AHEAD < count:
            coming = order[k + ROWS_AHEAD]
            prefetch_row(coming, row_id, y, Qii, indptr, indices, values, alpha, width)
            prefetch(before, row_id[coming] * width)
        position = order[k]
        start, end = indptr[position], indptr[position + 1]
        after = order[min(k + 1, count - 1)]
        dot_lanes(indices, values, start, end, w, width, indptr[after], indptr[after + 1], z)
        kind, first = np.int64(y[position]), np.int64(row_id[position]) * width
        weight = np.float64(terms.weight[row_id[position]]) if terms.weight.shape[0] > 0 else 1.0
        least, has_moved = float("inf"), False
        for lane in range(width):
            step[lane] = 0.0
            sign = terms.sign[kind, lane]
            if sign == 0.0:
                continue
            U, D = terms.U[kind, lane], terms.D[kind, lane]
            if weight != 1.0:
                U, D = (U * weight, D / weight) if weight > 0.0 else (0.0, 0.0)
            i = first + lane
            was, a = before[i], alpha[i]
            inside = min(max(a, 0.0), U)
            m = sign * z[lane]
            G = m - 1.0 + D * a
            PG = projected_gradient(inside, G, U)
            sums.M_plus[lane], sums.M_minus[lane] = max(sums.M_plus[lane], PG), min(sums.M_minus[lane], PG)
            rests = score_of(GAP, inside, m, G, PG, U, D)
            least = min(least, rests)
            sums.gap[lane] -= min(rests, 0.0)
            new = a
            if abs(PG) > 1e-12 or inside != a:
                H = Qii[position] + D
                new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
                alpha[i] = new
                step[lane] = (new - a) * sign
                has_moved = True
                risen = (a - new) * (G + (new - a) * H / 2.0)
                sums.squares[lane] += 2.0 * max(risen, 0.0) * Qii[position]
            sums.curvature[lane] += D * (new * new - was * was) / 2.0
            sums.freed[lane] += np.int64(0.0 < new < U) - np.int64(0.0 < was < U)
        score[k] = least
        if has_moved:
            if lock.shape[0] > 0:
                acquire(lock)
            add_lanes(indices, values, start, end, step, w, width)
            if lock.shape[0] > 0:
                release(lock)
