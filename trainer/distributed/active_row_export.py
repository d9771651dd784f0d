"""Exports active rows of a shard to the coordinator, which trains those of all shards."""

from collections.abc import Callable, Collection, Iterator

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.packing import Packer
from streamsvm.storage.rows.segment import Segment, used_bytes, view
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT
from streamsvm.trainer.updates.statistics import LEAST_SLACK

# windows(is_active, rng) yields rows; is_active: ids (k,) -> which rows, (k,) bool
Windows = Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]]


class ActiveRowExport:
    """Call `some` until it exports no more rows, then `forget` them.

    score      (n_rows,) of the rows' last visits
    at_once    bytes that a call of `some` exports, unless one row is longer
    slowdowns  codes of storage.run.slowdowns, if a row was too long to be exported
    """

    def __init__(self, score: Array, at_once: int = 16 << 20) -> None:
        self._score, self._at_once = score, at_once
        self._rng = np.random.default_rng(0)  # windows in random order: if not all rows fit, each export has other rows
        self.slowdowns: Collection[str] = ()
        self.forget()

    def forget(self) -> None:
        """Forget the rows exported so far: the next export begins anew."""
        self._row_ids: list[Array] = []
        self._segments: Iterator[bytes] | None = None

    @property
    def row_ids(self) -> Array:
        """Ids of the rows exported so far."""
        return np.concatenate([np.empty(0, np.int64), *self._row_ids])

    def some(self, windows: Windows, most: int) -> tuple[tuple[bytes, ...], Array]:
        """Return segments of more active rows, and their ids. All calls together return `most` bytes, or a segment."""
        if self._segments is None:
            self._segments = self._fitting(most, self._packed(windows))
        segments: list[bytes] = []
        while sum(map(len, segments)) < self._at_once and (segment := next(self._segments, None)):
            segments.append(segment[: used_bytes(segment)])
        row_ids = [view(segment).row_id.astype(np.int64) for segment in segments]
        self._row_ids += row_ids
        return tuple(segments), np.concatenate([np.empty(0, np.int64), *row_ids])

    def _packed(self, windows: Windows) -> Iterator[bytes]:
        packer = Packer(SPILL_SEGMENT)
        for rows in windows(self._is_active, self._rng):
            yield from packer.add(rows, np.flatnonzero(self._is_active(rows.row_id)).astype(np.int32))
        yield from packer.rest()

    def _fitting(self, most: int, segments: Iterator[bytes]) -> Iterator[bytes]:
        """Yield segments of `most` bytes in all, or one usual segment; segments too long for the rest are left out."""
        left = max(most, SPILL_SEGMENT)
        while left >= SPILL_SEGMENT and (segment := next(segments, None)):
            if len(segment) <= left:
                left -= len(segment)
                yield segment
            else:
                self.slowdowns = {"pool_without_room"}

    def _is_active(self, row_id: Array) -> Array:
        return self._score[row_id] <= LEAST_SLACK
