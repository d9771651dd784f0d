"""w made anew from alpha: what several threads have lost of it by adding to it without locks comes back."""

from queue import SimpleQueue

import numpy as np

from storage.csr import Array, add_rows
from storage.segment import Segment

_MOST_BYTES = 1 << 28  # of vectors beside each other; with fewer of them threads take turns


class WeightsAnew:
    """`add` every row once, from any thread, then take the `total`: sum_i alpha_i y_i x_i, (width,)."""

    def __init__(self, width: int, threads: int) -> None:
        count = max(1, min(threads, _MOST_BYTES // (8 * width)))
        self._sums = [np.zeros(width) for _ in range(count)]
        self._free: SimpleQueue[Array] = SimpleQueue()
        for one in self._sums:
            self._free.put(one)

    def add(self, rows: Segment, alpha: Array) -> None:
        """These rows; alpha (n_rows,) by row id."""
        own = self._free.get()
        try:
            add_rows(alpha[rows.row_id] * rows.y, rows.indptr, rows.indices, rows.values, own)
        finally:
            self._free.put(own)

    def total(self) -> Array:
        """Of all rows added."""
        total = self._sums[0]
        for one in self._sums[1:]:
            total += one
        return total
