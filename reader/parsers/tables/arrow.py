"""Reads and writes streams of Arrow, one after the other, that programs on this machine give.

This is no format of files or uploads: memory is bounded by the batches that the program makes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
from pyarrow import ipc

from streamsvm.reader.parsers.matrices.batches import Source
from streamsvm.reader.parsers.tables.arrow_table import Table


def arrow_tables(chunks: Iterable[bytes]) -> Iterator[Table]:
    """Yield the tables of several streams."""
    source = Source(chunks)
    while not source.is_at_end():
        with ipc.open_stream(pyarrow.PythonFile(_File(source), "r")) as stream:
            rest = iter(stream)

            def batches(names: list[str], most: int, rest: Iterator[Any] = rest) -> Iterator[Any]:
                for batch in rest:
                    for begin in range(0, batch.num_rows, most):
                        yield batch.select(names).slice(begin, most)

            yield Table(stream.schema, batches)
            for _ in rest:  # what follows is the next stream
                pass


class _File:
    """The part of a file's interface that Arrow reads by."""

    closed = False

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, size: int) -> bytes:
        return self._source.read(size)

    def close(self) -> None:
        pass


def written(batches: Iterator[Any]) -> Iterator[bytes]:
    """Write batches as a stream of Arrow, a batch at a time."""
    sink, writer = _Sink(), None
    for batch in batches:
        if writer is None:
            writer = ipc.new_stream(pyarrow.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
        yield sink.taken()


class _Sink:
    """The part of a file's interface that Arrow writes by; what was written is taken away."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
