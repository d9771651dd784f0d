"""Inner loops of `arrivals`, which classifies the rows of a piece, and of `residents`, which lists resident rows."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment_kernel import Columns

NEW, RESIDENT, SCREENED = 0, 1, 2

# classify(rows: columns of a piece, first: position to begin at, m (n, width): argument of the loss, slack, n_folds,
#          resting (n_kinds, width): bounds of alpha, tube: epsilon of regression, else -1, is_resident,
#          leaving (n_rows,) bool, alpha (n_rows, width), kind (n - first,) uint8, new (n - first,) int64):
# decides for each row from `first` on whether it is RESIDENT, SCREENED or NEW. A row is SCREENED if, in each of its
# tasks, alpha is at a bound and the gradient holds alpha there by more than `slack`. A row that was just evicted
# (`leaving`) is NEW, since the trainer may still be changing its alpha. The gradient is m - 1; in regression m is a
# residual, and alpha rests at 0 inside the tube, at U below the tube, at -U above it. Fills `kind`, lists the positions
# of the NEW rows in `new`, returns their number. slack < 0: no row is screened.


@njit(cache=True, nogil=True)
def classify(
    rows: Columns,
    first: int,
    m: Array,
    slack: float,
    n_folds: int,
    resting: Array,
    tube: float,
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
                    own = m[position, lane]
                    if tube < 0.0:
                        beyond, bound = own - 1.0, 0.0 if own > 1.0 else U
                    else:
                        beyond = abs(own) - tube
                        bound = 0.0 if beyond < 0.0 else -U if own > 0.0 else U
                    if abs(beyond) <= slack or alpha[i, lane] != bound:
                        kind[k] = NEW
                        break
        new[count] = position
        count += kind[k] == NEW
    return count


# account(row_id, kind, indptr (n + 1,), stamp, is_resident, skipped, visited (n_rows,)): of n rows, marks the NEW rows
# as resident, and the RESIDENT rows as read in the pass `stamp` (skipped[i] = stamp).
# Returns (screened rows, screened rows not visited in the pass, non-zeros of resident rows, resident rows).


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


# gather(slots (k,), rows (n_slots,), row_id, bytes (n_slots, most_rows): the table of resident rows,
#        score (n_rows,) float32, skipped, visited (n_rows,) uint8, stamp,
#        out_segment, out_score, out_bytes (rows of the slots together,)):
# lists the rows of the slots, slot after slot: out_segment is the index of a row's slot in `slots`. A row that was read
# in the pass `stamp` while it was resident, and has not been visited in this pass yet, gets the score -inf.


@njit(cache=True, nogil=True)
def gather(
    slots: Array,
    rows: Array,
    row_id: Array,
    bytes_: Array,
    score: Array,
    skipped: Array,
    visited: Array,
    stamp: int,
    out_segment: Array,
    out_score: Array,
    out_bytes: Array,
) -> None:
    position = 0
    for k in range(slots.shape[0]):
        slot = slots[k]
        for r in range(rows[slot]):
            i = row_id[slot, r]
            must_wait = skipped[i] == stamp and visited[i] != stamp
            out_segment[position] = k
            out_score[position] = -np.inf if must_wait else score[i]
            out_bytes[position] = bytes_[slot, r]
            position += 1
