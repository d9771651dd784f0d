"""Chooses the rows of lowest score without sorting all rows: the inner loop of `repack`."""

from typing import Any

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

INFINITE = 0xFF800000  # the key of +inf
_END = 1 << 32  # above every key


@njit(cache=True, nogil=True)
def key(bits: Any) -> Any:
    """Turn the bits of a float32 (int32, widened to int64) into an integer in 0 .. 2^32 - 1 of the same order."""
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) + 0x80000000


# best_rows(bits (n,) int32: scores (float32), size, segment (n,), room, chosen (n,) bool, worth (n_segments,)):
# chooses the rows of lowest score that fit into `room` bytes; among equal scores the first rows; never a row of score
# +inf. Fills `chosen`, and adds the bytes of the chosen rows to `worth` by segment. Radix selection: three rounds look
# at 11, 11 and 10 bits of the key, each round within the interval of keys in which the room runs out.


@njit(cache=True, nogil=True)
def best_rows(bits: Array, size: Array, segment: Array, room: float, chosen: Array, worth: Array) -> None:
    n_rows = bits.shape[0]
    sums = np.zeros(2048, np.int64)
    remaining = np.int64(room)
    last = np.int64(0)  # leading bits of the key at which the room runs out
    shift = 32
    for width in (11, 11, 10):
        sums[:] = 0
        for i in range(n_rows):
            k = key(np.int64(bits[i]))
            if k >> shift == last:
                sums[(k >> (shift - width)) & ((1 << width) - 1)] += size[i]
        shift -= width
        interval = 0
        while interval < 1 << width and sums[interval] <= remaining:
            remaining -= sums[interval]
            interval += 1
        if interval == 1 << width:  # only in the first round: all rows fit
            last = np.int64(_END)
            break
        last = (last << width) + interval

    for i in range(n_rows):
        k = key(np.int64(bits[i]))
        chosen[i] = k < last and k != INFINITE
        if k == last and k != INFINITE and size[i] <= remaining:
            remaining -= size[i]
            chosen[i] = True
        if chosen[i]:
            worth[segment[i]] += size[i]
