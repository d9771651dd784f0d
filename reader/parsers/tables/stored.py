"""Reads tables with pyarrow: from stored files of Parquet, Arrow and ORC, and from streams of Arrow as they come.

Memory is bounded: strings stay in dictionaries where the file has dictionaries, the rows read at a time have some MiB,
and all decoded bytes count towards the limits.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import IO, Any, NamedTuple

import pyarrow
from pyarrow import dataset, ipc, orc, parquet, types

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.parsers.streams import ArrayReader, Scratch, spooled
from streamsvm.reader.parsers.tables.arrow import is_string

_MAGIC, _CONTINUATION = b"ARROW1", b"\xff\xff\xff\xff"
_END, _HEAD_BYTES = _CONTINUATION + bytes(4), 8
_BUFFER_BYTES = 1 << 20
_VALUE_BYTES = 8
_BATCH_BYTES = 16 << 20
_ORC_ROWS = 1 << 7  # ORC does not say how long its strings are
# Reading a column of Parquet as a dictionary makes a dictionary of all its texts, and a copy of that for each batch.
_DICTIONARY_BYTES, _DICTIONARIES_BYTES = 16 << 20, 256 << 20
# Most bytes of a batch of an Arrow file that several threads read: each thread holds a batch, and the dictionaries.
_MOST_GROUP_BYTES = 32 << 20


class StoredTable(NamedTuple):
    """A table of an input.

    schema   names and types of its columns
    batches  function (ascending positions of columns, most rows of a batch) -> iterator of batches of these columns;
             their strings may be in dictionaries though the schema says strings
    """

    schema: Any
    batches: Callable[[Sequence[int], int], Iterator[Any]]


# Yields the tables of an input from its bytes.
Read = Callable[[Iterable[bytes]], Iterator[StoredTable]]
# Numbers of row groups of Parquet, or of batches of a file of Arrow; None: all.
Groups = Sequence[int] | None
_Batches = Callable[[Sequence[int]], Iterable[Any]]  # ascending positions of columns -> their batches in the file
_Opened = tuple[Any, _Batches]  # the schema, and the function that reads batches


def reads(format_: str, scratch: Scratch, limits: InputLimits) -> Read:
    """Return a function that writes the chunks of a Parquet, Arrow or ORC file to `scratch` and yields its tables."""

    def read(chunks: Iterable[bytes]) -> Iterator[StoredTable]:
        with spooled(chunks, scratch) as (file, size):
            yield from tables(format_, file, size, limits)

    return read


def tables(
    format_: str, file: IO[bytes], size: int, limits: InputLimits, groups: Groups = None
) -> Iterator[StoredTable]:
    """Yield the tables of an open file of `size` bytes, or of some `groups` of it.

    Raises InputError bad_parquet, bad_arrow, bad_orc, no_rows, batch_too_large, decompressed_too_large.
    """
    decoded = 0

    def sized(batches: _Batches, places: Sequence[int], most: int) -> Iterator[Any]:
        return of_size(counted(batches, places), most)

    def counted(batches: _Batches, places: Sequence[int]) -> Iterator[Any]:
        nonlocal decoded
        with _told(format_):
            for batch in batches(places):
                if format_ == "arrow":  # pyarrow does not check files of its own format
                    batch.validate(full=True)
                # `_check_array` bounds the rows of Parquet and ORC, where any count of equal numbers takes few bytes.
                decoded += _bytes_of(batch) if format_ == "arrow" else _text_bytes(batch)
                limits.check_size(decoded, size)
                yield batch

    with _told(format_):
        for schema, batches in _FORMATS[format_](file, size, limits, groups):
            yield StoredTable(schema, partial(sized, batches))


def groups_of(format_: str, file: IO[bytes], size: int) -> tuple[Any, list[tuple[int, int]]] | None:
    """Return the schema of a file, and (rows, bytes) of each group, see `Groups`. Raises InputError as `tables`.

    None if the file has no groups, or groups too large for each thread to hold one.
    """
    with _told(format_):
        if format_ == "parquet":
            table = _parquet_file(file)
            groups = [*map(table.metadata.row_group, range(table.metadata.num_row_groups))]
            sizes = [sum(group.column(k).total_compressed_size for k in range(group.num_columns)) for group in groups]
            return table.schema_arrow, [(group.num_rows, size) for group, size in zip(groups, sizes, strict=True)]
        return _arrow_groups(file, size) if format_ == "arrow" and _is_file(file) else None


def streamed(chunks: Iterable[bytes]) -> Iterator[StoredTable]:
    """Yield the tables of streams of Arrow, one after the other, that a program on this machine writes."""
    source = ArrayReader(chunks)
    while not source.is_at_end():
        with ipc.open_stream(pyarrow.PythonFile(source, "r")) as stream:

            def batches(places: Sequence[int], most: int, stream: Any = stream) -> Iterator[Any]:
                return of_size((batch.select(list(places)) for batch in stream), most)

            yield StoredTable(stream.schema, batches)
            for _ in stream:  # read to its end, where the next stream begins
                pass


def of_size(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Cut and join batches so that each but the last has `rows` rows, or fewer if they have more than _BATCH_BYTES.

    Categories are numbered batch by batch: all formats must make equal batches.
    """
    held, n_rows, n_bytes = list[Any](), 0, 0
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            part = batch.slice(begin, rows - n_rows)
            while (size := _bytes_of(part)) > _BATCH_BYTES and part.num_rows > 1:
                part = part.slice(0, part.num_rows // 2)
            is_full = bool(held) and n_bytes + size > _BATCH_BYTES
            if not is_full:
                held.append(part)
                begin, n_rows, n_bytes = begin + part.num_rows, n_rows + part.num_rows, n_bytes + size
            if is_full or n_rows == rows:
                yield from _joined(held)
                held, n_rows, n_bytes = [], 0, 0
    if held:
        yield from _joined(held)


def _joined(batches: list[Any]) -> list[Any]:
    if len(batches) == 1:
        return batches
    return pyarrow.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()


def _bytes_of(batch: Any) -> int:
    """Return the bytes of a batch without dictionaries: 8 for each field, nulls too, and those of texts in addition."""
    return batch.num_rows * batch.num_columns * _VALUE_BYTES + _text_bytes(batch)


def _text_bytes(batch: Any) -> int:
    kinds = enumerate(batch.schema.types)
    texts = (k for k, kind in kinds if not (types.is_primitive(kind) or types.is_dictionary(kind)))
    return sum(batch.column(k).nbytes for k in texts)


def _parquet(file: IO[bytes], size: int, limits: InputLimits, groups: Groups) -> Iterator[_Opened]:
    table = _parquet_file(file)
    metadata, schema = table.metadata, table.schema_arrow
    encoded = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    limits.check_size(encoded, size)
    _check_array(metadata.num_rows, metadata.num_columns, limits)
    numbers = range(metadata.num_row_groups) if groups is None else groups

    def batches(places: Sequence[int]) -> Iterator[Any]:
        names = schema.names
        chosen = None if len(places) == len(names) else [names[place] for place in places]
        strings = [names[place] for place in places if is_string(schema.field(place).type)]
        dictionaries, text_bytes = _by_size(metadata, [metadata.row_group(number) for number in numbers], strings)
        rows = max(1, int(_BATCH_BYTES / (_VALUE_BYTES * len(places) + text_bytes + 1)))
        read = _parquet_file(file, metadata=metadata, read_dictionary=dictionaries)
        for batch in read.iter_batches(rows, row_groups=numbers, columns=chosen, use_threads=False):
            # The name of a column may also be the path of a field in a column of structures, which is read, too.
            yield batch if batch.num_columns == len(places) else batch.select(chosen)

    yield schema, batches


def _parquet_file(file: IO[bytes], **more: Any) -> Any:
    return parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False, **more)


