"""Dual coordinate descent for logistic loss and for regression, on rows in memory, in one task or several at once."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import ROWS_AHEAD, kind_of, prefetch_row, weighed, weight_of
from streamsvm.trainer.kernels.hinge import Dual, Weights
from streamsvm.trainer.kernels.logistic import logistic_taken, logistic_visit
from streamsvm.trainer.kernels.regression import regression_taken, regression_visit
from streamsvm.trainer.kernels.threads import acquire, release
from streamsvm.trainer.problem.lane_kernel import add_lanes, dot_lanes
from streamsvm.trainer.problem.tasks import KindTable
from streamsvm.trainer.updates.statistics import VisitSums

# Problem     as in kernels/logistic.py, or with a tube, of half the width epsilon, as in kernels/regression.py
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
