"""Opens Parquet files, checks their sizes, and converts columns to arrays. Needs pyarrow, the extra `parquet`."""

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow
from pyarrow import parquet, types

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import check_size
from streamsvm.reader.limits import Limits
from streamsvm.storage.rows.csr import Array

_BUFFER_BYTES = 1 << 20


def check_sizes(metadata: Any, size: int, limits: Limits) -> None:
    """InputError decompressed_too_large if the footer says that the table is too large, before anything is decoded."""
    encoded = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    check_size(encoded, size, limits)
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


def is_number(kind: Any) -> bool:
    """Whether a column of this type has numbers."""
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def is_string(kind: Any) -> bool:
    """Whether a column of this type has strings."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def strings_of(column: Any) -> Array:
    """(n,) of str, None for null; numbers as Python writes them."""
    return np.array([None if value is None else str(value) for value in column.to_pylist()], object)


def lengths(texts: Array) -> Array:
    """(n,) float64: the number of characters of each text, NaN for None and for an empty one."""
    return np.array([len(text) if text else np.nan for text in texts])


def numbers_of(column: Any) -> Array:
    """(n,) float64, NaN for null."""
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
