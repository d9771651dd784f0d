"""Budget maintenance: chooses two support vectors, and merges them."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.models.gaussian_kernel import gaussian
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.kernels.machine import (
    DEGRADATION,
    MERGED,
    MERGES,
    NOTHING,
    MachineBatch,
    Vectors,
    VisitRule,
    kernel_value,
    remove,
)
from streamsvm.trainer.kernels.merging import best_h, degradation, looked_up, searched
from streamsvm.trainer.kernels.order import next_random

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
