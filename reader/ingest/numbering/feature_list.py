"""Lists features in the order in which they occur; memory grows with their count, not with their numbers."""

import numpy as np

from streamsvm.reader.ingest.numbering.renumber_kernel import PAGE, PAGE_BITS, count_listed, enter, renumber_listed
from streamsvm.storage.rows.csr import INDEX, Array

_FEWEST = 1 << 10


class FeatureList:
    """Takes about 8 bytes a feature where numbers lie together, 70 where they are far apart, and up to 32 MiB more.

    One thread enters features. Other threads may meanwhile apply the list to rows whose features are entered already.

    start  features below it are not listed
    """

    def __init__(self, start: int = 0, features: Array | None = None) -> None:
        self.start = start
        self._directory = np.zeros(0, INDEX)
        self._pages = np.zeros((_FEWEST, PAGE), INDEX)
        self._features = np.zeros(_FEWEST, INDEX)
        self._ends = np.zeros(2, np.int64)
        if features is not None:
            self.enter(features)

    def __len__(self) -> int:
        return int(self._ends[1])

    @property
    def features(self) -> Array:
        """The listed features' numbers in the input, (m,) int32."""
        return self._features[: len(self)]

    def enter(self, indices: Array) -> None:
        """List the features (nnz,) that are not listed yet."""
        largest = int(indices.max(initial=-1))
        if largest < self.start:
            return
        needed = (largest >> PAGE_BITS) + 1
        if needed > len(self._directory):
            self._directory = grown(self._directory, max(needed, 2 * len(self._directory)))
        while True:
            done = enter(indices, self.start, self._directory, self._pages, self._features, self._ends)
            if done == len(indices):
                return
            indices = indices[done:]
            if self._ends[0] == len(self._pages):
                self._pages = grown(self._pages, 2 * len(self._pages))
            if self._ends[1] == len(self._features):
                self._features = grown(self._features, 2 * len(self._features))

    def count(self, indices: Array, counts: Array) -> None:
        """Add one to counts (m,) for each index (nnz,) from `start` on, all of which are listed."""
        if len(self):
            count_listed(indices, self.start, self._directory, self._pages, counts)

    def apply(self, indices: Array) -> None:
        """Replace the k-th listed feature by start + k, in place."""
        if len(self):
            renumber_listed(indices, self.start, self._directory, self._pages)


def grown(array: Array, length: int) -> Array:
    """The array, made longer with zeros."""
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
