"""Dual coordinate descent for support vector regression."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import (
    ROWS_AHEAD,
    add_row,
    dot_ahead,
    kind_of,
    prefetch_row,
    weighed,
    weight_of,
)
from streamsvm.trainer.problem.tasks import Table

# Problem     min over |beta_i| <= U of  1/2 |w|^2 + sum [D beta_i^2 / 2 - y_i beta_i + epsilon |beta_i|],
#             w = sum beta_i x_i
# Source      Ho and Lin, "Large-scale linear support vector regression" (JMLR 2012), algorithm 4
#
# A row whose U_i is 0 is left out: its beta_i stays 0.
#
# One variable, with r = <w, x_i> - y_i and G = r + D beta_i: the objective is a parabola on either side of beta_i = 0,
# where its slope jumps from G - epsilon to G + epsilon.


@njit(cache=True)
def regression_gradient(beta: float, G: float, U: float, epsilon: float) -> float:
    """PG: the slope where beta may go down it, else 0."""
    if beta > 0.0 or (beta == 0.0 and G + epsilon < 0.0):
        PG = G + epsilon
        return max(PG, 0.0) if beta == U else PG
    if beta < 0.0 or G - epsilon > 0.0:
        PG = G - epsilon
        return min(PG, 0.0) if beta == -U else PG
    return 0.0


@njit(cache=True)
def regression_step(beta: float, G: float, H: float, U: float, epsilon: float) -> float:
    """The best beta_i, all others as they are; H = Qii + D."""
    if H == 0.0:  # a row without features has no part in w
        return U if G + epsilon < 0.0 else -U if G - epsilon > 0.0 else 0.0
    if G + epsilon < H * beta:
        new = beta - (G + epsilon) / H
    elif G - epsilon > H * beta:
        new = beta - (G - epsilon) / H
    else:
        new = 0.0
    return min(max(new, -U), U)


# Visits the rows at the positions `order` (k,) int32.
#
# Inputs      rows: a segment's columns; table of one task; epsilon: half the width of the tube
# In place    alpha (n_rows,) by row_id, beta; w (d,); rest (k,) float32: how far a row rests
#
#   at beta_i = 0 inside its tube, min(G + epsilon, epsilon - G);  at U, -(G + epsilon);  or at -U, G - epsilon
#
#             -1 if it does not; inf if it is left out
# Returns     largest and smallest PG met (-inf, inf for k = 0); and the changes of sum [beta_i - d_i(beta_i)], d_i the
#             row's part of the dual objective, and of the number of free rows, 0 < |beta_i| < U


@njit(cache=True)
def visit_regression(
    order: Array, rows: Columns, table: Table, epsilon: float, alpha: Array, w: Array, rest: Array
) -> tuple[float, float, float, int]:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    M_plus, M_minus, taken, freed = -float("inf"), float("inf"), 0.0, 0
    count = order.shape[0]
    for k in range(count):
        if k + ROWS_AHEAD < count:
            prefetch_row(order[k + ROWS_AHEAD], rows, alpha, 1)
        position = order[k]
        i = row_id[position]
        start, end = indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        U, D = weighed(table.U[line, 0], table.D[line, 0], weight_of(position, rows))
        if U == 0.0:
            M_plus, M_minus, rest[k] = max(M_plus, 0.0), min(M_minus, 0.0), np.inf
            continue
        target, beta = np.float64(rows.target[position]), alpha[i]

        G = dot_ahead(order, k, count, start, end, indptr, indices, values, w) - target + D * beta
        PG = regression_gradient(beta, G, U, epsilon)
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        if PG != 0.0:
            rest[k] = -1.0
        elif beta == 0.0:
            rest[k] = min(G + epsilon, epsilon - G)
        else:
            rest[k] = -(G + epsilon) if beta == U else G - epsilon if beta == -U else -1.0
        if abs(PG) > 1e-12:
            new = regression_step(beta, G, Qii[position] + D, U, epsilon)
            alpha[i] = new
            taken += (
                (new - beta) * (1.0 - target) + epsilon * (abs(new) - abs(beta)) + D * (new * new - beta * beta) / 2.0
            )
            freed += int(0.0 < abs(new) < U) - int(0.0 < abs(beta) < U)
            add_row(start, end, indices, values, new - beta, w)
    return M_plus, M_minus, taken, freed
