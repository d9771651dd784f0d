"""Visits of a kernel machine on a budget: BSCA and BSGD with a Gaussian kernel."""

import math

import numpy as np
from numba import njit

from storage.csr import Array
from storage.gaussian_kernel import gaussian, inner_products
from storage.segment import Columns
from trainer.kernels.machine import (
    BATCH,
    COUNT,
    DEGRADATION,
    LARGEST,
    LOSSES,
    MERGES,
    MERGING_SECONDS,
    SECONDS,
    SMALLEST,
    VISITS,
    Batch,
    Rule,
    Vectors,
    append,
    lightest,
    merge,
    partner,
    remove,
    slot_of,
)
from trainer.kernels.team import count_up, seconds, wait_for

# Problem     min over f of  1/2 |f|^2 + sum_i C_i max(0, 1 - y_i f(x_i)),  f(x) = factor sum_s beta_s k(z_s, x),
#             with at most `budget` vectors z_s
# Source      Qaadan, Schueler, Glasmachers, "Dual SVM training on a budget" (ICPRAM 2019); Wang, Crammer, Vucetic (JMLR
#             2012) for BSGD
#
# Visit of row i, with g = 1 - y_i f(x_i):
#
#   BSCA   d = clip(alpha_i + g, 0, C_i) - alpha_i,  alpha_i += d,  beta of x_i += y_i d
#   BSGD   t-th of all, from 1: factor = 1 / (t - 1) while f is looked at; beta of x_i += y_i n C_i if g > 0
#
# The row's own vector is added to, if it is still as it was, and goes if nothing of it is left. Else the row becomes
# a new vector. If there are more than the budget then, the one of the smallest |beta| is merged with one of its sign
# (trainer.kernels.merging).
#
# Rows come in batches of at most BATCH. Their products with all vectors, and kernel values, are made first, by all
# threads. One thread then makes the visits, one after the other, and keeps up with what has changed: a new vector
# is a row, whose products with the rows to come are made, and the products of a merged vector are the sum, by h and
# 1 - h, of those of the two. So every visit sees the vectors as they are, whatever the number of threads.


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _sum_of_products(a: Array, b: Array) -> float:
    total = 0.0
    for s in range(a.shape[0]):
        total += a[s] * b[s]
    return total


# _maintain: merge until there are no more vectors than the budget.


@njit(cache=True, nogil=True)
def _maintain(
    p: int, batch_order: Array, rows: Columns, rule: Rule, table: Array, vectors: Vectors, batch: Batch
) -> None:
    began = seconds()
    i = lightest(vectors)
    j = partner(i, rule, table, vectors, batch.slots)
    if j >= 0:
        merge(i, j, p, batch_order, rows.Qii, rule.gamma, vectors, batch)
    else:
        vectors.figures[DEGRADATION] += vectors.beta[i] * vectors.beta[i]
        vectors.figures[MERGES] += 1.0
        remove(i, vectors)
    vectors.figures[MERGING_SECONDS] += seconds() - began


# _visit: the row at p of a batch; returns by how much it raised the dual objective (BSCA).


@njit(cache=True, nogil=True)
def _visit(
    p: int, batch_order: Array, rows: Columns, rule: Rule, alpha: Array, table: Array, vectors: Vectors, batch: Batch
) -> float:
    position = batch_order[p]
    y = np.float64(rows.y[position])
    if y == 0.0:
        return 0.0
    i, sign, figures = rows.row_id[position], math.copysign(1.0, y), vectors.figures
    C = abs(y) * (rule.C_positive if y > 0.0 else rule.C_negative)
    factor = 1.0 / max(figures[VISITS], 1.0) if rule.is_gradient else 1.0
    g = 1.0 - sign * factor * _sum_of_products(vectors.beta, batch.values[p])
    figures[VISITS] += 1.0
    figures[LARGEST], figures[SMALLEST] = max(figures[LARGEST], g), min(figures[SMALLEST], g)
    figures[LOSSES] += C * max(0.0, g)
    if rule.is_gradient:
        d = rule.n_rows * C if g > 0.0 else 0.0
    else:
        d = min(max(alpha[i] + g, 0.0), C) - alpha[i]
        alpha[i] += d
    if d == 0.0:
        return 0.0
    s = slot_of(vectors.row, i)
    if s >= 0:
        vectors.beta[s] += sign * d
        if vectors.beta[s] == 0.0:
            remove(s, vectors)
    else:
        append(p, batch_order, rows, sign * d, rule.gamma, vectors, batch)
        if figures[COUNT] > rule.budget:
            _maintain(p, batch_order, rows, rule, table, vectors, batch)
    return d * (g - 0.5 * d)


# budgeted_visits: one of `n_threads` threads, which all call it with the same; thread 0 makes the visits.
#
# Inputs      order (k,) int32: positions to visit; rows: a segment's columns; table of degradations
# In place    alpha (n_rows,) float64 by row id (BSCA); vectors; gain (k,) float64 of each visit; batch


@njit(cache=True, nogil=True)
def budgeted_visits(
    thread: int, n_threads: int, order: Array, rows: Columns, rule: Rule, table: Array, alpha: Array, vectors: Vectors,
    gain: Array, batch: Batch,
) -> None:  # fmt: skip
    began = seconds()
    for number in range((order.shape[0] + BATCH - 1) // BATCH):
        part = order[number * BATCH : (number + 1) * BATCH]
        for p in range(thread, part.shape[0], n_threads):
            position = part[p]
            start, end = rows.indptr[position], rows.indptr[position + 1]
            inner_products(rows.indices, rows.values, start, end, vectors.Z, batch.products[p])
            for s in range(vectors.scale.shape[0]):
                batch.products[p, s] *= np.float32(vectors.scale[s])
            gaussian(
                batch.products[p], vectors.norms, rows.Qii[position], rule.gamma, batch.room[thread], batch.values[p]
            )
        if n_threads > 1:
            count_up(batch.arrived)
            if thread > 0:
                wait_for(batch.finished, number + 1)
                continue
            wait_for(batch.arrived, n_threads * (number + 1))
        for p in range(part.shape[0]):
            gain[number * BATCH + p] = _visit(p, part, rows, rule, alpha, table, vectors, batch)
        if n_threads > 1:
            count_up(batch.finished)
    if thread == 0:
        vectors.figures[SECONDS] += seconds() - began
