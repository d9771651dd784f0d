"""Turns tables of Arrow into rows, batch by batch: columns of numbers, and of words where CSV may have them.

Nulls are missing values. Modules of other formats use the functions for columns and streams, too.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow
from pyarrow import compute, ipc, types

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.tables.columns import Heading, type_hint
from streamsvm.reader.parsers.tables.fields import FieldBatch
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures
from streamsvm.reader.parsers.tables.mixed_columns import ALL
from streamsvm.reader.parsers.tables.table import Fault, TableParser
from streamsvm.reader.parsers.text.hashed_text import DocumentColumn
from streamsvm.reader.parsers.values import BLANKS, is_gap, misfit, weight_misfit, word_of
from streamsvm.storage.rows.csr import Array, Rows


def plain_type(kind: Any) -> Any:
    """Return the type of the values in a column of type `kind`; for a dictionary, the type of the values in it."""
    return kind.value_type if types.is_dictionary(kind) else kind


def plain_values(column: Any) -> Any:
    """Return a column with references to a dictionary replaced by their values."""
    if not types.is_dictionary(column.type):
        return column
    if types.is_string_view(column.type.value_type):  # which pyarrow has no cast for
        return column.dictionary.cast(pyarrow.large_string()).take(column.indices)
    return column.cast(column.type.value_type)


def is_number(kind: Any) -> bool:
    """Return whether a column of this type is read as numbers: booleans are, and so is a column of nulls alone."""
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(plain_type(kind)) for test in tests)


def is_string(kind: Any) -> bool:
    """Return whether a column of this type has strings."""
    kind = plain_type(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_words(kind: Any) -> bool:
    """Return whether a column of this type has words, and no numbers: strings, dates or times."""
    return is_string(kind) or is_date(kind)


def is_date(kind: Any) -> bool:
    """Return whether a column of this type has dates or times."""
    kind = plain_type(kind)
    return bool(types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind))


def numbers_of(column: Any) -> Array:
    """Return the values of a column of numbers: (n,) float64, NaN for null."""
    column = plain_values(column)
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def words_of(column: Any) -> TextFields:
    """Return the words of a column; null becomes an empty word."""
    values, rows = _distinct(column)
    return _fields(word_column(values).fill_null(""), rows)


def _distinct(column: Any) -> tuple[Any, Any]:
    """Return a dictionary column's different values, and each row's index, -1 for null; else the column and a slice."""
    if not types.is_dictionary(column.type):
        return column, slice(0, len(column))
    values, places = column.dictionary, np.asarray(column.indices.cast(pyarrow.int64()).fill_null(-1))
    if types.is_string_view(values.type):
        values = values.cast(pyarrow.large_string())
    if len(values) > len(places):
        used = np.unique(places[places >= 0])
        values, places = values.take(pyarrow.array(used)), np.where(places < 0, -1, np.searchsorted(used, places))
    return values, places


def _fields(texts: Any, rows: Any) -> TextFields:
    """Return fields: field i is texts[rows[i]], or empty if rows[i] is -1. texts is a column of large strings."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    text = np.zeros(1, np.uint8)
    if data is not None and len(ends) and ends[-1] > ends[0]:  # a slice shares the text of the whole column
        text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    ends = ends - ends[:1]
    return TextFields(text, np.append(ends[:-1], 0)[rows], np.append(ends[1:], 0)[rows])


def word_column(column: Any) -> Any:
    """Return a column of large strings: the words of the values, see `values.word_of`; NaN becomes null."""
    kind = column.type
    if types.is_boolean(kind):
        return compute.if_else(column, "True", "False").cast(pyarrow.large_string())
    if not (types.is_floating(kind) or is_date(kind)):
        return compute.utf8_trim(column.cast(pyarrow.large_string()), BLANKS)
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    values = values.cast(pyarrow.string()) if is_date(kind) else values.to_numpy(zero_copy_only=False)
    words = [None if is_gap(value) else word_of(value) for value in (values.to_pylist() if is_date(kind) else values)]
    return pyarrow.array(words, pyarrow.large_string()).take(encoded.indices)


