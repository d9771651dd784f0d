"""Visits of a kernel machine on a budget: BSCA and BSGD with a Gaussian kernel."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.models.gaussian_kernel import gaussian, inner_products
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.kernels.coordinate import kind_of, weight_of
from streamsvm.trainer.kernels.machine import (
    BATCH,
    COUNT,
    DEGRADATION,
    LARGEST,
    LOSSES,
    MERGED,
    MERGES,
    MERGING_SECONDS,
    NOTHING,
    SECONDS,
    SMALLEST,
    VISITS,
    MachineBatch,
    Vectors,
    VisitRule,
    append,
    kernel_value,
    remove,
    slot_of,
)
from streamsvm.trainer.kernels.merging import best_h, degradation, looked_up, searched
from streamsvm.trainer.kernels.order import next_random
from streamsvm.trainer.kernels.threads import claim, mark, marked, seconds, wait_for

# lightest: the slot of the vector of the smallest |beta|; -1 if there is none.


@njit(cache=True, nogil=True)
def lightest(vectors: Vectors) -> int:
    beta, least = vectors.beta, np.inf
    for s in range(beta.shape[0]):
        # Without a branch this compiles to vector code; beta is 0 in free slots.
        least = min(least, abs(beta[s]) if beta[s] != 0.0 else np.inf)
    for s in range(beta.shape[0]):
        if abs(beta[s]) == least:
            return s
    return -1


# partner: the best vector to merge with i among those of its sign, or among some random ones of these; -1: none.


@njit(cache=True, nogil=True)
def partner(i: int, rule: VisitRule, table: Array, vectors: Vectors, batch: MachineBatch) -> int:
    beta, slots, count = vectors.beta, batch.slots, 0
    for s in range(beta.shape[0]):
        # Without a branch: the processor would mispredict half of the signs.
        slots[count] = s
        count += int(s != i and beta[s] * beta[i] > 0.0)
    looked_at = count if rule.candidates == 0 else min(rule.candidates, count)
    state, products, norms = vectors.state[0], batch.near[0], batch.near[1]
    for c in range(looked_at):
        if looked_at < count:
            state = next_random(state)
            other = c + ((state * (count - c)) >> 32)
            slots[c], slots[other] = slots[other], slots[c]
        products[c], norms[c] = vectors.inner[i, slots[c]], vectors.norms[slots[c]]
    vectors.state[0] = state
    k = batch.near[2][:looked_at]
    gaussian(products, norms, vectors.norms[i], rule.gamma, batch.room[0], k)
    best, least = -1, np.inf
    for c in range(looked_at):
        total = beta[i] + beta[slots[c]]
        m = beta[i] / total
        wd = looked_up(table, m, k[c]) if rule.is_looked_up else searched(m, k[c])
        if total * total * wd < least:
            best, least = slots[c], total * total * wd
    return best


# _move: z_j <- h z_i + (1-h) z_j, for h < 1, and z_i <- 0.
#
# A feature is listed for a vector if and only if its value is not 0: a value that becomes 0 is replaced by NOTHING.

_LEAST_SCALE = 1e-3


@njit(cache=True, nogil=True)
def _move(i: int, j: int, h: float, vectors: Vectors) -> None:
    Z, features, lengths = vectors.Z, vectors.features, vectors.lengths
    vectors.scale[j] *= 1.0 - h
    if vectors.scale[j] < _LEAST_SCALE:
        for place in range(lengths[j]):
            f = features[j, place]
            Z[f, j] *= np.float32(vectors.scale[j])
            if Z[f, j] == 0.0:
                Z[f, j] = NOTHING
        vectors.scale[j] = 1.0
    factor = np.float32(h * vectors.scale[i] / vectors.scale[j])
    for place in range(lengths[i]):
        f = features[i, place]
        if Z[f, j] == 0.0:
            features[j, lengths[j]] = f
            lengths[j] += 1
        Z[f, j] += factor * Z[f, i]
        Z[f, i] = 0.0
        if Z[f, j] == 0.0:
            Z[f, j] = NOTHING
    lengths[i] = 0


# merge: merge i into j, or j into i if that is less work, and update the products of the batch's rows after p.

_MOST_H = 1.0 - 1e-9  # z_j does not vanish


@njit(cache=True, nogil=True)
def merge(
    i: int, j: int, p: int, batch_order: Array, Qii: Array, gamma: float, vectors: Vectors, batch: MachineBatch
) -> None:
    beta, inner, norms, products = vectors.beta, vectors.inner, vectors.norms, batch.products[0]
    if vectors.lengths[i] > vectors.lengths[j]:
        i, j = j, i
    total = beta[i] + beta[j]
    m, k = beta[i] / total, kernel_value(norms[i], norms[j], inner[i, j], gamma)
    h = min(best_h(m, k), _MOST_H)
    loss = degradation(h, m, k)
    square = h * h * norms[i] + 2.0 * h * (1.0 - h) * inner[i, j] + (1.0 - h) * (1.0 - h) * norms[j]
    for r in range(beta.shape[0]):
        inner[j, r] = h * inner[i, r] + (1.0 - h) * inner[j, r]
        inner[r, j] = inner[j, r]
    inner[j, j] = norms[j] = square
    _move(i, j, h, vectors)
    # With this coefficient k(z, .) is as near as it can be to the sum of the two terms that it replaces.
    beta[j] = total * (m * k ** ((1.0 - h) * (1.0 - h)) + (1.0 - m) * k ** (h * h))
    vectors.row[j] = MERGED
    vectors.figures[MERGES] += 1.0
    vectors.figures[DEGRADATION] += total * total * loss
    for q in range(p + 1, batch_order.shape[0]):
        product = np.float32(h * np.float64(products[q, i]) + (1.0 - h) * np.float64(products[q, j]))
        products[q, j] = product
        batch.values[0, q, j] = kernel_value(Qii[batch_order[q]], square, np.float64(product), gamma)
    remove(i, vectors)


# Problem     min over f of  1/2 |f|^2 + sum_i C_i max(0, 1 - y_i f(x_i)),  f(x) = factor sum_s beta_s k(z_s, x),
#             with at most `budget` vectors z_s
# Source      Qaadan, Schueler, Glasmachers, "Dual SVM training on a budget" (ICPRAM 2019); Wang, Crammer, Vucetic (JMLR
#             2012) for BSGD
#
# Visit of row i, with g = 1 - y_i f(x_i):
#
#   BSCA   d = clip(alpha_i + g, 0, C_i) - alpha_i,  alpha_i += d,  beta of x_i += y_i d
#   BSGD   t-th visit of the job, from 1: factor = 1 / (t - 1) in f; beta of x_i += y_i n C_i if g > 0
#
# If x_i is a support vector that has not been merged, its beta changes; the vector goes when beta becomes 0. Otherwise
# x_i becomes a new vector. If there are then more vectors than the budget, the vector with the smallest |beta| is
# merged with one of the same sign (trainer.kernels.merging).
#
# Rows come in batches of at most BATCH. First all threads compute the rows' products with all vectors, and the kernel
# values. Then the first thread visits the rows one after the other and updates the products: for a new vector it
# computes those with the batch's remaining rows; for a merged vector they are h and 1 - h times those of the two. So
# every visit sees the current vectors, whatever the number of threads.


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _sum_of_products(a: Array, b: Array) -> float:
    total = 0.0
    for s in range(a.shape[0]):
        total += a[s] * b[s]
    return total


# _maintain: merge two vectors, or remove the lightest one if it has no partner.


@njit(cache=True, nogil=True)
def _maintain(
    p: int,
    batch_order: Array,
    rows: Columns,
    rule: VisitRule,
    degradations: Array,
    vectors: Vectors,
    batch: MachineBatch,
) -> None:
    began = seconds()
    i = lightest(vectors)
    j = partner(i, rule, degradations, vectors, batch)
    if j >= 0:
        merge(i, j, p, batch_order, rows.Qii, rule.gamma, vectors, batch)
    else:
        vectors.figures[DEGRADATION] += vectors.beta[i] * vectors.beta[i]
        vectors.figures[MERGES] += 1.0
        remove(i, vectors)
    vectors.figures[MERGING_SECONDS] += seconds() - began


# _visit: visit the row at p of a batch; returns by how much that raised the dual objective (BSCA).


@njit(cache=True, nogil=True)
def _visit(
    p: int, batch_order: Array, rows: Columns, rule: VisitRule, alpha: Array, degradations: Array, vectors: Vectors,
    batch: MachineBatch,
) -> float:  # fmt: skip
    position = batch_order[p]
    line = kind_of(position, rows, rule.table.n_folds)
    C = weight_of(position, rows) * rule.table.U[line, 0]
    if C == 0.0:
        return 0.0
    i, sign, figures = rows.row_id[position], rule.table.sign[line, 0], vectors.figures
    factor = 1.0 / max(figures[VISITS], 1.0) if rule.is_gradient else 1.0
    g = 1.0 - sign * factor * _sum_of_products(vectors.beta, batch.values[0, p])
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
            _maintain(p, batch_order, rows, rule, degradations, vectors, batch)
    return d * (g - 0.5 * d)


# _make: compute the products and kernel values of the row at p of a batch.


@njit(cache=True, nogil=True)
def _make(
    thread: int, p: int, position: int, rows: Columns, gamma: float, vectors: Vectors, batch: MachineBatch
) -> None:
    products = batch.products[thread, p]
    inner_products(rows.indices, rows.values, rows.indptr[position], rows.indptr[position + 1], vectors.Z, products)
    for s in range(products.shape[0]):
        products[s] *= np.float32(vectors.scale[s])
    gaussian(products, vectors.norms, rows.Qii[position], gamma, batch.room[thread], batch.values[thread, p])


# help_with: the work of all threads but the first. A thread claims a row, waits until all earlier batches are finished,
# computes the row's products and values in memory of this thread, and marks the row as ready.


@njit(cache=True, nogil=True)
def help_with(thread: int, order: Array, rows: Columns, rule: VisitRule, vectors: Vectors, batch: MachineBatch) -> None:
    while True:
        row = claim(batch.claimed)
        if row >= order.shape[0]:
            return
        number, p = row // BATCH, row % BATCH
        wait_for(batch.finished, number)
        _make(thread, p, order[row], rows, rule.gamma, vectors, batch)
        mark(batch.made, thread * BATCH + p, number + 1)


# _taken: copy the products and values of the row at p of a batch (numbered from 1) from the thread that has computed
# them; returns whether there is one.


@njit(cache=True, nogil=True)
def _taken(p: int, number: int, batch: MachineBatch) -> bool:
    for thread in range(1, batch.products.shape[0]):
        if marked(batch.made, thread * BATCH + p) == number:
            batch.products[0, p] = batch.products[thread, p]
            batch.values[0, p] = batch.values[thread, p]
            return True
    return False


# budgeted_visits: the work of the first thread. It also claims and computes rows; those that other threads have claimed
# but not finished in time it computes itself: it waits for no thread, since that thread may have no core.
#
# Inputs      order (k,) int32: positions to visit; rows: a segment's columns; degradations: a table of them
# In place    alpha (n_rows,) float64 by row id (BSCA); vectors; gain (k,) float64 of each visit; batch


@njit(cache=True, nogil=True)
def budgeted_visits(
    order: Array, rows: Columns, rule: VisitRule, degradations: Array, alpha: Array, vectors: Vectors, gain: Array,
    batch: MachineBatch,
) -> None:  # fmt: skip
    began = seconds()
    own = np.zeros(BATCH, np.bool_)
    row = claim(batch.claimed)
    for first in range(0, order.shape[0], BATCH):
        part, number = order[first : first + BATCH], first // BATCH + 1
        own[:] = False
        while row < first + part.shape[0]:
            own[row - first] = True
            _make(0, row - first, order[row], rows, rule.gamma, vectors, batch)
            row = claim(batch.claimed)
        for p in range(part.shape[0]):
            if not (own[p] or _taken(p, number, batch)):
                _make(0, p, part[p], rows, rule.gamma, vectors, batch)
        for p in range(part.shape[0]):
            gain[first + p] = _visit(p, part, rows, rule, alpha, degradations, vectors, batch)
        mark(batch.finished, 0, number)
    vectors.figures[SECONDS] += seconds() - began
