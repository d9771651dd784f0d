"""Byte shuffling and index differences, the inner loops of `codec`."""

from numba import njit

from storage.csr import Array

# split_bytes(data (n * size,) uint8, size, planes (n * size,) uint8): planes[b * n + i] = byte b of item i.
# join_bytes is its inverse. `planes` or `data` is filled in place.


@njit(cache=True, nogil=True)
def split_bytes(data: Array, size: int, planes: Array) -> None:
    count = data.shape[0] // size
    for byte in range(size):
        for i in range(count):
            planes[byte * count + i] = data[i * size + byte]


@njit(cache=True, nogil=True)
def join_bytes(planes: Array, size: int, data: Array) -> None:
    count = data.shape[0] // size
    for byte in range(size):
        for i in range(count):
            data[i * size + byte] = planes[byte * count + i]


# split_indices(indices (nnz,) int32, indptr (n_rows + 1,), planes (4 * nnz,) uint8): the difference of each index from
# the one before it in its row (the first from 0), as four byte planes. join_indices is its inverse.


@njit(cache=True, nogil=True)
def split_indices(indices: Array, indptr: Array, planes: Array) -> None:
    count = indices.shape[0]
    for row in range(indptr.shape[0] - 1):
        previous = 0
        for j in range(indptr[row], indptr[row + 1]):
            difference = indices[j] - previous
            previous = indices[j]
            planes[j] = difference & 0xFF
            planes[count + j] = (difference >> 8) & 0xFF
            planes[2 * count + j] = (difference >> 16) & 0xFF
            planes[3 * count + j] = (difference >> 24) & 0xFF


@njit(cache=True, nogil=True)
def join_indices(planes: Array, indptr: Array, indices: Array) -> None:
    count = indices.shape[0]
    for row in range(indptr.shape[0] - 1):
        index = 0
        for j in range(indptr[row], indptr[row + 1]):
            index += (
                int(planes[j])
                | (int(planes[count + j]) << 8)
                | (int(planes[2 * count + j]) << 16)
                | (int(planes[3 * count + j]) << 24)
            )
            indices[j] = index
