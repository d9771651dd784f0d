"""Counts how many rows have which length, and remembers the longest."""

import numpy as np

from streamsvm.storage.rows.csr import Array

MOST_LISTED = 10
_BINS = 33  # lengths below 2^32


class RowLengths:
    """Lengths of the rows of an input.

    rows     number of rows so far
    longest  (row, length) of the MOST_LISTED longest rows, the longest first, then by row; rows count from 1
    """

    def __init__(self) -> None:
        self.rows = 0
        self.longest: list[tuple[int, int]] = []
        self._counts = np.zeros(_BINS, np.int64)

    @property
    def most(self) -> int:
        """Length of the longest row, 0 before the first."""
        return self.longest[0][1] if self.longest else 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of rows of length 0, of 1, of 2 or 3, of 4 to 7, and so on to the longest."""
        return tuple(np.trim_zeros(self._counts, "b").tolist())

    def add(self, lengths: Array) -> None:
        """Count the next rows, which have these lengths (k,)."""
        # frexp gives the exponent 0 for 0, 1 for 1, 2 for 2 and 3.
        self._counts += np.bincount(np.frexp(lengths)[1], minlength=_BINS)
        beaten = self.longest[-1][1] if len(self.longest) == MOST_LISTED else -1
        longer = np.flatnonzero(lengths > beaten)
        longer = longer[np.argsort(-lengths[longer], kind="stable")[:MOST_LISTED]]
        rows = (longer + self.rows + 1).tolist()
        both = [*self.longest, *zip(rows, lengths[longer].tolist(), strict=True)]
        self.longest = sorted(both, key=lambda row: (-row[1], row[0]))[:MOST_LISTED]
        self.rows += len(lengths)
