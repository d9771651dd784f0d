"""Inner loops of `shuffle`: `scatter` copies rows into the memory of their buckets, `gather` copies them out again.

A bucket is a run of 4-byte words, row after row: a head of h words (the bits of label, weight and group, 8 bytes each,
see `shuffle.head_of`), the number of values n, n indices, n values (the bits of a float32).
"""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# scatter(row, bucket_of (n,), head (n, h) int32, indptr (n + 1,), indices (nnz,) int32, values (nnz,) int32,
#         slot (buckets,), memory (slots, words) int32, used (buckets,), rows (buckets,)) -> row
# Puts the rows from `row` on into their buckets: bucket b is memory[slot[b], :used[b]] and holds rows[b] rows. Changes
# memory, used and rows; returns the first row for which its bucket has no room, or n if all rows found room.


@njit(cache=True, nogil=True)
def scatter(
    row: int,
    bucket_of: Array,
    head: Array,
    indptr: Array,
    indices: Array,
    values: Array,
    slot: Array,
    memory: Array,
    used: Array,
    rows: Array,
) -> int:
    h = head.shape[1]
    while row < bucket_of.shape[0]:
        bucket = bucket_of[row]
        first = indptr[row]
        length = indptr[row + 1] - first
        place = used[bucket]
        end = place + h + 1 + 2 * length
        if end > memory.shape[1]:
            return row
        words = memory[slot[bucket], place:end]
        for j in range(h):
            words[j] = head[row, j]
        words[h] = length
        for j in range(length):
            words[h + 1 + j] = indices[first + j]
        for j in range(length):
            words[h + 1 + length + j] = values[first + j]
        used[bucket] = end
        rows[bucket] += 1
        row += 1
    return row


# gather(words, order (n,), head (n, h) int32, indptr (n + 1,), indices (nnz,) int32, values (nnz,) int32): copies the
# n rows of the bucket `words` into the other arrays, row order[0] first. indptr[0] must be 0.


@njit(cache=True, nogil=True)
def gather(words: Array, order: Array, head: Array, indptr: Array, indices: Array, values: Array) -> None:
    h = head.shape[1]
    places = np.empty(order.shape[0], np.int64)
    place = 0
    for row in range(order.shape[0]):
        places[row] = place
        place += h + 1 + 2 * words[place + h]
    for row in range(order.shape[0]):
        place = places[order[row]]
        for j in range(h):
            head[row, j] = words[place + j]
        length = words[place + h]
        first = indptr[row]
        for j in range(length):
            indices[first + j] = words[place + h + 1 + j]
        for j in range(length):
            values[first + j] = words[place + h + 1 + length + j]
        indptr[row + 1] = first + length
