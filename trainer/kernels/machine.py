"""Adds support vectors to a kernel machine in training, and removes them."""

import math
from typing import NamedTuple

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Columns
from streamsvm.trainer.problem.tasks import KindTable

BATCH = 8


class VisitRule(NamedTuple):
    """The parameters of visits.

    table        table of one task, with U = C
    n_rows       number of rows of the whole problem
    is_gradient  True: BSGD; False: BSCA
    is_looked_up True: the degradations of candidates are looked up in a table; False: by a search for each
    candidates   number of random candidates for a merge; 0: all vectors are candidates
    """

    table: KindTable
    gamma: float
    n_rows: int
    budget: int
    is_gradient: bool
    is_looked_up: bool
    candidates: int


class Vectors(NamedTuple):
    """The support vectors, each at a slot.

    Z        (width, n_slots) float32: scale[s] times column s is z_s; 0 in free slots
    scale    (n_slots,) float64 > 0: with it, a merge changes Z only in the features of the vector with fewer features
    beta     (n_slots,) float64, 0 in free slots
    inner    (n_slots, n_slots) float64 = <z_s, z_r>; norms (n_slots,) float64 = |z_s|^2
    features (n_slots, width) int32: the first `lengths[s]` of row s are the features of z_s, in any order
    row      (n_slots,) int64: id of the row whose x is z_s; MERGED: none; FREE: the slot has no vector
    figures  (FIGURES,) float64, see below
    state    (1,) int64 > 0, state of the random numbers
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


class MachineBatch(NamedTuple):
    """What threads have computed of the rows of a batch, with scratch memory.

    products (n_threads, BATCH, n_slots) float32: products with all vectors; values, float64: kernel values
    room     (n_threads, n_slots) float64: scratch memory
    dense    (width,) float32: scratch memory, all 0; slots (n_slots,) int64 and near (3, n_slots) float64 likewise
    claimed  (1,) int64, 0 at first: rows that a thread has claimed; finished (1,) int64: batches that are finished
    made     (n_threads * BATCH,) int64: the batch, from 1, whose row at this place the thread has computed
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
NOTHING = np.float32(1e-30)  # replaces the value 0 of a vector's feature
# Places in Vectors.figures. Of the job: number of vectors, visits, merges, sum of degradations, seconds of merging,
# seconds of all visits. Of the pass: largest and smallest g, sum of C_i max(0, g).
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


# append: make a vector of the row at p of the batch; returns its slot.


@njit(cache=True, nogil=True)
def append(
    p: int, batch_order: Array, rows: Columns, weight: float, gamma: float, vectors: Vectors, batch: MachineBatch
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
        # A stored zero must not be listed: merging takes a feature for a vector's own if its value is not 0.
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
