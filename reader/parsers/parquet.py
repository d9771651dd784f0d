"""Parquet to rows, batch by batch: flat columns of numbers without nulls; labels and groups may be strings.

Needs pyarrow, of the extra `parquet`.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow
from pyarrow import parquet, types

from reader.errors import InputError
from reader.ingest.decompress import check_size
from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers.columns import find_columns
from reader.parsers.label_names import MOST_CHARACTERS, LabelNames
from reader.parsers.matrix import column_number, label_by_name, misfit, weight_misfit
from reader.parsers.spool import size_of, spooled
from reader.parsers.table import TableParser
from storage.csr import Array, Rows

_BATCH_VALUES = 1 << 20
_MOST_BATCH_ROWS = 1 << 16
_BUFFER_BYTES = 1 << 20


class ParquetParser(TableParser):
    """`scratch` is where the input is kept while it is read. Of a fault, `line` is the number of the row."""

    def __init__(self, options: InputOptions, limits: Limits, scratch: Path, names: LabelNames | None = None) -> None:
        super().__init__(options, limits, names)
        self._scratch = scratch
        self._names: list[str] = []

    @property
    def column_names(self) -> list[str]:
        """Of all columns, as far as it has been read."""
        return self._names

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """The rows. InputError at the first fault, unless rows are skipped."""
        with spooled(chunks, self._scratch) as file, open_table(file) as table:
            check_sizes(table.metadata, size_of(file), self._limits)
            self._set_columns(table.schema_arrow)
            batch_rows = max(1, min(_MOST_BATCH_ROWS, _BATCH_VALUES // len(self._names)))
            batches = table.iter_batches(batch_rows, use_threads=False)
            first = 1
            while (batch := next_batch(batches)) is not None:
                rows = self.read_batch(batch, first)
                first += batch.num_rows
                if len(rows):
                    yield rows
        self.check_end()

    def _set_columns(self, schema: Any) -> None:
        self._names = schema.names
        if not self._names:
            raise InputError("no_rows", "the table has no column")
        if len(set(self._names)) < len(self._names):
            raise InputError("duplicate_column", "a column name stands twice")
        wanted = self._options.label_column
        n_columns = len(self._names)
        label = label_by_name(self._names) if wanted is None else column_number(wanted, self._names, n_columns)
        self._columns = find_columns(label, self._options, self._names, n_columns)
        if self._labels.type == "auto":
            self._labels.type = "string" if is_string(schema.field(label).type) else "number"
        self.settle_features(schema)

    def settle_features(self, schema: Any) -> None:
        """What the columns that are left make."""
        for number in range(len(self._names)):
            if number in self.text_columns and is_string(schema.field(number).type):
                continue
            if not is_number(schema.field(number).type):
                raise self.column_type(number, schema)
        self.set_features(len(self._names) - len(self._columns.aside))

    def column_type(self, place: int, schema: Any) -> InputError:
        """A column cannot be what it should be."""
        kind = str(schema.field(place).type)[:40]
        return InputError("column_type", f"column {place + 1} ({self._names[place][:40]}) is of type {kind}")

    def read_batch(self, batch: Any, first: int) -> Rows:
        """The rows of a batch whose first has the number `first`."""
        table = np.empty((batch.num_rows, len(self._names)))
        texts = {place: strings_of(batch.column(place)) for place in self.text_columns}
        for number, column in enumerate(batch.columns):
            # Of a string, whether it can be one.
            table[:, number] = lengths(texts[number]) if number in texts else numbers_of(column)
        fitting = self.fitting(table)
        fitting[:, self.text_columns] = table[:, self.text_columns] <= MOST_CHARACTERS
        keep = fitting.all(axis=1)
        for row in np.flatnonzero(~keep).tolist():
            column = int(np.argmin(fitting[row]))
            self.rejected.add(partial(self._fault, first + row, column, table[row, column]))
        return self.give_columns(table[keep], {place: texts[place][keep].tolist() for place in texts})

    def _fault(self, row: int, column: int, value: float) -> InputError:
        # A null comes as NaN.
        if np.isnan(value):
            code, message = "missing_value", "a value is missing"
        elif column in self.text_columns:
            code, message = "label_too_long", f"the text has {value:.0f} characters"
        else:
            code, message = weight_misfit(value) if column == self._columns.weight else misfit(value)
        return InputError(code, f"row {row}, column {column + 1} ({self._names[column][:40]}): {message}", line=row)


def check_sizes(metadata: Any, size: int, limits: Limits) -> None:
    """InputError if a table is too large by what its footer says; nothing has been decoded yet."""
    encoded = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    check_size(encoded, size, limits)
    # How large it is as a table: columns of one value take next to nothing in the file.
    if metadata.num_rows * metadata.num_columns * 8 > limits.max_bytes:
        raise InputError("decompressed_too_large", f"the table has more than {limits.max_bytes} bytes")


def open_table(file: IO[bytes]) -> Any:
    """A Parquet file. InputError bad_parquet."""
    try:
        return parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError("bad_parquet", f"this is no whole Parquet file: {_first_line(error)}") from error


def next_batch(batches: Iterator[Any]) -> Any:
    """The next batch, None at the end."""
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
    found = [None if value is None else str(value) for value in column.to_pylist()]
    return np.array(found, object)


def lengths(texts: Array) -> Array:
    """(n,) characters of each, NaN where there is none."""
    return np.array([len(text) if text else np.nan for text in texts])


def numbers_of(column: Any) -> Array:
    """(n,) float64, NaN for null."""
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
