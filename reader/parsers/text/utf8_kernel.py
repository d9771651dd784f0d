"""Reads and writes UTF-8, one code point at a time."""

from typing import Any

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array


@njit(cache=True, nogil=True)
def code_at(text: Array, p: int) -> tuple[Any, int]:
    """The code point at p, and where the next one begins."""
    c = np.int64(text[p])
    if c < 0x80:
        return c, p + 1
    if c < 0xE0:
        return (c & 0x1F) << 6 | np.int64(text[p + 1] & 0x3F), p + 2
    if c < 0xF0:
        return (c & 0x0F) << 12 | np.int64(text[p + 1] & 0x3F) << 6 | np.int64(text[p + 2] & 0x3F), p + 3
    high = (c & 0x07) << 18 | np.int64(text[p + 1] & 0x3F) << 12
    return high | np.int64(text[p + 2] & 0x3F) << 6 | np.int64(text[p + 3] & 0x3F), p + 4


@njit(cache=True, nogil=True)
def put(low: Array, q: int, code: Any) -> int:
    """Write a code point at q; return where the next one goes."""
    if code < 0x80:
        low[q] = code
        return q + 1
    if code < 0x800:
        low[q], low[q + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return q + 2
    if code < 0x10000:
        low[q], low[q + 1], low[q + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
        return q + 3
    low[q], low[q + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 0x3F
    low[q + 2], low[q + 3] = 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return q + 4
