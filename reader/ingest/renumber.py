"""Renumbers features for the blocks, so that w is short and its frequent part stays in the processor's cache.

Features of tables with named columns are numbered in the order of the names: blocks, and the weights that training
computes, then do not depend on the order of the columns. If w is long, features are counted in the rows before the
first written piece, about 64 MiB, and then numbered by frequency. If their numbers are far apart, all features are
listed: only features that occur get a number. Otherwise a feature is listed only if it occurs later, and its number is
at least `bound`, which exceeds all features counted.
"""

from dataclasses import dataclass, field

import numpy as np

from streamsvm.reader.ingest.ingest_kernel import PAGE, PAGE_BITS, count, enter, renumber, renumber_listed
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import DENSE_WIDTH, INDEX, LARGE_W, Array

MOST_LISTED = 20
_SPARSE = 8  # most weights stored per feature that occurs: if w needed more, all features would be listed
_UNBOUNDED = 1 << 62
_FEWEST = 1 << 10


@dataclass(frozen=True)
class Numbering:
    """Maps features of the input to features of the blocks.

    places    (d,) int32: feature f < d of the input is feature places[f] of the blocks; None: features keep their
              numbers, since so short a w stays in the processor's cache. For d <= LARGE_W, the order of column names
    bound     a feature >= bound is listed; a feature < bound that `places` does not cover keeps its number
    listed    (m,) int32: feature listed[k] of the input is feature bound + k of the blocks
    frequent  (feature, number of rows with it) of the most frequent features in the first `counted_rows` rows
    """

    places: Array | None = None
    bound: int = _UNBOUNDED
    listed: Array = field(default_factory=lambda: np.zeros(0, INDEX))
    frequent: tuple[tuple[int, int], ...] = ()
    counted_rows: int = 0


class Renumbering:
    """Chooses a dataset's `Numbering`: `observe` first rows, `settle`, `enter` later rows. Any thread may call `apply`.

    in_rows       positions of features' values within rows (`Parser.feature_places`), to be set before `settle`
    frequent      (feature, number of rows with it) of the most frequent features in the observed rows
    counted_rows  number of observed rows
    increasing    whether feature numbers increase within each row after `apply`
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
        """Continue a settled numbering; `largest` is the largest feature so far that is not listed, -1 if none."""
        renumbering = cls()
        renumbering.is_settled, renumbering._largest = True, largest
        renumbering._places, renumbering._bound = numbering.places, numbering.bound
        renumbering._list = FeatureList(numbering.bound, numbering.listed)
        return renumbering

    @property
    def numbering(self) -> Numbering:
        """The settled numbering, with all features that `enter` has listed."""
        return Numbering(self._places, self._bound, self._list.features, self.frequent, self.counted_rows)

    def own_width(self, input_width: int) -> int:
        """Return `Manifest.own_width` of the entered rows; the input's feature numbers are below `input_width`."""
        if len(self._list):
            return self._bound + len(self._list)
        return 0 if input_width <= self._bound or not self._are_features else max(1, self._largest + 1)

    @property
    def increasing(self) -> bool:
        is_by_frequency = self._places is not None and len(self._places) > LARGE_W
        return self._are_features and not is_by_frequency and not len(self._list)

    def leave(self) -> None:
        """Change no index from now on: the rows are strings of bases, whose indices are packed letters."""
        self.is_settled, self._are_features = True, False

    def observe(self, indices: Array, n_rows: int) -> None:
        """Count how often each feature occurs in `indices` (nnz,), the features of `n_rows` rows."""
        self.counted_rows += n_rows
        self._list.enter(indices)
        length = min(int(indices.max(initial=-1)) + 1, DENSE_WIDTH)
        if length > len(self._counts):
            self._counts = grown(self._counts, min(2 * length, DENSE_WIDTH))
        count(indices, self._counts)

    def settle(self) -> None:
        """Choose the numbering of features from the counts."""
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
        """Return the order (m,) in which increasing features (m,) occur within rows."""
        if self.in_rows is None:
            return np.arange(len(features))
        is_first = features < len(self.in_rows)
        return np.argsort(np.where(is_first, self.in_rows[np.where(is_first, features, 0)], features))

    def _by_frequency(self, by_frequency: Array, length: int) -> Array:
        """Return each feature's new number (length,): first `by_frequency` in order, then the others in row order."""
        others = np.ones(length, bool)
        others[by_frequency] = False
        rest = np.flatnonzero(others)
        places = np.empty(length, INDEX)
        order = np.concatenate((by_frequency, rest[self._order(rest)]))
        places[order] = np.arange(length, dtype=INDEX)
        return places

    def enter(self, indices: Array) -> None:
        """List those features (nnz,) of further rows that are at or above the bound and are not listed yet."""
        if not self._are_features:
            return
        largest = int(indices.max(initial=-1))
        if largest >= self._bound:
            self._list.enter(indices)
            largest = int(indices.max(initial=-1, where=indices < self._bound))
        self._largest = max(self._largest, largest)

    def apply(self, indices: Array) -> None:
        """Replace the input's feature numbers `indices` (nnz,) by the blocks', in place."""
        if not self._are_features:
            return
        if self._places is not None:
            renumber(indices, self._places)
        self._list.apply(indices)


def numbering_of(dataset: Dataset) -> Numbering:
    """Return a dataset's numbering for rows to be added; new features at or above its bound will be listed."""
    manifest = dataset.manifest
    places = dataset.places() if manifest.renumbered else None
    if manifest.listed:
        return Numbering(places, manifest.width - manifest.listed, dataset.listed())
    return Numbering(places, max(DENSE_WIDTH, manifest.width))


class FeatureList:
    """Numbers features in the order in which they are entered. Takes up to 32 MiB, and 8 to 70 bytes a feature.

    One thread enters features. Other threads may meanwhile apply the list to rows whose features have all been entered.

    start   features below `start` are not listed
    counts  how often each listed feature was entered, longer than the list; (0,): occurrences are not counted
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
        """The listed features by their numbers in the input, (m,) int32, in the order in which they were listed."""
        return self._features[: len(self)]

    def enter(self, indices: Array) -> None:
        """List each of the features (nnz,) that is not below `start` and not listed yet."""
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
        """Replace features[k] by start + k in `indices` (nnz,), in place."""
        if len(self):
            renumber_listed(indices, self.start, self._directory, self._pages)


def grown(array: Array, length: int) -> Array:
    """Return a copy of the array with zeros appended along the first axis, up to `length`."""
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
