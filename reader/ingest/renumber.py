"""Frequent features first: the part of w that is used all the time lies together and stays in the processor's cache.

Features are counted in the rows that come before the first piece is written, about 64 MiB of them, and numbered by
frequency from then on. Features that had not occurred by then keep their numbers.
"""

import numpy as np

from reader.ingest.renumber_kernel import count, renumber
from storage.csr import INDEX, LARGE_W, Array

MOST_LISTED = 20


class Renumbering:
    """`observe` rows, then `settle`, then `apply` to all of them.

    places        (d,) int32: feature f of the input is places[f] in the dataset; None if nothing is renumbered, for a w
                  this short stays in the cache as it is
    frequent      (feature, rows that have it) of the most frequent features, in rows observed
    counted_rows  rows observed
    increasing    whether indices increase in each row after `apply`
    """

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._are_features = True
        self.is_settled = False
        self.places: Array | None = None
        self.frequent: tuple[tuple[int, int], ...] = ()
        self.counted_rows = 0

    @classmethod
    def known(cls, places: Array | None) -> "Renumbering":
        """As it was settled before."""
        renumbering = cls()
        renumbering.places, renumbering.is_settled = places, True
        return renumbering

    @property
    def increasing(self) -> bool:
        return self._are_features and self.places is None

    def leave(self) -> None:
        """Indices of these rows are no features but bits of strings: they are not counted, and stay as they are."""
        self.is_settled, self._are_features = True, False

    def observe(self, indices: Array, n_rows: int) -> None:
        """Count the features (nnz,) of so many rows."""
        self.counted_rows += n_rows
        length = int(indices.max(initial=-1)) + 1
        if length > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros(2 * length - len(self._counts), np.int64)))
        count(indices, self._counts)

    def settle(self) -> None:
        """Number the features."""
        self.is_settled = True
        seen = np.flatnonzero(self._counts)
        length = int(seen[-1]) + 1 if len(seen) else 0
        by_frequency = np.argsort(-self._counts[:length], kind="stable")
        first = by_frequency[: min(MOST_LISTED, len(seen))]
        self.frequent = tuple(zip(first.tolist(), self._counts[first].tolist(), strict=True))
        if length > LARGE_W:
            self.places = np.empty(length, INDEX)
            self.places[by_frequency] = np.arange(length, dtype=INDEX)
        self._counts = np.zeros(0, np.int64)

    def apply(self, indices: Array) -> None:
        """Renumber these (nnz,), in place."""
        if self.places is not None:
            renumber(indices, self.places)
