"""Opens Parquet files and checks their sizes."""

import json
from collections.abc import Iterator
from typing import IO, Any

import pyarrow
from pyarrow import parquet

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits

_BUFFER_BYTES = 1 << 20


def check_sizes(metadata: Any, size: int, limits: Limits) -> None:
    """InputError decompressed_too_large if the footer says that the table is too large, before anything is decoded."""
    encoded = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    limits.check_size(encoded, size)
    # The size as an array counts, too: a column of equal values takes almost no bytes in the file.
    if metadata.num_rows * metadata.num_columns * 8 > limits.max_bytes:
        raise InputError("decompressed_too_large", f"the table has more than {limits.max_bytes} bytes")


def open_table(file: IO[bytes]) -> Any:
    """Open a Parquet file. InputError bad_parquet."""
    try:
        return parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError("bad_parquet", f"this is no whole Parquet file: {_first_line(error)}") from error


def index_of(schema: Any) -> set[str]:
    """Names of the columns that pandas, which wrote the file, calls its index in the metadata."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, ValueError, TypeError):
        return set()
    return {name for name in columns if isinstance(name, str)} if isinstance(columns, list) else set()


def next_batch(batches: Iterator[Any]) -> Any:
    """The next batch, None at the end. InputError bad_parquet."""
    try:
        return next(batches, None)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError("bad_parquet", f"the file is damaged: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
