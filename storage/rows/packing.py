"""Packs rows into segments. A row that is longer than a segment gets its own larger segment."""

from collections.abc import Iterator

from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import PER_VALUE, PLAIN_ROW, Segment, SegmentBuilder, bytes_of


def bytes_alone(length: int, per_row: int = PLAIN_ROW, per_value: int = PER_VALUE) -> int:
    """Return the bytes, in whole pages, of a segment that holds one row of `length` values."""
    return -(-bytes_of(1, length, per_row, per_value) // PAGE) * PAGE


class Packer:
    """Packs rows into segments of `segment_bytes`; a row that does not fit gets its own larger segment."""

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._builder = SegmentBuilder(segment_bytes)

    def add(self, rows: Segment, picked: Array) -> Iterator[bytes]:
        """Add the rows at the positions `picked` (k,) int32; yield each segment that becomes full."""
        while len(picked := picked[self._builder.add(rows, picked) :]):
            length = int(rows.indptr[picked[0] + 1] - rows.indptr[picked[0]])
            row_bytes = bytes_alone(length, rows.per_row, rows.per_value)
            if row_bytes > self._segment_bytes:
                yield _alone(rows, picked[:1], row_bytes)
                picked = picked[1:]
            else:
                yield self._builder.take()

    def rest(self) -> Iterator[bytes]:
        """Yield a segment with the rows that have not filled a segment yet, if there are such rows."""
        if not self._builder.is_empty:
            yield self._builder.take()

    def clear(self) -> None:
        """Drop the rows that have not filled a segment yet."""
        self._builder.clear()


def _alone(rows: Segment, picked: Array, segment_bytes: int) -> bytes:
    builder = SegmentBuilder(segment_bytes)
    builder.add(rows, picked)
    return builder.take()
