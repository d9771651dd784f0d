"""Applies maps at each visit of rows, in batches small enough for the processor's cache: these maps expand rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.features.maps import FeatureMaps, features_of
from streamsvm.storage.features.maps_kernel import gather_rows
from streamsvm.storage.features.rows import Features, Shape
from streamsvm.storage.rows.csr import INDPTR, Array, squared_norms
from streamsvm.storage.rows.segment import NORM, OFFSET, Segment

_VALUES = 1 << 17  # values of a batch: 1 MiB


@dataclass(frozen=True)
class Visited:
    """The feature maps that are applied at each visit of a row; there may be none."""

    maps: FeatureMaps

    def batches(self, rows: Segment, order: Array) -> Iterator[tuple[Segment, Array]]:
        """Yield the rows at the positions `order` (k,) int32, in this order, in batches of mapped rows.

        A batch is (segment, positions (m,) int32): visit the segment's rows at these positions, in this order.
        """
        if not len(self.maps):
            yield rows, order
            return
        lengths = np.diff(rows.indptr)[order].astype(np.int64)
        ends = np.cumsum(self.maps.most_values(lengths))
        begin = 0
        while begin < len(order):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _VALUES, "right")))
            batch = self.mapped(rows, order[begin:end], int(lengths[begin:end].sum()))
            yield batch, np.arange(end - begin, dtype=np.int32)
            begin = end

    def all_batches(self, rows: Segment) -> Iterator[Segment]:
        """Yield all rows in order, in batches of mapped rows."""
        if not len(self.maps):
            yield rows
            return
        for batch, _ in self.batches(rows, np.arange(len(rows), dtype=np.int32)):
            yield batch

    def mapped(self, rows: Segment, picked: Array, nnz: int) -> Segment:
        """Return the rows at the positions `picked` (k,) int32, mapped; nnz: number of their values before the maps."""
        unmapped = Features(
            np.empty(len(picked) + 1, INDPTR), np.empty(nnz, rows.indices.dtype), np.empty(nnz, rows.values.dtype)
        )
        gather_rows(picked, *rows.csr, *unmapped)
        return with_features(
            Segment(
                rows.row_id[picked], rows.class_code[picked], rows.fold[picked], rows.Qii[picked], *unmapped,
                _picked(rows.target, picked), _picked(rows.weight, picked),
            ),
            self.maps,
        )  # fmt: skip


UNMAPPED = Visited(FeatureMaps(Shape(0)))


def _picked(column: Array, picked: Array) -> Array:
    """Return the values at `picked` of an optional column; an empty column is returned unchanged."""
    return column[picked] if len(column) else column


def with_features(rows: Segment, maps: FeatureMaps) -> Segment:
    """Return the mapped rows, with their squared norms. Raises ValuesOverflow if a squared norm is not finite."""
    if not len(maps):
        return rows
    made = maps.apply(features_of(rows.indptr, rows.indices, rows.values))
    Qii = np.empty(len(rows), NORM)
    squared_norms(made.indptr, made.values, Qii)
    if not np.isfinite(Qii).all():
        raise ValuesOverflow("the features that maps make")
    return replace(rows, Qii=Qii, indptr=made.indptr.astype(OFFSET), indices=made.indices, values=made.values)
