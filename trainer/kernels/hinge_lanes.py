"""Dual coordinate descent for hinge and squared hinge loss in several tasks at once."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import (
    GAP,
    ROWS_AHEAD,
    kind_of,
    prefetch_row,
    projected_gradient,
    score_of,
    weighed,
    weight_of,
)
from streamsvm.trainer.kernels.hinge import Dual, Weights
from streamsvm.trainer.kernels.threads import acquire, release
from streamsvm.trainer.problem.lane_kernel import add_lanes, dot_lanes
from streamsvm.trainer.problem.tasks import KindTable
from streamsvm.trainer.updates.statistics import VisitSums

# Problem     as in kernels/hinge.py, in each task
#
# A visit to a row makes its step in all tasks: it computes their dot products together, and adds the row to w once if
# any alpha_i has changed. A task with U_i = 0 does not change.
#
# In place    dual.alpha; weights; sums, (width,) each; score (k,) float32: the lowest over the tasks, inf if all of
#             them leave the row out


@njit(cache=True, nogil=True)
def visit_lanes(
    order: Array, rows: Columns, table: KindTable, dual: Dual, weights: Weights, score: Array, sums: VisitSums
) -> None:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    alpha, before = dual
    w, lock = weights
    width, count = table.sign.shape[1], order.shape[0]
    signs, Us, Ds = table.sign.reshape(-1), table.U.reshape(-1), table.D.reshape(-1)
    z, step, has_rested = np.empty(width), np.zeros(width), np.zeros(width)
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
        kind = np.uint64(kind_of(position, rows, table.n_folds)) * np.uint64(width)
        first, weight = np.uint64(row_id[position]) * np.uint64(width), weight_of(position, rows)
        least, has_moved, Q = float("inf"), False, Qii[position]
        for lane in range(width):
            step[lane] = 0.0
            here, i = kind + np.uint64(lane), first + np.uint64(lane)
            sign = signs[here]
            U, D = weighed(Us[here], Ds[here], weight)
            if U == 0.0:
                continue
            was, a = before[i], alpha[i]
            m = sign * z[lane]
            if was == a and ((a == 0.0 and m >= 1.0) or (a == U and D == 0.0 and m <= 1.0)):
                # The row rests in this task, as most rows do in most tasks.
                least = min(least, abs(m - 1.0))
                has_rested[lane] = 1.0
                continue
            inside = min(max(a, 0.0), U)
            G = m - 1.0 + D * a
            PG = projected_gradient(inside, G, U)
            sums.M_plus[lane], sums.M_minus[lane] = max(sums.M_plus[lane], PG), min(sums.M_minus[lane], PG)
            rests = score_of(GAP, inside, m, G, PG, U, D)
            least = min(least, rests)
            sums.gap[lane] -= min(rests, 0.0)
            new = a
            if abs(PG) > 1e-12 or inside != a:
                H = Q + D
                new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
                alpha[i] = new
                step[lane] = (new - a) * sign
                has_moved = True
                sums.squares[lane] += 2.0 * max((a - new) * (G + (new - a) * H / 2.0), 0.0) * Q
            sums.curvature[lane] += D * (new * new - was * was) / 2.0
            sums.freed[lane] += np.int64(0.0 < new < U) - np.int64(0.0 < was < U)
        score[k] = least
        if has_moved:
            if lock.shape[0] > 0:
                acquire(lock)
            add_lanes(indices, values, start, end, step, w, width)
            if lock.shape[0] > 0:
                release(lock)
    for lane in range(width):
        if has_rested[lane] > 0.0:
            sums.M_plus[lane], sums.M_minus[lane] = max(sums.M_plus[lane], 0.0), min(sums.M_minus[lane], 0.0)
