"""Inner loops of `renumber`: they count, list and renumber features."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array

_AHEAD, _NEARER = 32, 16
# A page covers PAGE consecutive features and is one cache line. directory[f >> PAGE_BITS] is the number of the page of
# feature f, counted from 1; 0 if there is no page for f yet.
PAGE_BITS = 4
PAGE = 1 << PAGE_BITS


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
