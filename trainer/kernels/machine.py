"""The support vectors of a kernel machine while they come, change and are merged."""

import math
from typing import NamedTuple

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.problem.tasks import Table

BATCH = 8


class Rule(NamedTuple):
    """How visits are made.

    table        of one task, with U = C
    is_gradient  BSGD, not BSCA; n_rows: of the whole problem
    is_looked_up a partner is chosen by the table of degradations, else by searching for each
    candidates   so many partners, at random, are looked at; 0: all
    """

    table: Table
    gamma: float
    n_rows: int
    budget: int
    is_gradient: bool
    is_looked_up: bool
    candidates: int


class Vectors(NamedTuple):
    """The support vectors, each at a slot.

    Z        (width, n_slots) float32, column s times scale[s] is z_s; 0 where there is none
    scale    (n_slots,) float64 > 0: a vector that is merged with a light one changes in the features of this one alone
    beta     (n_slots,) float64, 0 where there is none
    inner    (n_slots, n_slots) float64 = <z_s, z_r>; norms (n_slots,) float64 = |z_s|^2
    features (n_slots, width) int32: those of z_s are among the first `lengths[s]` of row s, in any order
    row      (n_slots,) int64: the row that z_s still is; MERGED; FREE: there is no vector
    figures  (FIGURES,) float64, see below
    state    (1,) int64 > 0, of the random numbers
    """

    Z: Array
    scale: Array
    beta: Array
    inner: Array
    norms: Array
    features: Array
    lengths: Array
    row: Array
    figures: Array
    state: Array


class Batch(NamedTuple):
    """Room for what is made of a batch, by each thread its own.

    products (n_threads, BATCH, n_slots) float32 and values (n_threads, BATCH, n_slots) float64: with all vectors
    room     (n_threads, n_slots) float64
    dense    (width,) float32, all 0; slots (n_slots,) int64; near (3, n_slots) float64
    claimed  (1,) int64 = 0: rows that somebody has begun; finished (1,) int64 = 0: finished batches
    made     (n_threads * BATCH,) int64: the batch, from 1, of which a thread has made the row at this place
    """

    products: Array
    values: Array
    room: Array
    dense: Array
    slots: Array
    near: Array
    claimed: Array
    finished: Array
    made: Array


FREE, MERGED = -2, -1
NOTHING = np.float32(1e-30)  # a value of a feature that has come to 0
# Places in Vectors.figures. Over all passes: vectors, visits, vectors merged, their degradations, seconds of merging
# and of visits; in this pass: largest and smallest g, sum of C_i max(0, g).
COUNT, VISITS, MERGES, DEGRADATION, MERGING_SECONDS, SECONDS, LARGEST, SMALLEST, LOSSES = range(9)
FIGURES = 9


@njit(cache=True, nogil=True)
def slot_of(row: Array, wanted: int) -> int:
    for s in range(row.shape[0]):
        if row[s] == wanted:
            return s
    return -1


@njit(cache=True, nogil=True)
def kernel_value(norm: float, other: float, product: float, gamma: float) -> float:
    return math.exp(-gamma * max(norm + other - 2.0 * product, 0.0))


# append: the row at k of the order, number p of its batch, becomes a vector; returns its slot.


@njit(cache=True, nogil=True)
def append(
    p: int, batch_order: Array, rows: Columns, weight: float, gamma: float, vectors: Vectors, batch: Batch
) -> int:
    row_id, Qii, indptr, indices, values = rows.row_id, rows.Qii, rows.indptr, rows.indices, rows.values
    position = batch_order[p]
    start, end = indptr[position], indptr[position + 1]
    s, products, every = slot_of(vectors.row, FREE), batch.products[0], batch.values[0]
    for r in range(vectors.beta.shape[0]):
        vectors.inner[s, r] = vectors.inner[r, s] = np.float64(products[p, r])
    vectors.inner[s, s] = vectors.norms[s] = Qii[position]
    length = 0
    for j in range(start, end):
        # A zero that is stored is none of its features: merging tells by the value whether one is.
        if values[j] != 0.0:
            vectors.Z[indices[j], s] = values[j]
            vectors.features[s, length] = indices[j]
            length += 1
        batch.dense[indices[j]] = values[j]
    vectors.lengths[s], vectors.scale[s] = length, 1.0
    vectors.row[s] = row_id[position]
    vectors.beta[s] = weight
    vectors.figures[COUNT] += 1.0
    for q in range(p + 1, batch_order.shape[0]):
        other = batch_order[q]
        product = np.float32(0.0)
        for j in range(indptr[other], indptr[other + 1]):
            product += batch.dense[np.uint32(indices[j])] * values[j]
        products[q, s] = product
        every[q, s] = kernel_value(Qii[other], Qii[position], np.float64(product), gamma)
    for j in range(start, end):
        batch.dense[indices[j]] = 0.0
    return s


@njit(cache=True, nogil=True)
def remove(s: int, vectors: Vectors) -> None:
    for place in range(vectors.lengths[s]):
        vectors.Z[vectors.features[s, place], s] = 0.0
    vectors.lengths[s] = 0
    vectors.row[s] = FREE
    vectors.beta[s] = 0.0
    vectors.figures[COUNT] -= 1.0
