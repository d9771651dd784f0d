"""The trainer loop of the StreamSVM paper: visits picked rows, and lets new rows in between picks."""

from typing import NamedTuple

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array, add_row, dot
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import kind_of, projected_gradient
from streamsvm.trainer.problem.tasks import KindTable


class Ways(NamedTuple):
    """How the rule for eps is read: number of rows that fit into the cache, beta, picks between resets, switches."""

    capacity: float
    beta: float
    n: float
    per_sweep: bool
    projected: bool


class Arrivals(NamedTuple):
    """Rows that come in between picks.

    row_id   (m,) ids of the rows; at: (m,) number of picks after which each row comes in, ascending
    victims  (v,) ids of random rows: while the cache is full, one of them leaves for each row that comes in
    done     (3,) int64: number of picks, arrivals and victims so far
    """

    row_id: Array
    at: Array
    victims: Array
    done: Array


# Problem     as in kernels/hinge.py
# Source      Matsushima, Vishwanathan, Smola (KDD 2012), Algorithm 2
#
# For each pick i (with replacement); a row that has left or is not in yet is no pick, and does not count:
#
#   arrivals that are due come in, see `let_in`
#   eps <- eps_new after n picks; eps <- beta eps while more than 0.9 of the cache is occupied
#   G; give i up if alpha_i = 0 and G > eps, or alpha_i = U_i and G < -eps
#   otherwise eps_new <- max(eps_new, |G|) and one coordinate step
#
# That is as printed. Most likely the authors meant (`per_sweep`, `projected`): beta applies once in as many picks as
# there are rows in the cache, and eps_new is the largest |PG|. If n is inf, the caller sets eps, and eps_new to 0.
#
# Inputs      order (k,) int32: picked positions; rows: a segment's columns; table of one task; ways
# In place    alpha, w; gone (n_rows,) bool by row_id: rows that are not in the cache; rule (5,) = eps, eps_new, picks
#             since eps was set, rows in the cache, picks since beta applied; arrivals.done
# Returns     picks, largest and smallest PG of the steps made (M+, M-), the changes of sum D_i alpha_i^2 / 2
#             and of the number of free rows


@njit(cache=True)
def paper_visits(
    order: Array,
    rows: Columns,
    table: KindTable,
    ways: Ways,
    arrivals: Arrivals,
    alpha: Array,
    w: Array,
    gone: Array,
    rule: Array,
) -> tuple[int, float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    capacity, beta, n, per_sweep, projected = ways
    picks, M_plus, M_minus, curvature, freed = 0, -float("inf"), float("inf"), 0.0, 0
    for k in range(order.shape[0]):
        position = order[k]
        i = row_id[position]
        let_in(arrivals, capacity, gone, rule)
        if gone[i]:
            continue
        picks += 1
        if rule[2] >= n:
            rule[0] = rule[1]
            rule[2] = 0.0
        rule[2] += 1.0
        rule[4] += 1.0
        if rule[3] > 0.9 * capacity and (not per_sweep or rule[4] >= rule[3]):
            rule[0] *= beta
            rule[4] = 0.0

        start, end = indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        sign, U, D = table.sign[line, 0], table.U[line, 0], table.D[line, 0]
        a = alpha[i]
        G = sign * dot(indices, values, start, end, w) - 1.0 + D * a
        PG = projected_gradient(a, G, U)
        if (a == 0.0 and rule[0] < G) or (a == U and -rule[0] > G):
            gone[i] = True
            rule[3] -= 1.0
            continue

        rule[1] = max(rule[1], abs(PG) if projected else abs(G))
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        if abs(PG) > 1e-12:
            H = Qii[position] + D
            # A row without features has no part in w: the bound is its optimum.
            new = min(max(a - G / H, 0.0), U) if H > 0.0 else U
            add_row(start, end, indices, values, (new - a) * sign, w)
            alpha[i] = new
            curvature += D * (new * new - a * a) / 2.0
            freed += int(0.0 < new < U) - int(0.0 < a < U)
    return picks, M_plus, M_minus, curvature, freed


# let_in(...): the arrivals that are due come in; the pick that follows counts as done. Changes done, gone and rule.


@njit(cache=True)
def let_in(arrivals: Arrivals, capacity: float, gone: Array, rule: Array) -> None:
    coming, at, victims, done = arrivals
    while done[1] < coming.shape[0] and at[done[1]] <= done[0]:
        while rule[3] >= capacity and done[2] < victims.shape[0]:
            victim = victims[done[2]]
            done[2] += 1
            if not gone[victim]:
                gone[victim] = True
                rule[3] -= 1.0
        gone[coming[done[1]]] = False
        rule[3] += 1.0
        done[1] += 1
    done[0] += 1
