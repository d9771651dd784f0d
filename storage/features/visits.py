"""Rows as they are visited: the maps that expand are applied to a few of them at a time, in memory next to the core."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from streamsvm.storage.errors import ValuesOverflow
from streamsvm.storage.features.gather_kernel import gather_rows
from streamsvm.storage.features.maps import FeatureMaps, features_of
from streamsvm.storage.features.rows import Features, Shape
from streamsvm.storage.rows.csr import INDPTR, Array, squared_norms
from streamsvm.storage.rows.segment import NORM, OFFSET, Segment

_VALUES = 1 << 17  # made at a time: 1 MiB


@dataclass(frozen=True)
class Visited:
    """The maps that are applied at each visit; without any, rows are visited as they are."""

    maps: FeatureMaps

    def parts(self, rows: Segment, order: Array) -> Iterator[tuple[Segment, Array]]:
        """The rows at the positions `order` (k,) int32 in parts: rows as they are trained on, and positions there."""
        if not len(self.maps):
            yield rows, order
            return
        lengths = np.diff(rows.indptr)[order].astype(np.int64)
        ends = np.cumsum(self.maps.made(lengths))
        begin = 0
        while begin < len(order):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _VALUES, "right")))
            part = self.mapped(rows, order[begin:end], int(lengths[begin:end].sum()))
            yield part, np.arange(end - begin, dtype=np.int32)
            begin = end

    def all_parts(self, rows: Segment) -> Iterator[Segment]:
        """All rows, in parts."""
        if not len(self.maps):
            yield rows
            return
        for part, _ in self.parts(rows, np.arange(len(rows), dtype=np.int32)):
            yield part

    def mapped(self, rows: Segment, picked: Array, nnz: int) -> Segment:
        """The rows at the positions `picked` (k,) int32, which have so many values, as they are trained on."""
        given = Features(
            np.empty(len(picked) + 1, INDPTR), np.empty(nnz, rows.indices.dtype), np.empty(nnz, rows.values.dtype)
        )
        gather_rows(picked, rows.indptr, rows.indices, rows.values, *given)
        return with_features(
            Segment(
                rows.row_id[picked], rows.y[picked], rows.Qii[picked], given.indptr, given.indices, given.values,
                None if rows.target is None else rows.target[picked],
                None if rows.weight is None else rows.weight[picked],
            ),
            self.maps,
        )  # fmt: skip


UNMAPPED = Visited(FeatureMaps(Shape(0)))


def with_features(rows: Segment, maps: FeatureMaps) -> Segment:
    """The rows mapped, with the squared norms of what they have become. Raises ValuesOverflow."""
    if not len(maps):
        return rows
    made = maps.apply(features_of(rows.indptr, rows.indices, rows.values))
    Qii = np.empty(len(rows), NORM)
    squared_norms(made.indptr, made.values, Qii)
    if not np.isfinite(Qii).all():
        raise ValuesOverflow("features that are made")
    return replace(rows, Qii=Qii, indptr=made.indptr.astype(OFFSET), indices=made.indices, values=made.values)
