"""Numbers the features anew for the blocks, so that a weight vector is short and its busy part stays in the cache.

Features of tables whose columns have names are numbered by the names, so that blocks, and the weights that training
computes, do not depend on how columns stand. A long w is numbered otherwise:
features are counted in the rows before the first written piece, about 64 MiB, and then numbered by frequency. Where
their numbers are far apart, all features are listed: only those that occur get a number. Otherwise only features are
listed that come later and lie beyond a bound above all earlier ones.
"""

from dataclasses import dataclass, field

import numpy as np

from streamsvm.reader.ingest.numbering.renumber_kernel import (
    PAGE,
    PAGE_BITS,
    count,
    enter,
    renumber,
    renumber_listed,
)
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import DENSE_WIDTH, INDEX, LARGE_W, Array

MOST_LISTED = 20
_SPARSE = 8  # weights that may be stored for each feature that occurs
_UNBOUNDED = 1 << 62
_FEWEST = 1 << 10


@dataclass(frozen=True)
class Numbering:
    """Maps features of the input to features of the blocks.

    places    (d,) int32: feature f of the input is places[f] in the blocks; None: nothing is renumbered, since such a
              short w stays in the cache anyway. Up to LARGE_W places are those of the columns' names
    bound     features from here on are listed; others that are not renumbered keep their numbers
    listed    (m,) int32: the k-th of these features is bound + k in the blocks
    frequent  (feature, rows that have it) of the most frequent features in the first `counted_rows` rows
    """

    places: Array | None = None
    bound: int = _UNBOUNDED
    listed: Array = field(default_factory=lambda: np.zeros(0, INDEX))
    frequent: tuple[tuple[int, int], ...] = ()
    counted_rows: int = 0


