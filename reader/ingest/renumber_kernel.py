"""Counting and renumbering features, the inner loops of `renumber`."""

from numba import njit

from storage.csr import Array
from storage.prefetch_kernel import prefetch

_AHEAD = 32

# count(indices (nnz,), counts (d,)): adds one to counts[f] for every index f; all are below d.


@njit(cache=True, nogil=True)
def count(indices: Array, counts: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(counts, indices[j + _AHEAD])
        counts[indices[j]] += 1


# renumber(indices (nnz,), places (d,)): index f becomes places[f], in place; those from d on stay as they are.


@njit(cache=True, nogil=True)
def renumber(indices: Array, places: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(places, indices[j + _AHEAD])
        if indices[j] < places.shape[0]:
            indices[j] = places[indices[j]]