def written(batches: Iterator[Any]) -> Iterator[bytes]:
    """Yield the bytes of a stream of Arrow with these batches, a batch at a time."""
    sink, writer = io.BytesIO(), None
    for batch in batches:
        writer = writer or ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
        yield _taken(sink)
    if writer is not None:
        writer.close()
        yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def index_of(schema: Any) -> set[str]:
    """Return the names of the columns that are an index of pandas by the metadata that pandas wrote into the file."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, ValueError, TypeError):
        return set()
    return {name for name in columns if isinstance(name, str)} if isinstance(columns, list) else set()


class _ArrowBatch(FieldBatch):
    """A `FieldBatch`. The place of a field is its number, counted row by row. Arrow guarantees that words are UTF-8.

    columns  position -> column
    first    number, from 1, of the batch's first row in the input
    """

    is_text = True

    def __init__(self, columns: dict[int, Any], rows: int, n_columns: int, first: int) -> None:
        self.columns, self.rows, self.first = columns, rows, first
        self._n_columns = n_columns

    def numbers(self, places: Array, exact: bool) -> tuple[Array, Array | None]:
        values, missing = np.empty((self.rows, len(places))), np.zeros((self.rows, len(places)), bool)
        for k, place in enumerate(places.tolist()):
            column = self.columns[place]
            if not is_number(column.type):
                values[:, k], missing[:, k] = np.nan, True
                continue
            values[:, k] = numbers_of(column)
            if np.isnan(values[:, k]).any():
                missing[:, k] = np.asarray(column.is_null(nan_is_null=True))
        return values, missing

    def words(self, place: int) -> TextFields:
        return words_of(self.columns[place])

    def documents(self, place: int) -> tuple[TextFields, Array]:
        values, rows = _distinct(self.columns[place])
        texts = _fields(values.cast(pyarrow.large_string()).fill_null(""), rows)
        is_null = np.append(np.asarray(values.is_null()), True)[rows]
        return TextFields(np.append(texts.text, texts.text[:1]), texts.start, texts.stop), is_null

    def fault(self, row: int, column: int, kind: str) -> tuple[str, str]:
        one = self.columns[column].slice(row, 1)
        if np.asarray(one.is_null(nan_is_null=True))[0]:
            return "missing_value", "a value is missing"
        value = float(numbers_of(one)[0])
        return weight_misfit(value) if kind == "weight" else misfit(value)

    def place(self, row: int, column: int) -> int:
        return row * self._n_columns + column


class ArrowTableParser(TableParser):
    """A `Parser` of inputs of one or more tables, whose columns have any order. For other arguments see `Parser`.

    read       yields the tables (`stored.StoredTable`) of an input from its bytes
    has_lines  whether an error has the number of its row as `line`
    """

    has_lines = True
    _schema: Any = None

    def __init__(self, options: Any, limits: Any, read: Callable[[Iterable[bytes]], Iterator[Any]], *args: Any) -> None:
        super().__init__(options, limits, *args)
        self.format = options.format if options.format != "frames" else "arrow"
        self._read = read

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        first = self.first_row
        for table in self._read(chunks):
            places = self._settle(table.schema)
            n_columns = len(table.schema)
            for batch in table.batches(places, self.most_rows):
                columns = dict(zip(places, batch.columns, strict=True))
                yield from self.rows_in(_ArrowBatch(columns, batch.num_rows, n_columns, first))
                first += batch.num_rows
        self.check_end()

    def error_at(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
        assert isinstance(batch, _ArrowBatch)
        number, (code, message, _) = batch.first + row, fault
        line = number if self.has_lines else None
        return InputError(code, f"row {number}, {self._heading.shown(column)}: {message}", line=line)

    def _settle(self, schema: Any) -> Sequence[int]:
        """Settle what each column of a table holds; return the ascending positions of the columns that are read."""
        self._schema, names = schema, schema.names
        if not names:
            raise InputError("no_rows", "the table has no column")
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        try:
            self.settle_heading(Heading(None if self._options.header == "no" else names, len(names)))
            if self._names.type == "auto" and self._columns.label is not None:
                kind = schema.field(self._columns.label).type
                # Booleans are True and False, as in CSV.
                self._names.type = "string" if is_string(kind) or types.is_boolean(plain_type(kind)) else "number"
            maker = self.settle_features(self._word_columns, index_of(schema))
            self._check_types(maker)
        except InputError as error:
            error.line = error.line if self.has_lines else None
            raise
        return sorted({*self._columns.aside, *maker.number_places.tolist(), *maker.word_places})

    def _word_columns(self) -> set[int]:
        holds_words = is_words if self._options.categorical == ALL else is_string
        return {place for place, field in enumerate(self._schema) if holds_words(field.type)}

    def _check_types(self, maker: Maker | DocumentColumn) -> None:
        """Raise InputError column_type for a column whose type does not fit its use."""
        label = self._columns.label if self.to_predict is None else None
        numbers = {label, self._columns.weight, *maker.number_places.tolist()} - {None, *self.text_columns}
        for place in sorted(numbers):
            if not is_number(self._schema.field(place).type):
                raise self._column_type(place)
        if not isinstance(maker, MixedFeatures):
            for place in maker.word_places:
                if not is_string(self._schema.field(place).type):
                    raise self._column_type(place)

    def _column_type(self, place: int) -> InputError:
        kind, hint = self._schema.field(place).type, None
        if self._documents is not None:
            hint = "documents are strings, labels strings or numbers"
        elif self._options.string_column is None and place not in self._columns.aside:
            hint = type_hint(self._heading.option(place), self.is_new, is_date(kind), is_words(kind))
        return InputError("column_type", f"{self._heading.shown(place)} is of type {str(kind)[:40]}", hint=hint)
