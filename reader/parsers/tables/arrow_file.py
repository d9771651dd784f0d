"""Reads files and streams of Arrow's IPC formats, Feather included."""

import io
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

import pyarrow
from pyarrow import ipc

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.tables.arrow_messages import (
    CONTINUATION,
    bad_arrow,
    check_blocks,
    needs_footer,
    stream_places,
)
from streamsvm.reader.parsers.tables.arrow_table import Table


def arrow_file_tables(file: IO[bytes], size: int, limits: Limits) -> Iterator[Table]:
    """Yield the table of each stream in a file of `size` bytes; a file in the file format has one.

    InputError bad_arrow, batch_too_large, decompressed_too_large.
    """
    if size == 0:
        raise InputError("no_rows", "the file is empty")
    mapped = _mapped(file)
    if needs_footer(file, size):
        check_blocks(file, size, limits)
        yield _table(partial(_from, file, mapped, 0), _by_footer)
        return
    for place in stream_places(file, size, limits):
        yield _table(partial(_from, file, mapped, place))


def arrow_part(file: IO[bytes], ranges: Sequence[tuple[int, int]]) -> Table:
    """The table of a stream of which some batches are read: `ranges` of bytes with its schema, dictionaries and these.

    InputError bad_arrow.
    """
    return _table(lambda: pyarrow.PythonFile(_Part(file, ranges), "r"))


class _Part:
    """A file of ranges of another one, each read at once, and an end mark."""

    closed = False

    def __init__(self, file: IO[bytes], ranges: Sequence[tuple[int, int]]) -> None:
        self._file, self._ranges = file, iter(ranges)
        self._place = self._stop = 0
        self._end = io.BytesIO(CONTINUATION + bytes(4))

    def read(self, most: int) -> bytes:
        """The next bytes, which do not span two ranges, for messages do not."""
        if self._place == self._stop:
            self._place, self._stop = next(self._ranges, (0, 0))
        if self._place == self._stop:
            return self._end.read(most)
        self._file.seek(self._place)
        data = self._file.read(min(most, self._stop - self._place))
        self._place += len(data)
        return data


def _mapped(file: IO[bytes]) -> Any:
    """The bytes of a file on this machine, of which batches without compression are parts; None: it is elsewhere."""
    try:
        number = file.fileno()
    except OSError:
        return None
    return pyarrow.py_buffer(mmap.mmap(number, 0, access=mmap.ACCESS_READ))


def _from(file: IO[bytes], mapped: Any, place: int) -> Any:
    """The bytes of a file from a place on, for pyarrow."""
    if mapped is not None:
        return mapped.slice(place)
    file.seek(place)
    return pyarrow.PythonFile(file, "r")


class _ByFooter:
    """The batches of a file by its footer, which are read as those of a stream are."""

    def __init__(self, reader: Any) -> None:
        self.schema = reader.schema
        self._batches = (reader.get_batch(number) for number in range(reader.num_record_batches))

    def read_next_batch(self) -> Any:
        return next(self._batches)


def _by_footer(source: Any, options: Any) -> _ByFooter:
    return _ByFooter(ipc.open_file(source, options=options))


def _by_stream(source: Any, options: Any) -> Any:
    return ipc.open_stream(source, options=options)


def _table(source: Callable[[], Any], reader: Callable[[Any, Any], Any] = _by_stream) -> Table:
    """The table of what `source` gives, anew at each call, and `reader` opens."""

    def opened(columns: list[int] | None = None) -> Any:
        return reader(source(), ipc.IpcReadOptions(included_fields=columns, use_threads=False))

    with _told():
        schema = opened().schema

    def batches(names: list[str], most: int) -> Iterator[Any]:
        with _told():
            stream = opened(sorted(map(schema.get_field_index, names)))
        yield from of_size(iter(partial(_next, stream), None), most)

    return Table(schema, batches)


def of_size(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Cut and join batches so that each has `rows` rows, but the last: categories are numbered batch by batch."""
    held, n_held = list[Any](), 0
    for each in batches:
        batch = each
        while batch.num_rows:
            part = batch.slice(0, rows - n_held)
            batch = batch.slice(part.num_rows)
            held.append(part)
            n_held += part.num_rows
            if n_held == rows:
                yield from _joined(held)
                held, n_held = [], 0
    if held:
        yield from _joined(held)


def _joined(batches: list[Any]) -> list[Any]:
    """One batch, or several where texts are too long for one."""
    if len(batches) == 1:
        return batches
    return pyarrow.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()


def _next(stream: Any) -> Any:
    """The next batch, None at the end. Every value has been checked: pyarrow itself trusts a batch."""
    with _told():
        try:
            batch = stream.read_next_batch()
        except StopIteration:
            return None
        batch.validate(full=True)
        return batch


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0][:200]
        raise bad_arrow(f"the file is damaged: {first}") from error
