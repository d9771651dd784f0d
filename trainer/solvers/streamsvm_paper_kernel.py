"""The trainer loop of the StreamSVM paper, over rows drawn at random from one segment."""

from typing import NamedTuple

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array, dot
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import add_row, kind_of, projected_gradient
from streamsvm.trainer.problem.tasks import Table


class Ways(NamedTuple):
    """How the rule is read: rows the cache has room for, beta, picks after which eps is set anew, two switches."""

    capacity: float
    beta: float
    n: float
    per_sweep: bool
    projected: bool


# Problem     as in kernels/hinge.py
# Source      Matsushima, Vishwanathan, Smola (KDD 2012), Algorithm 2
#
# For each pick i (with replacement), unless i has been given up since it was read in:
#
#   eps <- beta eps while more than 0.9 of the cache is occupied; after n picks eps <- eps_new
#   G, eps_new <- max(eps_new, |G|)
#   give i up if alpha_i = 0 and G > eps, or alpha_i = U_i and G < -eps; else one coordinate step
#
# That is as printed. Most likely the authors meant (`per_sweep`, `projected`): beta applies once in as many picks as
# there are rows in the cache, and eps_new is the largest |PG|. The caller lowers eps_new, and eps itself if n is inf.
#
# Inputs      order (k,) int32: picked positions; rows: a segment's columns; table of one task; ways
# In place    alpha, w; gone (n_rows,) bool by row_id: rows given up; rule (5,) = eps, eps_new, picks since eps was
#             set, rows in the cache, picks since beta applied
# Returns     largest and smallest PG of the steps made (M+, M-), the changes of sum D_i alpha_i^2 / 2
#             and of the number of free rows


@njit(cache=True)
def paper_visits(
    order: Array, rows: Columns, table: Table, ways: Ways, alpha: Array, w: Array, gone: Array, rule: Array
) -> tuple[float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    capacity, beta, n, per_sweep, projected = ways
    M_plus, M_minus, curvature, freed = -float("inf"), float("inf"), 0.0, 0
    for k in range(order.shape[0]):
        position = order[k]
        i = row_id[position]
        if gone[i]:
            continue
        rule[4] += 1.0
        if rule[3] > 0.9 * capacity and (not per_sweep or rule[4] >= rule[3]):
            rule[0] *= beta
            rule[4] = 0.0
        rule[2] += 1.0
        if rule[2] >= n:
            rule[0] = rule[1]
            rule[2] = 0.0

        start, end = indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        sign, U, D = table.sign[line, 0], table.U[line, 0], table.D[line, 0]
        a = alpha[i]
        G = sign * dot(indices, values, start, end, w) - 1.0 + D * a
        PG = projected_gradient(a, G, U)
        rule[1] = max(rule[1], abs(PG) if projected else abs(G))
        if (a == 0.0 and rule[0] < G) or (a == U and -rule[0] > G):
            gone[i] = True
            rule[3] -= 1.0
            continue

        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        if abs(PG) > 1e-12:
            H = Qii[position] + D
            # A row without features has no part in w: the bound is its optimum.
            new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
            add_row(start, end, indices, values, (new - a) * sign, w)
            alpha[i] = new
            curvature += D * (new * new - a * a) / 2.0
            freed += int(0.0 < new < U) - int(0.0 < a < U)
    return M_plus, M_minus, curvature, freed
