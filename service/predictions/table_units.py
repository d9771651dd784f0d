"""Reads tables for predictions, with columns to copy; cuts Parquet into units of row groups, Arrow into batches."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NamedTuple

import pyarrow

from streamsvm.reader.ingest.decompress import MAGIC_BYTES, decompressed, is_compressed
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.parsers.tables.arrow import plain_values
from streamsvm.reader.parsers.tables.columns import Heading
from streamsvm.reader.parsers.tables.matching import Beside
from streamsvm.reader.parsers.tables.stored import Read, StoredTable, groups_of, reads, tables
from streamsvm.reader.sources.fetch import check_unchanged, open_seekable, read_bytes, read_range
from streamsvm.reader.sources.files import SourceFile

_PIECE_BYTES = 4 << 20
_BATCH_ROWS = 1 << 14  # each thread holds some arrays of a batch


class Groups(NamedTuple):
    """Row groups, or batches, [start, stop) of a file; the fields are the last six of `FileUnit`, in that order."""

    start: int
    stop: int
    size: int
    header: bytes
    first_row: int
    are_groups: bool = True


def joined(groups: Iterable[tuple[int, int]], least_rows: int) -> list[Groups]:
    """Join consecutive groups until they have `least_rows`; `groups` has the rows and bytes of each group."""
    units, first, rows, start, size, number = list[Groups](), 1, 0, 0, 0, 0
    for number, (more_rows, more_bytes) in enumerate(groups, start=1):
        rows, size = rows + more_rows, size + more_bytes
        if rows >= least_rows:
            units.append(Groups(start, number, size, b"", first))
            first, rows, start, size = first + rows, 0, number, 0
    if start < number:
        units.append(Groups(start, number, size, b"", first))
    return units


def group_units(file: SourceFile, format_: str, least_rows: int, keep: Sequence[str]) -> list[Groups] | None:
    """Return a file's groups, joined until they have `least_rows`; None if the file has to be read as a whole.

    Raises InputError for a damaged file, or a table without the columns `keep`.
    """
    if _is_compressed(file):
        return None
    with open_seekable(file) as raw:
        found = groups_of(format_, raw, file.size)
    if found is None:
        return None
    schema, groups = found
    _places(schema, keep)
    return joined(groups, least_rows)


def types_of(file: SourceFile, format_: str, keep: Sequence[str]) -> list[Any]:
    """Return the Arrow types of the columns `keep` of a file; for a dictionary column, the type of its values."""
    with closing(_tables(file, format_)) as tables:  # type: ignore[type-var]
        schema = next(tables).schema
        types = [schema.field(place).type for place in _places(schema, keep)]
    return [each.value_type if pyarrow.types.is_dictionary(each) else each for each in types]


def _tables(file: SourceFile, format_: str) -> Iterator[StoredTable]:
    """Yield the tables of a file, which may be compressed."""
    if not _is_compressed(file):
        with open_seekable(file) as raw:
            yield from tables(format_, raw, file.size, InputLimits())
        return
    with closing(read_range(file, threads=1, piece_bytes=_PIECE_BYTES)) as pieces:
        yield from reads(format_, Path(gettempdir()), InputLimits())(decompressed(pieces, InputLimits()))


def _is_compressed(file: SourceFile) -> bool:
    return is_compressed(read_bytes(file, 0, min(file.size, MAGIC_BYTES)))


def read_groups(
    file: SourceFile, format_: str, start: int, stop: int, beside: Beside, chunks: Iterable[bytes] = ()
) -> Iterator[StoredTable]:
    """Yield groups [start, stop) as a table; reading its batches puts the columns to copy into `beside`."""
    with open_seekable(file) as raw:
        for table in tables(format_, raw, file.size, InputLimits(), range(start, stop)):
            yield with_kept(table, beside)
    check_unchanged(file)


def keeping(read: Read, beside: Beside, chunks: Iterable[bytes]) -> Iterator[StoredTable]:
    """Yield the tables that `read` makes; reading their batches puts the columns to copy into `beside`."""
    for table in read(chunks):
        yield with_kept(table, beside)


def with_kept(table: StoredTable, beside: Beside) -> StoredTable:
    """Return the same table, but reading its batches puts the columns to copy into `beside`."""
    kept = _places(table.schema, beside.names)

    def batches(places: Sequence[int], most: int) -> Iterator[Any]:
        read = sorted({*places, *kept})
        column_of = {place: column for column, place in enumerate(read)}
        wanted = [column_of[place] for place in places]
        for batch in table.batches(read, min(most, _BATCH_ROWS)):
            beside.put([plain_values(batch.column(column_of[place])) for place in kept])
            yield batch.select(wanted) if kept else batch

    return StoredTable(table.schema, batches)


def _places(schema: Any, keep: Sequence[str]) -> list[int]:
    return Heading(schema.names, len(schema.names)).places_of(keep, "keep")
