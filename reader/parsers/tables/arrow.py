"""Writes streams of Arrow, which programs on this machine give each other."""

from collections.abc import Iterator
from typing import Any

import pyarrow
from pyarrow import ipc


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
