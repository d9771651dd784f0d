"""Packs rows into segments. A row longer than a segment gets one of its own, as large as it needs."""

from collections.abc import Iterator

from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import PER_VALUE, PLAIN_ROW, Segment, SegmentBuilder, bytes_of, used_bytes


def bytes_alone(length: int, per_row: int = PLAIN_ROW, per_value: int = PER_VALUE) -> int:
    """Bytes of a segment for one row of so many values, in whole pages."""
    return -(-bytes_of(1, length, per_row, per_value) // PAGE) * PAGE


class Packer:
    """Packs the rows that are passed to `add` into segments of `segment_bytes`, and longer ones for longer rows."""

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._builder = SegmentBuilder(segment_bytes)

    def add(self, rows: Segment, picked: Array) -> Iterator[bytes]:
        """Add the rows at the positions `picked` (k,) int32; yields each segment that is full."""
        while len(picked := picked[self._builder.add(rows, picked) :]):
            length = int(rows.indptr[picked[0] + 1] - rows.indptr[picked[0]])
            row_bytes = bytes_alone(length, rows.per_row, rows.per_value)
            if row_bytes > self._segment_bytes:
                yield _alone(rows, picked[:1], row_bytes)
                picked = picked[1:]
            else:
                yield self._builder.take()

    def rest(self) -> Iterator[bytes]:
        """The segment of the rows that filled none yet, if there are any."""
        if not self._builder.is_empty:
            yield self._builder.take()

    def clear(self) -> None:
        """Forget the rows that filled no segment yet."""
        self._builder.clear()


def split(data: bytes) -> tuple[bytes, ...]:
    """Split concatenated segments, each stored without the unused end of its buffer."""
    segments, begin = [], 0
    while begin < len(data):
        end = begin + used_bytes(data, begin)
        segments.append(data[begin:end])
        begin = end
    return tuple(segments)


def _alone(rows: Segment, picked: Array, segment_bytes: int) -> bytes:
    builder = SegmentBuilder(segment_bytes)
    builder.add(rows, picked)
    return builder.take()
