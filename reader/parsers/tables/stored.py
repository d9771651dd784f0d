"""Reads tables from files that are stored first: Parquet, Arrow, ORC."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, Any

from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.spool import Scratch, size_of, spooled
from streamsvm.reader.parsers.tables.arrow_file import arrow_file_tables
from streamsvm.reader.parsers.tables.arrow_table import Table
from streamsvm.reader.parsers.tables.orc_file import orc_tables
from streamsvm.reader.parsers.tables.parquet_file import check_sizes, next_batch, open_table

# Yields the tables of an input.
Read = Callable[[Iterable[bytes]], Iterator[Table]]


def reads(format_: str, scratch: Scratch, limits: Limits) -> Read:
    """The function that reads an input of a format of TABLES, which it stores in `scratch`.

    It raises InputError bad_parquet, bad_arrow, bad_orc, batch_too_large, decompressed_too_large.
    """
    return partial(_stored_tables, TABLES[format_], scratch, limits)


def _stored_tables(
    tables: Callable[[IO[bytes], int, Limits], Iterator[Table]],
    scratch: Scratch,
    limits: Limits,
    chunks: Iterable[bytes],
) -> Iterator[Table]:
    with spooled(chunks, scratch) as file:
        yield from tables(file, size_of(file), limits)


def parquet_tables(file: IO[bytes], size: int, limits: Limits) -> Iterator[Table]:
    """Yield the one table of a Parquet file of `size` bytes."""
    with open_table(file) as table:
        check_sizes(table.metadata, size, limits)

        def batches(names: list[str], most: int) -> Iterator[Any]:
            read = table.iter_batches(most, columns=names, use_threads=False)
            while (batch := next_batch(read)) is not None:
                yield batch

        yield Table(table.schema_arrow, batches)


# format -> a function that yields the tables of an open file, of so many bytes, within limits
TABLES: dict[str, Callable[[IO[bytes], int, Limits], Iterator[Table]]] = {
    "parquet": parquet_tables,
    "arrow": arrow_file_tables,
    "orc": orc_tables,
}
