"""The inner loops that find the labels of lines of documents."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

_MOST = 7  # bytes of a short one: the eighth is its length

# first_of(byte, text (n,) uint8, spans (k, 2), found (k,)): where the byte is first in text[begin:end], or end.
#
# short_keys(text, spans (k, 2), keys (k,) uint64) -> whether all spans are short: then equal ones, and no others, have
# equal keys.


@njit(cache=True, nogil=True)
def first_of(byte: int, text: Array, spans: Array, found: Array) -> None:
    for k in range(spans.shape[0]):
        p, end = np.uint64(spans[k, 0]), np.uint64(spans[k, 1])
        while p < end and text[p] != byte:
            p += np.uint64(1)
        found[k] = p


@njit(cache=True, nogil=True)
def short_keys(text: Array, spans: Array, keys: Array) -> bool:
    for k in range(spans.shape[0]):
        begin, end = spans[k, 0], spans[k, 1]
        if end - begin > _MOST:
            return False
        key = np.uint64(end - begin)
        for p in range(begin, end):
            key = key << np.uint64(8) | np.uint64(text[p])
        keys[k] = key
    return True
