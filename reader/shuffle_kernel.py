"""The inner loops of `shuffle`: rows into the memory of their buckets, and out of it again.

A bucket is a run of 4-byte words, row after row: label (2 words, the bits of a float64), number of values n, n indices,
n values (the bits of a float32).
"""

import numpy as np
from numba import njit

from storage.csr import Array

ROW_WORDS = 3  # beside two for each value

# scatter(row, bucket_of (n,), label (n, 2) int32, indptr (n + 1,), indices (nnz,) int32, values (nnz,) int32,
#         slot (buckets,), memory (slots, words) int32, used (buckets,), rows (buckets,)) -> row
# Puts the rows from `row` on into their buckets: bucket b is memory[slot[b], :used[b]] and holds rows[b] rows. Changes
# memory, used and rows; returns the first row whose bucket has no room for it, n if there is none.


@njit(cache=True, nogil=True)
def scatter(
    row: int,
    bucket_of: Array,
    label: Array,
    indptr: Array,
    indices: Array,
    values: Array,
    slot: Array,
    memory: Array,
    used: Array,
    rows: Array,
) -> int:
    while row < bucket_of.shape[0]:
        bucket = bucket_of[row]
        first = indptr[row]
        length = indptr[row + 1] - first
        place = used[bucket]
        if place + ROW_WORDS + 2 * length > memory.shape[1]:
            return row
        words = memory[slot[bucket], place : place + ROW_WORDS + 2 * length]
        words[0] = label[row, 0]
        words[1] = label[row, 1]
        words[2] = length
        for j in range(length):
            words[ROW_WORDS + j] = indices[first + j]
        for j in range(length):
            words[ROW_WORDS + length + j] = values[first + j]
        used[bucket] = place + ROW_WORDS + 2 * length
        rows[bucket] += 1
        row += 1
    return row


# gather(words, order (n,), label (n, 2) int32, indptr (n + 1,), indices (nnz,) int32, values (nnz,) int32): the n rows
# of a bucket, the one at order[0] first. indptr[0] is 0 already.


@njit(cache=True, nogil=True)
def gather(words: Array, order: Array, label: Array, indptr: Array, indices: Array, values: Array) -> None:
    places = np.empty(order.shape[0], np.int64)
    place = 0
    for row in range(order.shape[0]):
        places[row] = place
        place += ROW_WORDS + 2 * words[place + 2]
    for row in range(order.shape[0]):
        place = places[order[row]]
        label[row, 0] = words[place]
        label[row, 1] = words[place + 1]
        length = words[place + 2]
        first = indptr[row]
        for j in range(length):
            indices[first + j] = words[place + ROW_WORDS + j]
        for j in range(length):
            values[first + j] = words[place + ROW_WORDS + length + j]
        indptr[row + 1] = first + length
