"""MurmurHash3, as feature hashing uses it."""

from typing import Any

import numpy as np
from numba import njit

from storage.csr import Array

# murmur(text (n,) uint8, begin, end, seed) -> int64: MurmurHash3_x86_32 (A. Appleby, public domain) of
# text[begin:end], read as a signed number of 32 bits.


@njit(cache=True, nogil=True)
def murmur(text: Array, begin: int, end: int, seed: int) -> Any:
    h = np.uint32(seed)
    tail = begin + (end - begin) // 4 * 4
    for p in range(begin, tail, 4):
        h ^= scrambled(
            np.uint32(text[p])
            | np.uint32(text[p + 1]) << np.uint32(8)
            | np.uint32(text[p + 2]) << np.uint32(16)
            | np.uint32(text[p + 3]) << np.uint32(24)
        )
        h = np.uint32(h << np.uint32(13)) | np.uint32(h >> np.uint32(19))
        h = np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))
    k = np.uint32(0)
    for p in range(end - 1, tail - 1, -1):
        k = np.uint32(k << np.uint32(8)) | np.uint32(text[p])
    if end > tail:
        h ^= scrambled(k)
    h ^= np.uint32(end - begin)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.int64(np.int32(h ^ (h >> np.uint32(16))))


@njit(cache=True, nogil=True)
def scrambled(k: Any) -> Any:
    k = np.uint32(k * np.uint32(0xCC9E2D51))
    k = np.uint32(k << np.uint32(15)) | np.uint32(k >> np.uint32(17))
    return np.uint32(k * np.uint32(0x1B873593))
