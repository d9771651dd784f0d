"""Parts that the kernels for coordinate steps share: projected gradient, score, a row's terms, additions to w."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import LARGE_W, Array, dot, dot_fetching
from streamsvm.storage.rows.segment_kernel import Columns

# Problem     as in kernels/hinge.py

ROWS_AHEAD = 3
_A_LINE = 16  # indices or values in a line of the processor's cache
_PREFETCHED = 256  # most indices or values of a row that are prefetched

# Kinds of score that `score_of` computes. Rows with the highest scores leave the cache first: training gains least by
# them.
GAP, VIOLATION, DISTANCE = 0, 1, 2


# PG = 0 if alpha_i = a = 0 and G >= 0, or a = U and G <= 0; else G.


@njit(cache=True)
def projected_gradient(a: float, G: float, U: float) -> float:
    return 0.0 if (a == 0.0 and G >= 0.0) or (a == U and G <= 0.0) else G


# GAP         minus the row's term of the duality gap if it is free or violates its bound, |G| if it rests at a bound
# VIOLATION   -|PG|, or |G| if it rests at a bound
# DISTANCE    |<w, x_i>| = |m|, from the separating plane


@njit(cache=True)
def score_of(kind: int, a: float, m: float, G: float, PG: float, U: float, D: float) -> float:
    if kind == DISTANCE:
        return abs(m)
    if PG == 0.0 and (a == 0.0 or a == U):
        return abs(G)
    if kind == VIOLATION:
        return -abs(PG)
    if D == 0.0:
        return -(U - a) * (1.0 - m) if m < 1.0 else -a * (m - 1.0)
    slack = max(0.0, 1.0 - m)
    return a * (1.0 - m) - slack * slack / (2.0 * D) - D * a * a / 2.0


# prefetch_row(coming: a position to be visited soon, ...): fetches the row's first cache lines; the processor fetches
# the rest of a longer row by itself. dot_ahead(...): <w, x> of the row at start:end, visited k-th of `count`; if w is
# large, it also fetches the weights of the row that is visited next.


@njit(cache=True)
def prefetch_row(coming: int, rows: Columns, alpha: Array, lanes: int) -> None:
    start = rows.indptr[coming]
    for j in range(start, min(rows.indptr[coming + 1], start + _PREFETCHED), _A_LINE):
        if rows.indices.shape[0] > 0:
            prefetch(rows.indices, j)
        prefetch(rows.values, j)
    prefetch(rows.Qii, coming)
    prefetch(rows.class_code, coming)
    prefetch(alpha, rows.row_id[coming] * lanes)


# kind_of(...): the kind of the row at a position, which is its line in the table. weight_of(...): its weight.
# weighed(U, D, weight): bound U weight and curvature D / weight of a row: here its weight enters training.


@njit(cache=True, inline="always")
def kind_of(position: int, rows: Columns, n_folds: int) -> int:
    return int(rows.class_code[position]) * n_folds + int(rows.fold[position])


@njit(cache=True, inline="always")
def weight_of(position: int, rows: Columns) -> float:
    return np.float64(rows.weight[position]) if rows.weight.shape[0] > 0 else 1.0


@njit(cache=True, inline="always")
def weighed(U: float, D: float, weight: float) -> tuple[float, float]:
    if weight == 1.0:
        return U, D
    return (U * weight, D / weight) if weight > 0.0 else (0.0, 0.0)


@njit(cache=True, inline="always")
def dot_ahead(
    order: Array, k: int, count: int, start: int, end: int, indptr: Array, indices: Array, values: Array, w: Array
) -> float:
    if w.shape[0] > LARGE_W and k + 1 < count:
        coming = order[k + 1]
        return dot_fetching(indices, values, start, end, w, indptr[coming], indptr[coming + 1])
    return dot(indices, values, np.int64(start), np.int64(end), w)
