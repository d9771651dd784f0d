"""Rows packed into segments; a row that is longer than one has a segment to itself."""

from collections.abc import Iterator

from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import HEADER, Segment, SegmentBuilder, bytes_of


def bytes_alone(length: int) -> int:
    """Bytes of a segment for one row of so many values, in whole pages."""
    return -(-bytes_of(1, length) // PAGE) * PAGE


class Packer:
    """`add` rows, then take the `rest`. Segments have `segment_bytes`, those of longer rows as much as these need."""

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._builder = SegmentBuilder(segment_bytes)

    def add(self, rows: Segment, picked: Array) -> Iterator[bytes]:
        """The segments that the rows at the positions `picked` (k,) int32 complete. The others wait for the next."""
        while len(picked := picked[self._builder.add(rows, picked) :]):
            own_bytes = bytes_alone(int(rows.indptr[picked[0] + 1] - rows.indptr[picked[0]]))
            if own_bytes > self._segment_bytes:
                yield _alone(rows, picked[:1], own_bytes)
                picked = picked[1:]
            else:
                yield self._builder.take()

    def rest(self) -> Iterator[bytes]:
        """The segment of those that wait, if any do."""
        if not self._builder.is_empty:
            yield self._builder.take()

    def clear(self) -> None:
        """Forget those that wait."""
        self._builder.clear()


def split(data: bytes) -> tuple[bytes, ...]:
    """Segments that stand one after the other, each without what follows its rows."""
    segments, begin = [], 0
    while begin < len(data):
        end = begin + bytes_of(*HEADER.unpack_from(data, begin))
        segments.append(data[begin:end])
        begin = end
    return tuple(segments)


def _alone(rows: Segment, picked: Array, own_bytes: int) -> bytes:
    builder = SegmentBuilder(own_bytes)
    builder.add(rows, picked)
    return builder.take()
