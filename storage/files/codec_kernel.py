"""Byte shuffling and differences of indices: inner loops of `codec` and of blocks, which compile to vector code."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

# split_bytes(words (n,) unsigned of `size` bytes, planes (n * size,) uint8): planes[b * n + i] = byte b of word i.
# join_bytes is the inverse; it reads four planes at a time, so `size` is 4 or 8.


@njit(cache=True, nogil=True)
def split_bytes(words: Array, planes: Array) -> None:
    count = words.shape[0]
    for byte in range(words.itemsize):
        plane = planes[byte * count : (byte + 1) * count]
        shift = words.dtype.type(8 * byte)
        for i in range(count):
            plane[i] = words[i] >> shift


@njit(cache=True, nogil=True)
def join_bytes(planes: Array, words: Array) -> None:
    count = words.shape[0]
    for first in range(0, words.itemsize, 4):
        four = planes[first * count : (first + 4) * count]
        b0, b1, b2, b3 = four[:count], four[count : 2 * count], four[2 * count : 3 * count], four[3 * count :]
        shift = words.dtype.type(8 * first)
        for i in range(count):
            low = np.uint32(b0[i]) | np.uint32(b1[i]) << np.uint32(8)
            high = np.uint32(b2[i]) | np.uint32(b3[i]) << np.uint32(8)
            word = words.dtype.type(low | high << np.uint32(16))
            words[i] = word if first == 0 else words[i] | word << shift


# differences(indices (nnz,) int32, indptr (n_rows + 1,), out (nnz,) int32): out[j] = indices[j] - indices[j - 1] within
# a row; the first index of a row is copied. integrate(indptr, indices) is the inverse, in place.


@njit(cache=True, nogil=True)
def differences(indices: Array, indptr: Array, out: Array) -> None:
    for j in range(1, indices.shape[0]):
        out[j] = indices[j] - indices[j - 1]
    for row in range(indptr.shape[0] - 1):
        if indptr[row] < indptr[row + 1]:
            out[indptr[row]] = indices[indptr[row]]


@njit(cache=True, nogil=True)
def integrate(indptr: Array, indices: Array) -> None:
    for row in range(indptr.shape[0] - 1):
        index = 0
        for j in range(indptr[row], indptr[row + 1]):
            index += indices[j]
            indices[j] = index
