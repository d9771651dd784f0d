"""How features are numbered in blocks, so that a weight vector is short, and the part of it that is used all the time
lies together and stays in the processor's cache.

Features are counted in the rows that come before the first piece is written, about 64 MiB of them, and numbered by
frequency from then on. Where they are far apart they are listed: only those that occur have a number. Else only those
are listed that come later and are beyond all that had occurred by then, and more.
"""

from dataclasses import dataclass, field

import numpy as np

from streamsvm.reader.ingest.numbering.feature_list import FeatureList, grown
from streamsvm.reader.ingest.numbering.renumber_kernel import count, renumber
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import DENSE_WIDTH, INDEX, LARGE_W, Array

MOST_LISTED = 20
_SPARSE = 8  # so many weights for each feature that occurs are not too many
_UNBOUNDED = 1 << 62


@dataclass(frozen=True)
class Numbering:
    """
    places  (d,) int32: feature f of the input is places[f] in the dataset; None if nothing is renumbered, for a w this
            short stays in the cache as it is
    bound   features from here on are listed, the k-th of them, `listed` (m,) int32, is bound + k in the dataset. Others
            that are not renumbered keep their numbers
    frequent  (feature, rows that have it) of the most frequent features, in `counted_rows`
    """

    places: Array | None = None
    bound: int = _UNBOUNDED
    listed: Array = field(default_factory=lambda: np.zeros(0, INDEX))
    frequent: tuple[tuple[int, int], ...] = ()
    counted_rows: int = 0


class Renumbering:
    """`observe` rows, then `settle`; `enter` rows from then on; then `apply` to all of them, on any thread.

    frequent      (feature, rows that have it) of the most frequent features, in rows observed
    counted_rows  rows observed
    increasing    whether indices increase in each row after `apply`
    """

    def __init__(self) -> None:
        # While features are counted: of those below DENSE_WIDTH, and of those listed.
        self._counts = self._counts_listed = np.zeros(0, np.int64)
        self._list = FeatureList(DENSE_WIDTH)
        self._are_features = True
        self._largest = -1
        self._bound = _UNBOUNDED
        self._places: Array | None = None
        self.is_settled = False
        self.frequent: tuple[tuple[int, int], ...] = ()
        self.counted_rows = 0

    @classmethod
    def known(cls, numbering: Numbering, largest: int = -1) -> "Renumbering":
        """A numbering that was settled before; largest: the largest feature so far that is not listed."""
        own = cls()
        own.is_settled, own._largest = True, largest
        own._places, own._bound = numbering.places, numbering.bound
        own._list = FeatureList(numbering.bound, numbering.listed)
        return own

    @property
    def numbering(self) -> Numbering:
        """The settled numbering, with the features that were listed since."""
        return Numbering(self._places, self._bound, self._list.features, self.frequent, self.counted_rows)

    def own_width(self, input_width: int) -> int:
        """`Manifest.own_width` of the rows that came, whose features are below `input_width` in the input."""
        if len(self._list):
            return self._bound + len(self._list)
        return 0 if input_width <= self._bound or not self._are_features else max(1, self._largest + 1)

    @property
    def increasing(self) -> bool:
        return self._are_features and self._places is None and not len(self._list)

    def leave(self) -> None:
        """Indices of these rows are no features but bits of strings: they are not counted, and stay as they are."""
        self.is_settled, self._are_features = True, False

    def observe(self, indices: Array, n_rows: int) -> None:
        """Count the features (nnz,) of so many rows."""
        self.counted_rows += n_rows
        self._list.enter(indices)
        if len(self._list) > len(self._counts_listed):
            self._counts_listed = grown(self._counts_listed, 2 * len(self._list))
        length = min(int(indices.max(initial=-1)) + 1, DENSE_WIDTH)
        if length > len(self._counts):
            self._counts = grown(self._counts, min(2 * length, DENSE_WIDTH))
        count(indices, self._counts)
        self._list.count(indices, self._counts_listed)

    def settle(self) -> None:
        """Number the features."""
        self.is_settled = True
        dense, beyond = np.flatnonzero(self._counts), np.argsort(self._list.features)
        features = np.concatenate((dense, self._list.features[beyond])).astype(INDEX)
        counts = np.concatenate((self._counts[dense], self._counts_listed[beyond]))
        order = np.argsort(-counts, kind="stable")
        first = order[:MOST_LISTED]
        self.frequent = tuple(zip(features[first].tolist(), counts[first].tolist(), strict=True))
        by_frequency, length = features[order], int(features.max(initial=-1)) + 1
        most = max(DENSE_WIDTH, _SPARSE * len(features))
        if length > most:
            self._bound, self._list = 0, FeatureList(0, by_frequency)
        else:
            self._bound, self._list, self._largest = most, FeatureList(most), length - 1
            self._places = _places(by_frequency, length) if length > LARGE_W else None
        self._counts = self._counts_listed = np.zeros(0, np.int64)

    def enter(self, indices: Array) -> None:
        """Rows with these features (nnz,) have come: those that are to be listed are from now on."""
        if not self._are_features:
            return
        largest = int(indices.max(initial=-1))
        if largest >= self._bound:
            self._list.enter(indices)
            largest = int(indices.max(initial=-1, where=indices < self._bound))
        self._largest = max(self._largest, largest)

    def apply(self, indices: Array) -> None:
        """Renumber these (nnz,), in place."""
        if not self._are_features:
            return
        if self._places is not None:
            renumber(indices, self._places)
        self._list.apply(indices)


def _places(by_frequency: Array, length: int) -> Array:
    """The place of each feature: those that occur come first, all others follow in their order."""
    others = np.ones(length, bool)
    others[by_frequency] = False
    places = np.empty(length, INDEX)
    places[np.concatenate((by_frequency, np.flatnonzero(others)))] = np.arange(length, dtype=INDEX)
    return places


def numbering_of(dataset: Dataset) -> Numbering:
    """How a dataset that is there has numbered its features: further ones are listed behind all it has."""
    manifest = dataset.manifest
    places = dataset.places() if manifest.renumbered else None
    if manifest.listed:
        return Numbering(places, manifest.width - manifest.listed, dataset.listed())
    return Numbering(places, max(DENSE_WIDTH, manifest.width))
