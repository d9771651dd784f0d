"""Looking up the rows of many segments at once, the inner loop of `residents`."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# gather(slots (k,), rows (n_slots,), row_id, bytes (n_slots, most_rows): the table of resident rows,
#        score (n_rows,) float32, skipped, visited (n_rows,) uint8, stamp,
#        out_segment, out_score, out_bytes (rows of the slots together,)):
# lists the rows of the slots, slot after slot, numbered from 0. A row that streamed by in the pass `stamp` while it was
# resident, and has not been visited in that pass yet, gets the score -inf.


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
