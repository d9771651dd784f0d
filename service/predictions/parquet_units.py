"""Cuts Parquet files into row groups, and reads them. Needs pyarrow, the extra `parquet`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.tables.arrow_table import Table
from streamsvm.reader.parsers.tables.columns import Heading
from streamsvm.reader.parsers.tables.parquet_file import check_sizes, next_batch, open_table
from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.pieces import check_unchanged
from streamsvm.reader.sources.seekable import open_seekable

_BATCH_ROWS = 1 << 14  # each thread holds some arrays of a batch


class RowGroups(NamedTuple):
    """Row groups [start, stop) of a file; see `Unit`, whose fields follow each other like these."""

    start: int
    stop: int
    size: int
    header: bytes
    first_row: int


def row_group_units(file: SourceFile, least_rows: int, keep: Sequence[str]) -> list[RowGroups]:
    """The row groups of a file, joined until they have `least_rows`. Raises InputError for no whole file, or table
    without the columns to keep.
    """
    units: list[RowGroups] = []
    with _opened(file) as table:
        check_sizes(table.metadata, file.size, Limits())
        _places(table.schema_arrow, keep)
        first, rows, start, size = 1, 0, 0, 0
        for number in range(table.metadata.num_row_groups):
            group = table.metadata.row_group(number)
            rows, size = rows + group.num_rows, size + _stored_bytes(group)
            if rows >= least_rows or number == table.metadata.num_row_groups - 1:
                units.append(RowGroups(start, number + 1, size, b"", first))
                first, rows, start, size = first + rows, 0, number + 1, 0
    return units


def types_of(file: SourceFile, keep: Sequence[str]) -> list[Any]:
    """Types of the columns to keep; those of dictionaries are the types of their values."""
    with _opened(file) as table:
        schema = table.schema_arrow
        types = [schema.field(place).type for place in _places(schema, keep)]
    return [each.value_type if pyarrow.types.is_dictionary(each) else each for each in types]


def read_row_groups(
    file: SourceFile, start: int, stop: int, beside: Beside, chunks: Iterable[bytes] = ()
) -> Iterator[Table]:
    """Yield row groups [start, stop) as a table, whose batches put the columns to keep into `beside`."""
    with _opened(file) as table:
        schema = table.schema_arrow
        kept = [schema.names[place] for place in _places(schema, beside.names)]

        def batches(names: list[str], most: int) -> Iterator[Any]:
            columns = list(dict.fromkeys([*names, *kept]))
            read = table.iter_batches(
                min(most, _BATCH_ROWS), row_groups=range(start, stop), columns=columns, use_threads=False
            )
            while (batch := next_batch(read)) is not None:
                beside.put([batch.column(batch.schema.get_field_index(name)) for name in kept])
                yield batch

        yield Table(schema, batches)
    check_unchanged(file)


@contextmanager
def _opened(file: SourceFile) -> Iterator[Any]:
    with open_seekable(file) as raw, open_table(raw) as table:
        yield table


def _places(schema: Any, keep: Sequence[str]) -> list[int]:
    names = schema.names
    if len(set(names)) < len(names):
        raise InputError("duplicate_column", "a column name stands twice")
    return Heading(names, len(names)).places_of(keep, "keep")


def _stored_bytes(group: Any) -> int:
    return sum(group.column(k).total_compressed_size for k in range(group.num_columns))
