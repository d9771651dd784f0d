"""Dual coordinate descent for support vector regression."""

import numpy as np
from numba import njit

from storage.csr import Array
from trainer.kernels.coordinate import ROWS_AHEAD, add_row, dot_ahead, prefetch_row
from trainer.kernels.order import shuffle

# Problem     min over |beta_i| <= U of  1/2 |w|^2 + sum [D beta_i^2 / 2 - y_i beta_i + epsilon |beta_i|],
#             w = sum beta_i x_i
# Source      Ho and Lin, "Large-scale linear support vector regression" (JMLR 2012), algorithm 4
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


# Visits the first `active` positions of `order`, in random order. A row is shrunk, not stepped on, if by more than
# `beyond`, the largest |PG| of the round before (inf: no row is), it rests
#
#   at beta_i = 0 inside its tube, G + epsilon > beyond and G - epsilon < -beyond;
#   at U, G + epsilon < -beyond;  or at -U, G - epsilon > beyond
#
# It goes behind the active ones in `order`, and its PG is not counted.
#
# Inputs      active >= 0; seed > 0; a segment's columns, y (n,) the targets; U, D, epsilon of the loss
# In place    order (n,) int32, a permutation of all positions; alpha (n_rows,) by row_id, beta; w (d,)
# Returns     rows still active; largest and smallest PG of these (-inf, inf if there are none); and the changes of
#             sum [beta_i - d_i(beta_i)], d_i the row's part of the dual objective, and of the number of free rows,
#             0 < |beta_i| < U


@njit(cache=True)
def visit_regression(
    order: Array,
    active: int,
    seed: int,
    beyond: float,
    row_id: Array,
    y: Array,
    Qii: Array,
    indptr: Array,
    indices: Array,
    values: Array,
    U: float,
    D: float,
    epsilon: float,
    alpha: Array,
    w: Array,
) -> tuple[int, float, float, float, int]:
    M_plus, M_minus, taken, freed = -float("inf"), float("inf"), 0.0, 0
    shuffle(seed, order, active)
    k = 0
    while k < active:
        if k + ROWS_AHEAD < active:
            prefetch_row(order[k + ROWS_AHEAD], row_id, y, Qii, indptr, indices, values, alpha)
        position = order[k]
        i = row_id[position]
        start, end = indptr[position], indptr[position + 1]
        target = np.float64(y[position])
        beta = alpha[i]

        G = dot_ahead(order, k, active, start, end, indptr, indices, values, w) - target + D * beta
        above, below = G + epsilon, G - epsilon
        is_resting = (
            (beta == 0.0 and above > beyond and below < -beyond)
            or (beta == U and above < -beyond)
            or (beta == -U and below > beyond)
        )
        if is_resting:
            active -= 1
            order[k] = order[active]
            order[active] = position
            continue
        k += 1
        PG = regression_gradient(beta, G, U, epsilon)
        M_plus, M_minus = max(M_plus, PG), min(M_minus, PG)
        if abs(PG) > 1e-12:
            new = regression_step(beta, G, Qii[position] + D, U, epsilon)
            alpha[i] = new
            taken += (
                (new - beta) * (1.0 - target) + epsilon * (abs(new) - abs(beta)) + D * (new * new - beta * beta) / 2.0
            )
            freed += int(0.0 < abs(new) < U) - int(0.0 < abs(beta) < U)
            add_row(start, end, indices, values, new - beta, w)
    return active, M_plus, M_minus, taken, freed