class Renumbering:
    """Call `observe` with the first rows, then `settle`, and `enter` with all later rows. `apply` works on any thread.

    in_rows       the places of the first features within rows, see `MatrixParser.feature_places`; set before `settle`
    frequent      (feature, rows that have it) of the most frequent features in the observed rows
    counted_rows  number of observed rows
    increasing    whether indices increase in each row after `apply`
    """

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)  # before `settle`, of features below DENSE_WIDTH
        self._list = FeatureList(DENSE_WIDTH, counts=True)
        self._are_features = True
        self._largest = -1
        self._bound = _UNBOUNDED
        self._places: Array | None = None
        self.in_rows: Array | None = None
        self.is_settled = False
        self.frequent: tuple[tuple[int, int], ...] = ()
        self.counted_rows = 0

    @classmethod
    def from_numbering(cls, numbering: Numbering, largest: int = -1) -> "Renumbering":
        """Go on with a settled numbering; `largest` is the largest feature so far that is not listed."""
        renumbering = cls()
        renumbering.is_settled, renumbering._largest = True, largest
        renumbering._places, renumbering._bound = numbering.places, numbering.bound
        renumbering._list = FeatureList(numbering.bound, numbering.listed)
        return renumbering

    @property
    def numbering(self) -> Numbering:
        """The settled numbering, with all features listed since."""
        return Numbering(self._places, self._bound, self._list.features, self.frequent, self.counted_rows)

    def own_width(self, input_width: int) -> int:
        """`Manifest.own_width` of the entered rows, whose features are below `input_width` in the input."""
        if len(self._list):
            return self._bound + len(self._list)
        return 0 if input_width <= self._bound or not self._are_features else max(1, self._largest + 1)

    @property
    def increasing(self) -> bool:
        is_by_frequency = self._places is not None and len(self._places) > LARGE_W
        return self._are_features and not is_by_frequency and not len(self._list)

    def leave(self) -> None:
        """Leave all indices as they are: the rows are strings, whose indices are packed letters."""
        self.is_settled, self._are_features = True, False

    def observe(self, indices: Array, n_rows: int) -> None:
        """Count the features (nnz,) of `n_rows` rows."""
        self.counted_rows += n_rows
        self._list.enter(indices)
        length = min(int(indices.max(initial=-1)) + 1, DENSE_WIDTH)
        if length > len(self._counts):
            self._counts = grown(self._counts, min(2 * length, DENSE_WIDTH))
        count(indices, self._counts)

    def settle(self) -> None:
        """Number the features by what was counted."""
        self.is_settled = True
        dense, beyond = np.flatnonzero(self._counts), np.argsort(self._list.features)
        features = np.concatenate((dense, self._list.features[beyond])).astype(INDEX)
        counts = np.concatenate((self._counts[dense], self._list.counts[beyond]))
        length = max(int(features.max(initial=-1)) + 1, 0 if self.in_rows is None else len(self.in_rows))
        in_rows, below = self._order(features), counts.max(initial=0) - counts
        small = below.astype(np.min_scalar_type(below.max(initial=0)))  # numpy sorts it by radix
        order = in_rows[np.argsort(small[in_rows], kind="stable")]
        first = order[:MOST_LISTED]
        self.frequent = tuple(zip(features[first].tolist(), counts[first].tolist(), strict=True))
        by_frequency = features[order]
        most = max(DENSE_WIDTH, _SPARSE * len(features))
        if length > most:
            self._bound, self._list = 0, FeatureList(0, by_frequency)
        else:
            self._bound, self._list, self._largest = most, FeatureList(most), length - 1
            self._places = self.in_rows if length <= LARGE_W else self._by_frequency(by_frequency, length)
        self._counts = np.zeros(0, np.int64)

    def _order(self, features: Array) -> Array:
        """Puts increasing features (m,) into the order of their places within rows."""
        if self.in_rows is None:
            return np.arange(len(features))
        is_first = features < len(self.in_rows)
        return np.argsort(np.where(is_first, self.in_rows[np.where(is_first, features, 0)], features))

    def _by_frequency(self, by_frequency: Array, length: int) -> Array:
        """(length,): the new number of each feature; features that occur come first, all others as they do in rows."""
        others = np.ones(length, bool)
        others[by_frequency] = False
        rest = np.flatnonzero(others)
        places = np.empty(length, INDEX)
        order = np.concatenate((by_frequency, rest[self._order(rest)]))
        places[order] = np.arange(length, dtype=INDEX)
        return places

    def enter(self, indices: Array) -> None:
        """List the features (nnz,) of further rows, as far as they lie beyond the bound."""
        if not self._are_features:
            return
        largest = int(indices.max(initial=-1))
        if largest >= self._bound:
            self._list.enter(indices)
            largest = int(indices.max(initial=-1, where=indices < self._bound))
        self._largest = max(self._largest, largest)

    def apply(self, indices: Array) -> None:
        """Renumber indices (nnz,) in place."""
        if not self._are_features:
            return
        if self._places is not None:
            renumber(indices, self._places)
        self._list.apply(indices)


def numbering_of(dataset: Dataset) -> Numbering:
    """The numbering of a dataset, for more rows of it; new features beyond its bound go into a FeatureList."""
    manifest = dataset.manifest
    places = dataset.places() if manifest.renumbered else None
    if manifest.listed:
        return Numbering(places, manifest.width - manifest.listed, dataset.listed())
    return Numbering(places, max(DENSE_WIDTH, manifest.width))


class FeatureList:
    """Takes about 8 bytes a feature where numbers lie together, 70 where they are far apart, and up to 32 MiB more.

    One thread enters features. Other threads may meanwhile apply the list to rows whose features are entered already.

    start   features below it are not listed
    counts  how often each listed feature was entered, with further room; (0,): nobody counts
    """

    def __init__(self, start: int = 0, features: Array | None = None, *, counts: bool = False) -> None:
        self.start = start
        self.counts = np.zeros(_FEWEST * counts, np.int64)
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
            done = enter(indices, self.start, self._directory, self._pages, self._features, self.counts, self._ends)
            if done == len(indices):
                return
            indices = indices[done:]
            if self._ends[0] == len(self._pages):
                self._pages = grown(self._pages, 2 * len(self._pages))
            if self._ends[1] == len(self._features):
                self._features = grown(self._features, 2 * len(self._features))
                self.counts = grown(self.counts, 2 * len(self.counts))

    def apply(self, indices: Array) -> None:
        """Replace the k-th listed feature by start + k, in place."""
        if len(self):
            renumber_listed(indices, self.start, self._directory, self._pages)


def grown(array: Array, length: int) -> Array:
    """The array, made longer with zeros."""
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
