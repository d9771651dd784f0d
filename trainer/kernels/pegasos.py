"""Pegasos: stochastic subgradient steps on the primal, row by row."""

import math

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array, dot, feature
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import kind_of
from streamsvm.trainer.problem.tasks import KindTable

# Problem     min over w of  lambda / 2 |w|^2 + 1/n sum_i c_i max(0, 1 - y_i <w, x_i>),  0 < c_i <= 1
# Source      Shalev-Shwartz, Singer, Srebro (ICML 2007), with its projection; BLOCK-P-I of Yu et al. (KDD 2010)
#
# Visits the rows `order` (k,) of a segment, the first as the t-th of all (from 0); w = scale v:
#
#   eta = 1 / (lambda (t + 2)),  w <- (1 - eta lambda) w + [m_i < 1] eta c_i y_i x_i
#   w <- w / max(1, sqrt(lambda) |w|)
#
# This is eta = n C / (t + 2), as in the program of Yu et al., where their section 4 prints n C / t in (11), with t from
# 1: those first steps are longer, and the very first one forgets the w that it begins with.
#
# Inputs      order (k,) int32; rows: a segment's columns; table of one task, U being c; lambda; t
# In place    v (d,); state (2,) = scale, |w|^2

_SMALLEST_SCALE = 1e-200


@njit(cache=True)
def pegasos_visits(
    order: Array, rows: Columns, table: KindTable, lambda_: float, t: int, v: Array, state: Array
) -> None:
    Qii, indptr, indices, values = rows.Qii, rows.indptr, rows.indices, rows.values
    scale, square = state[0], state[1]
    for k in range(order.shape[0]):
        position = order[k]
        start, end = indptr[position], indptr[position + 1]
        line = kind_of(position, rows, table.n_folds)
        sign = table.sign[line, 0]
        m = sign * scale * dot(indices, values, start, end, v)
        eta = 1.0 / (lambda_ * (t + k + 2))
        shrink = (t + k + 1.0) / (t + k + 2.0)
        scale *= shrink
        square *= shrink * shrink
        if m < 1.0:
            step = eta * table.U[line, 0]
            square += 2.0 * step * shrink * m + step * step * Qii[position]
            for j in range(start, end):
                v[feature(indices, start, j)] += step * sign / scale * float(values[j])
        if square * lambda_ > 1.0:
            scale /= math.sqrt(square * lambda_)
            square = 1.0 / lambda_
        if scale < _SMALLEST_SCALE:
            for j in range(v.shape[0]):
                v[j] *= scale
            scale = 1.0
    state[0], state[1] = scale, square
