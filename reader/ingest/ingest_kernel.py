"""Inner loops of `shuffle`: they copy rows into the memory of their buckets, and out of it again; and of `renumber`.

A bucket is a run of 4-byte words, row after row: a head of h words (the bits of label, weight and group, 8 bytes each,
see `shuffle.head_of`), the number of values n, n indices, n values (the bits of a float32).
"""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array

_AHEAD, _NEARER = 32, 16
# A page covers PAGE consecutive features and is one cache line. directory[f >> PAGE_BITS] is the number of the page of
# feature f, counted from 1; 0 if there is no page for f yet.
PAGE_BITS = 4
PAGE = 1 << PAGE_BITS

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


# enter(indices (nnz,), start, directory, pages (n, PAGE), features (m,), hits (m,) or (0,), ends (2,)): lists each
# feature f >= start that is not listed yet. The k-th listed feature is written to features[k - 1], and k to its page;
# hits[k - 1] counts its occurrences. ends: pages and features in use. Returns nnz, or the position in `indices` where
# `pages` or `features` was full.


@njit(cache=True, nogil=True)
def enter(indices: Array, start: int, directory: Array, pages: Array, features: Array, hits: Array, ends: Array) -> int:
    for j in range(indices.shape[0]):
        f = indices[j]
        if j + _AHEAD < indices.shape[0] and indices[j + _AHEAD] >= start:
            prefetch(directory, indices[j + _AHEAD] >> PAGE_BITS)
        if j + _NEARER < indices.shape[0] and indices[j + _NEARER] >= start:
            prefetch(pages, (directory[indices[j + _NEARER] >> PAGE_BITS] - 1) * PAGE)
        if f < start:
            continue
        page = directory[f >> PAGE_BITS]
        if page == 0:
            if ends[0] == pages.shape[0]:
                return j
            ends[0] += 1
            page = directory[f >> PAGE_BITS] = ends[0]
        if pages[page - 1, f & (PAGE - 1)] == 0:
            if ends[1] == features.shape[0]:
                return j
            features[ends[1]] = f
            ends[1] += 1
            pages[page - 1, f & (PAGE - 1)] = ends[1]
        if hits.shape[0]:
            hits[pages[page - 1, f & (PAGE - 1)] - 1] += 1
    return indices.shape[0]


# count(indices (nnz,), counts (d,)): adds one to counts[f] for every index f below d.


@njit(cache=True, nogil=True)
def count(indices: Array, counts: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(counts, indices[j + _AHEAD])
        if indices[j] < counts.shape[0]:
            counts[indices[j]] += 1


# renumber(indices (nnz,), places (d,)): replaces index f < d by places[f], in place; an index >= d stays as it is.


@njit(cache=True, nogil=True)
def renumber(indices: Array, places: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(places, indices[j + _AHEAD])
        if indices[j] < places.shape[0]:
            indices[j] = places[indices[j]]


# renumber_listed(indices (nnz,), start, directory, pages): replaces the k-th feature of the list, k from 1, by
# start + k - 1, in place; an index below `start` stays as it is.


@njit(cache=True, nogil=True)
def renumber_listed(indices: Array, start: int, directory: Array, pages: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0] and indices[j + _AHEAD] >= start:
            prefetch(directory, indices[j + _AHEAD] >> PAGE_BITS)
        f = indices[j]
        if f >= start:
            indices[j] = np.int32(start + pages[directory[f >> PAGE_BITS] - 1, f & (PAGE - 1)] - 1)
