"""Reads Parquet. Needs pyarrow, the extra `parquet`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.spool import Scratch, size_of, spooled
from streamsvm.reader.parsers.tables.arrow_table import ArrowTableParser, Table
from streamsvm.reader.parsers.tables.parquet_file import check_sizes, next_batch, open_table


class ParquetParser(ArrowTableParser):
    """A `Parser`. The input is stored in the directory `scratch`."""

    def __init__(self, options: InputOptions, limits: Limits, scratch: Path, names: LabelNames | None = None) -> None:
        super().__init__(options, limits, names)
        self._scratch = scratch

    def tables(self, chunks: Iterable[bytes]) -> Iterator[Table]:
        return parquet_tables(chunks, self._scratch, self._limits)


def parquet_tables(chunks: Iterable[bytes], scratch: Scratch, limits: Limits) -> Iterator[Table]:
    """Yield the one table of a Parquet file. InputError bad_parquet, decompressed_too_large."""
    with spooled(chunks, scratch) as file, open_table(file) as table:
        check_sizes(table.metadata, size_of(file), limits)

        def batches(names: list[str], most: int) -> Iterator[Any]:
            read = table.iter_batches(most, columns=names, use_threads=False)
            while (batch := next_batch(read)) is not None:
                yield batch

        yield Table(table.schema_arrow, batches)
