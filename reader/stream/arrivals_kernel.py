"""Sorting the rows of a piece into resident, screened and new, the inner loops of `arrivals`."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment_kernel import Columns

NEW, RESIDENT, SCREENED = 0, 1, 2

# classify(rows: columns of a piece, first: where to begin, m (n, width): what losses are a function of, slack, n_folds,
#          resting (n_kinds, width): bounds of alpha, is_resident, leaving (n_rows,) bool, alpha (n_rows, width),
#          kind (n - first,) uint8, new (n - first,) int64):
# what becomes of each row. One that is at a bound in each task that it takes part in, while its gradient m - 1 holds it
# there by more than `slack`, is SCREENED, but not if it has just left the cache: alpha may be changing still. Fills
# `kind`, lists the positions of the NEW rows in `new` and returns their number. slack < 0: no row is screened.


@njit(cache=True, nogil=True)
def classify(
    rows: Columns,
    first: int,
    m: Array,
    slack: float,
    n_folds: int,
    resting: Array,
    is_resident: Array,
    leaving: Array,
    alpha: Array,
    kind: Array,
    new: Array,
) -> int:
    count, width = 0, m.shape[1]
    for position in range(first, rows.row_id.shape[0]):
        k, i = position - first, rows.row_id[position]
        kind[k] = NEW
        if is_resident[i]:
            kind[k] = RESIDENT
        elif slack >= 0.0 and not leaving[i]:
            kind[k] = SCREENED
            row = int(rows.class_code[position]) * n_folds + int(rows.fold[position])
            weight = np.float64(rows.weight[position]) if rows.weight.shape[0] > 0 else 1.0
            for lane in range(width):
                U = weight * resting[row, lane] if weight > 0.0 else 0.0
                if U > 0.0:
                    bound = 0.0 if m[position, lane] > 1.0 else U
                    if abs(m[position, lane] - 1.0) <= slack or alpha[i, lane] != bound:
                        kind[k] = NEW
                        break
        new[count] = position
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
