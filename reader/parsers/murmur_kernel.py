"""MurmurHash3 of bytes.

Source: A. Appleby, MurmurHash3 (MurmurHash3_x86_32), public domain.
"""

from typing import Any

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import four_bytes
from streamsvm.storage.rows.csr import Array

_MASK = np.uint64(0xFFFFFFFF)
_C1, _C2 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593)
_M1, _M2 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_FIVE, _ADDED = np.uint64(5), np.uint64(0xE6546B64)
_8, _13, _15, _16, _17, _19 = (np.uint64(bits) for bits in (8, 13, 15, 16, 17, 19))


_LAST = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint64)  # masks for the last 0 to 3 bytes


@njit(cache=True, nogil=True)
def _mixed_in(h: Any, k: Any) -> Any:
    """Return the hash h with up to four bytes mixed in, which are the number k; k = 0 leaves h unchanged."""
    k = (k * _C1) & _MASK
    k = ((k << _15) | (k >> _17)) & _MASK
    return h ^ ((k * _C2) & _MASK)


@njit(cache=True, nogil=True)
def _next(h: Any) -> Any:
    h = ((h << _13) | (h >> _19)) & _MASK
    return (h * _FIVE + _ADDED) & _MASK


@njit(cache=True, nogil=True)
def _signed(h: Any, length: Any) -> Any:
    h ^= length
    h ^= h >> _16
    h = (h * _M1) & _MASK
    h ^= h >> _13
    h = (h * _M2) & _MASK
    h ^= h >> _16
    signed = np.int64(h)
    return signed - 4294967296 if signed >= 2147483648 else signed


@njit(cache=True, nogil=True)
def murmur(data: Array, begin: int, end: int, seed: int) -> Any:
    """Return MurmurHash3 of data[begin:end] as a signed 32-bit integer."""
    h = np.uint64(seed)
    p = begin
    while p + 4 <= end:
        h = _next(_mixed_in(h, four_bytes(data, p)))
        p += 4
    k, shift = np.uint64(0), np.uint64(0)
    while p < end:
        k |= np.uint64(data[p]) << shift
        shift += _8
        p += 1
    return _signed(_mixed_in(h, k), np.uint64(end - begin))


@njit(cache=True, nogil=True)
def murmur_within(data: Array, begin: int, end: int) -> Any:
    """Return `murmur` with seed 0. data must have three bytes or more behind `end`: the last bytes need no branch."""
    h = np.uint64(0)
    p = begin
    while p + 4 <= end:
        h = _next(_mixed_in(h, four_bytes(data, p)))
        p += 4
    k = four_bytes(data, p) & _LAST[end - p]
    return _signed(_mixed_in(h, k), np.uint64(end - begin))
