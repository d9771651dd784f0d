"""MurmurHash3 of bytes.

Source: A. Appleby, MurmurHash3 (MurmurHash3_x86_32), public domain.
"""

from typing import Any

import numpy as np
from numba import njit

from storage.csr import Array

_MASK = np.uint64(0xFFFFFFFF)
_C1, _C2 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593)
_M1, _M2 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_FIVE, _ADDED = np.uint64(5), np.uint64(0xE6546B64)
_8, _13, _15, _16, _17, _19, _24 = (np.uint64(bits) for bits in (8, 13, 15, 16, 17, 19, 24))


@njit(cache=True, nogil=True)
def murmur(data: Array, begin: int, end: int, seed: int) -> Any:
    """MurmurHash3 of data[begin:end], signed."""
    h = np.uint64(seed)
    p = begin
    while p + 4 <= end:
        k = np.uint64(data[p]) | np.uint64(data[p + 1]) << _8
        k |= np.uint64(data[p + 2]) << _16 | np.uint64(data[p + 3]) << _24
        k = (k * _C1) & _MASK
        k = ((k << _15) | (k >> _17)) & _MASK
        h ^= (k * _C2) & _MASK
        h = ((h << _13) | (h >> _19)) & _MASK
        h = (h * _FIVE + _ADDED) & _MASK
        p += 4
    if p < end:
        k = np.uint64(data[p])
        if p + 1 < end:
            k |= np.uint64(data[p + 1]) << _8
        if p + 2 < end:
            k |= np.uint64(data[p + 2]) << _16
        k = (k * _C1) & _MASK
        k = ((k << _15) | (k >> _17)) & _MASK
        h ^= (k * _C2) & _MASK
    h ^= np.uint64(end - begin)
    h ^= h >> _16
    h = (h * _M1) & _MASK
    h ^= h >> _13
    h = (h * _M2) & _MASK
    h ^= h >> _16
    signed = np.int64(h)
    return signed - 4294967296 if signed >= 2147483648 else signed