def _by_size(metadata: Any, groups: list[Any], strings: list[str]) -> tuple[list[str], float]:
    """Return which columns of `strings` are read as dictionaries, and the mean bytes a row has in the other columns."""
    paths = (metadata.schema.column(k).path for k in range(metadata.num_columns if strings else 0))
    place = {path: k for k, path in enumerate(paths)}
    dictionaries, left, row_bytes = list[str](), _DICTIONARIES_BYTES, 0.0
    for name in strings:
        chunks = [group.column(place[name]) for group in groups]
        most = max((chunk.total_uncompressed_size for chunk in chunks), default=0)
        if most <= min(left, _DICTIONARY_BYTES) and all(chunk.has_dictionary_page for chunk in chunks):
            dictionaries.append(name)
            left -= most
        else:
            row_bytes += max((chunk.total_uncompressed_size / max(1, chunk.num_values) for chunk in chunks), default=0)
    return dictionaries, row_bytes


def _orc(file: IO[bytes], _size: int, limits: InputLimits, _groups: Groups) -> Iterator[_Opened]:
    source = pyarrow.PythonFile(file, "r")
    n_rows = orc.ORCFile(source).nrows
    fragment = dataset.OrcFileFormat().make_fragment(source)
    schema = fragment.physical_schema
    _check_array(n_rows, len(schema), limits)

    def batches(places: Sequence[int]) -> Iterator[Any]:
        names = schema.names
        reads = {"batch_size": _ORC_ROWS, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        return fragment.to_batches(columns=[names[place] for place in places], **reads)

    yield schema, batches


def _arrow(file: IO[bytes], size: int, _limits: InputLimits, groups: Groups) -> Iterator[_Opened]:
    if size == 0:
        raise InputError("no_rows", "the file is empty")
    source = _source(file)
    if not _is_file(file):
        yield from _streams(source, 0, size)
        return
    schema = ipc.open_file(source).schema  # from the footer, which a file that was cut lacks
    source.seek(_HEAD_BYTES)
    # A stream is read without a copy. Some programs, such as polars, begin a file with no message for the schema.
    if groups is None and source.read(len(_CONTINUATION)) == _CONTINUATION:
        yield from islice(_streams(source, _HEAD_BYTES, size), 1)
        return

    def batches(places: Sequence[int]) -> Iterator[Any]:
        reader = ipc.open_file(source, options=_options(places))
        return map(reader.get_batch, range(reader.num_record_batches) if groups is None else groups)

    yield schema, batches


def _streams(source: Any, begin: int, size: int) -> Iterator[_Opened]:
    """Yield the schema and the batches of each stream in a file of `size` bytes; the first is at offset `begin`."""

    def batches(places: Sequence[int]) -> Iterator[Any]:
        source.seek(begin)
        return iter(ipc.open_stream(source, options=_options(places)))

    while begin < size:
        source.seek(begin)
        if source.read(len(_CONTINUATION)) != _CONTINUATION:
            raise InputError("bad_arrow", "no stream begins where one should")
        source.seek(begin)
        yield ipc.open_stream(source).schema, batches
        begin = source.tell()
        source.seek(max(0, begin - len(_END)))
        if source.read(len(_END)) != _END:
            raise InputError("bad_arrow", "the stream has no end mark: it was cut, or its writer was not closed")


def _arrow_groups(file: IO[bytes], size: int) -> tuple[Any, list[tuple[int, int]]] | None:
    reader = ipc.open_file(_source(file))
    if reader.num_record_batches == 0:
        return None
    # Each column of a batch has all its rows: to count them, a narrow column is read without the others.
    schema, first = reader.schema, reader.get_batch(0)
    first.validate(full=True)
    narrow = next((k for k, kind in enumerate(schema.types) if types.is_primitive(kind)), 0)
    counter = ipc.open_file(_source(file), options=_options([narrow]))
    rows = [counter.get_batch(number).num_rows for number in range(counter.num_record_batches)]
    if first.nbytes * max(rows) > _MOST_GROUP_BYTES * max(1, first.num_rows):
        return None
    return schema, [(each, size * each // max(1, sum(rows))) for each in rows]


def _is_file(file: IO[bytes]) -> bool:
    """Return whether a file has Arrow's file format; otherwise it contains streams of Arrow."""
    file.seek(0)
    return file.read(len(_MAGIC)) == _MAGIC


def _options(places: Sequence[int]) -> Any:
    return ipc.IpcReadOptions(included_fields=list(places), use_threads=False)


def _source(file: IO[bytes]) -> Any:
    """Return a file as pyarrow reads it. A local file is mapped into memory: uncompressed batches need no copy."""
    try:
        number = file.fileno()
    except OSError:
        return pyarrow.PythonFile(file, "r")
    return pyarrow.BufferReader(pyarrow.py_buffer(mmap.mmap(number, 0, access=mmap.ACCESS_READ)))


def _check_array(n_rows: int, n_columns: int, limits: InputLimits) -> None:
    """Raise InputError for a table that is too large as an array: equal values in a column take few bytes in a file."""
    if n_rows * n_columns * _VALUE_BYTES > limits.max_bytes:
        raise InputError("decompressed_too_large", f"the table has more than {limits.max_bytes} bytes")


@contextmanager
def _told(format_: str) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise InputError("batch_too_large", "there is no memory for what a part of the file decodes to") from error
    except (pyarrow.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0][:200]
        raise InputError(f"bad_{format_}", f"the file is damaged, or was cut: {first}") from error


_FORMATS: dict[str, Callable[[IO[bytes], int, InputLimits, Groups], Iterator[_Opened]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "orc": _orc,
}
