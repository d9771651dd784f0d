"""Sorting the rows of a piece into resident, screened and new, the inner loops of `arrivals`."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

NEW, RESIDENT, SCREENED = 0, 1, 2

# classify(row_id, y, m (n,): a piece's rows and their margins, slack, U_positive, U_negative,
#          is_resident, leaving (n_rows,) bool, alpha (n_rows,), kind (n,) uint8, new (n,) int64):
# what becomes of each row. One that is at a bound while its gradient m - 1 holds it there by more than `slack` is
# SCREENED, but not if it has just left the cache: alpha may be changing still. Fills `kind`, lists the positions of the
# NEW rows in `new` and returns their number. slack < 0: no row is screened.


@njit(cache=True, nogil=True)
def classify(
    row_id: Array,
    y: Array,
    m: Array,
    slack: float,
    U_positive: float,
    U_negative: float,
    is_resident: Array,
    leaving: Array,
    alpha: Array,
    kind: Array,
    new: Array,
) -> int:
    count = 0
    for k in range(row_id.shape[0]):
        i = row_id[k]
        kind[k] = NEW
        if is_resident[i]:
            kind[k] = RESIDENT
        elif slack >= 0.0 and abs(m[k] - 1.0) > slack and not leaving[i]:
            size = abs(np.float64(y[k]))
            U = 0.0 if size == 0.0 else size * (U_positive if y[k] > 0 else U_negative)
            if alpha[i] == (0.0 if m[k] > 1.0 else U):
                kind[k] = SCREENED
        new[count] = k
        count += kind[k] == NEW
    return count


# classify_lanes(...): the same of a group of lanes. y, m, alpha (.., lanes), U_positive, U_negative (lanes,): a row is
# SCREENED if it rests by more than `slack` in each lane that it has a part in.


@njit(cache=True, nogil=True)
def classify_lanes(
    row_id: Array,
    y: Array,
    m: Array,
    slack: float,
    U_positive: Array,
    U_negative: Array,
    is_resident: Array,
    leaving: Array,
    alpha: Array,
    kind: Array,
    new: Array,
) -> int:
    count = 0
    for k in range(row_id.shape[0]):
        i = row_id[k]
        kind[k] = NEW
        if is_resident[i]:
            kind[k] = RESIDENT
        elif slack >= 0.0 and not leaving[i]:
            kind[k] = SCREENED
            for lane in range(y.shape[1]):
                size = abs(y[k, lane])
                if size > 0.0:
                    U = size * (U_positive[lane] if y[k, lane] > 0.0 else U_negative[lane])
                    bound = 0.0 if m[k, lane] > 1.0 else U
                    if abs(m[k, lane] - 1.0) <= slack or alpha[i, lane] != bound:
                        kind[k] = NEW
                        break
        new[count] = k
        count += kind[k] == NEW
    return count


# account(row_id, kind, indptr (n + 1,), stamp, is_resident, skipped, visited (n_rows,)): enters the n rows in the
# books: NEW ones are resident now, RESIDENT ones have streamed by in the pass `stamp`.
# Returns (rows screened, those of them not visited in the pass, non-zeros of the resident rows, resident rows).


@njit(cache=True, nogil=True)
def account(
    row_id: Array, kind: Array, indptr: Array, stamp: int, is_resident: Array, skipped: Array, visited: Array
) -> tuple[int, int, int, int]:
    screened = unvisited = nnz = resident = 0
    for k in range(row_id.shape[0]):
        i = row_id[k]
        if kind[k] == NEW:
            is_resident[i] = True
        elif kind[k] == RESIDENT:
            skipped[i] = stamp
            nnz += indptr[k + 1] - indptr[k]
            resident += 1
        elif kind[k] == SCREENED:
            screened += 1
            unvisited += visited[i] != stamp
    return screened, unvisited, nnz, resident
