"""Turns tables of Arrow into rows, batch by batch: columns of numbers, and of words where CSV may have them.

Nulls are missing values.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.matrices.matrix import misfit, weight_misfit
from streamsvm.reader.parsers.tables import arrow
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.columns import Heading, type_hint
from streamsvm.reader.parsers.tables.fields import batch_rows
from streamsvm.reader.parsers.tables.mixed import Maker, StringColumn
from streamsvm.reader.parsers.tables.stored import Table, index_of
from streamsvm.reader.parsers.tables.table import Batch, Fault, TableParser
from streamsvm.storage.rows.csr import Array, Rows


class _ArrowBatch:
    """A `Batch`. A place is the number of a field, counted row by row; words are UTF-8, as Arrow says they are.

    columns  place -> column
    first    number of its first row
    """

    is_text = True

    def __init__(self, columns: dict[int, Any], rows: int, n_columns: int, first: int) -> None:
        self.columns, self.rows, self.first = columns, rows, first
        self._n_columns = n_columns
        self.bad_lines: list[tuple[int, Callable[[], InputError]]] = []

    def numbers(self, places: Array, exact: bool) -> tuple[Array, Array | None]:
        values, missing = np.empty((self.rows, len(places))), np.zeros((self.rows, len(places)), bool)
        for k, place in enumerate(places.tolist()):
            column = self.columns[place]
            if not arrow.is_number(column.type):
                values[:, k], missing[:, k] = np.nan, True
                continue
            values[:, k] = arrow.numbers_of(column)
            if np.isnan(values[:, k]).any():
                missing[:, k] = np.asarray(column.is_null(nan_is_null=True))
        return values, missing

    def words(self, place: int) -> Fields:
        return arrow.words_of(self.columns[place])

    def fault(self, row: int, column: int, kind: str) -> tuple[str, str]:
        one = self.columns[column].slice(row, 1)
        if np.asarray(one.is_null(nan_is_null=True))[0]:
            return "missing_value", "a value is missing"
        value = float(arrow.numbers_of(one)[0])
        return weight_misfit(value) if kind == "weight" else misfit(value)

    def place(self, row: int, column: int) -> int:
        return row * self._n_columns + column


class ArrowTableParser(TableParser):
    """A `Parser` of inputs that have several tables, whose columns have any order. For the arguments see `TableParser`.

    read       makes the tables of the bytes of an input
    first_row  the number of the input's first row, for faults
    has_lines  whether faults say in which row they are as their `line`
    """

    first_row = 1
    has_lines = True
    _schema: Any = None

    def __init__(
        self, options: Any, limits: Any, read: Callable[[Iterable[bytes]], Iterator[Table]], *args: Any
    ) -> None:
        super().__init__(options, limits, *args)
        self.format = options.format if options.format != "frames" else "arrow"
        self._read = read

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
        first = self.first_row
        for table in self._read(chunks):
            places = self._settle(table.schema)
            n_columns = len(table.schema)
            for batch in table.batches(places, batch_rows(n_columns)):
                columns = dict(zip(places, batch.columns, strict=True))
                rows = self.rows_of(_ArrowBatch(columns, batch.num_rows, n_columns, first))
                first += batch.num_rows
                if len(rows):
                    yield rows
        self.check_end()

    def error_at(self, batch: Batch, row: int, column: int, fault: Fault) -> InputError:
        assert isinstance(batch, _ArrowBatch)
        number, (code, message, _) = batch.first + row, fault
        line = number if self.has_lines else None
        return InputError(code, f"row {number}, {self._heading.shown(column)}: {message}", line=line)

    def _settle(self, schema: Any) -> Sequence[int]:
        """Settle what the columns of a table are; return the places of those that are read."""
        self._schema, names = schema, schema.names
        if not names:
            raise InputError("no_rows", "the table has no column")
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        try:
            self.settle_heading(Heading(None if self._options.header == "no" else names, len(names)))
            if self._labels.type == "auto" and self._columns.label is not None:
                kind = schema.field(self._columns.label).type
                self._labels.type = "string" if arrow.is_label_text(kind) else "number"
            maker = self.settle_features(self._word_columns, index_of(schema))
            self._check_types(maker)
        except InputError as error:
            error.line = error.line if self.has_lines else None
            raise
        return sorted({*self._columns.aside, *maker.number_places.tolist(), *maker.word_places})

    def _word_columns(self) -> set[int]:
        return {place for place, field in enumerate(self._schema) if arrow.is_words(field.type)}

    def _check_types(self, maker: Maker) -> None:
        """InputError column_type for a column whose type does not fit its use."""
        label = self._columns.label if self.to_predict is None else None
        numbers = {label, self._columns.weight, *maker.number_places.tolist()} - {None, *self.text_columns}
        for place in sorted(numbers):
            if not arrow.is_number(self._schema.field(place).type):
                raise self._column_type(place)
        if isinstance(maker, StringColumn):
            for place in maker.word_places:
                if not arrow.is_string(self._schema.field(place).type):
                    raise self._column_type(place)

    def _column_type(self, place: int) -> InputError:
        kind, hint = self._schema.field(place).type, None
        if self._options.string_column is None and place not in self._columns.aside:
            is_date, is_words = arrow.is_date(kind), arrow.is_words(kind)
            hint = type_hint(self._heading.option(place), self.is_new, is_date, is_words)
        return InputError("column_type", f"{self._heading.shown(place)} is of type {str(kind)[:40]}", hint=hint)
