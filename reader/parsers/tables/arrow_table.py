"""Turns tables of Arrow into rows, batch by batch: columns of numbers, and of words where CSV may have them.

Nulls are missing values.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import MOST_CHARACTERS, LabelNames, groups_of
from streamsvm.reader.parsers.matrices.matrix import misfit, weight_misfit
from streamsvm.reader.parsers.tables import arrow_types
from streamsvm.reader.parsers.tables.categories import Fields, is_utf8
from streamsvm.reader.parsers.tables.columns import Columns, Heading, find_columns, find_label, string_place
from streamsvm.reader.parsers.tables.hints import type_hint
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures, StringColumn
from streamsvm.reader.parsers.tables.mixed_columns import (
    MixedColumns,
    check_header,
    column_entries,
    columns_before,
    new_columns,
)
from streamsvm.reader.parsers.tables.parquet_file import index_of
from streamsvm.reader.parsers.tables.table import TableParser
from streamsvm.storage.rows.csr import LABEL, Array, Rows

_BATCH_VALUES = 1 << 20
_MOST_BATCH_ROWS = 1 << 16
_MISSING = ("missing_value", "a value is missing")

Fault = tuple[str, str]
Faults = dict[int, tuple[int, Fault]]  # row -> its first column that cannot be read, and the fault


class Table(NamedTuple):
    """A table of an input.

    schema   names and types of its columns
    batches  (names of columns, most rows of a batch) -> iterator of batches with these columns
    """

    schema: Any
    batches: Callable[[list[str], int], Iterator[Any]]


class ArrowTableParser(TableParser):
    """A `Parser` of inputs that have several tables, whose columns have any order.

    A fault's `line` is the row's number.

    labelled   False: labels are NaN, and no feature is added to those of options.like
    first_row  the number of the input's first row, for faults
    """

    format = "parquet"
    first_row = 1

    def __init__(
        self, options: InputOptions, limits: Limits, names: LabelNames | None = None, *, labelled: bool = True
    ) -> None:
        super().__init__(options, limits, names)
        self._labelled = labelled
        self._heading = Heading((), 0)
        self._schema: Any = None

    def tables(self, chunks: Iterable[bytes]) -> Iterator[Table]:
        """Yield the tables of an input."""
        raise NotImplementedError

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
        first = self.first_row
        for table in self.tables(chunks):
            self._set_columns(table.schema)
            most = max(1, min(_MOST_BATCH_ROWS, _BATCH_VALUES // self._heading.n_columns))
            wanted = [self._schema.names[place] for place in self._read_places()]
            for batch in table.batches(wanted, most):
                rows = self._read_batch(batch, first)
                first += batch.num_rows
                if len(rows):
                    yield rows
        self.check_end()

    def find_columns(self, heading: Heading) -> Columns:
        """The places of labels, weights and groups."""
        check_header(self._options, heading)
        label = find_label(self._options, heading)
        assert label is not None
        return find_columns(label, self._options, heading)

    def feature_columns(self) -> MixedColumns:
        """The columns that make features."""
        heading, aside, options, schema = self._heading, self._columns.aside, self._options, self._schema
        if like := options.like or (self.input if self._maker is not None else None):
            return columns_before(like, options, heading, aside)
        words = {place for place in range(heading.n_columns) if arrow_types.is_words(schema.field(place).type)}
        return new_columns(options, heading, aside, words, index_of(schema))

    def _set_columns(self, schema: Any) -> None:
        self._schema, names = schema, schema.names
        if not names:
            raise InputError("no_rows", "the table has no column")
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        self._heading = Heading(None if self._options.header == "no" else names, len(names))
        self._columns = self.find_columns(self._heading)
        if self._labels.type == "auto" and self._columns.label is not None:
            kind = schema.field(self._columns.label).type
            self._labels.type = "string" if arrow_types.is_label_text(kind) else "number"
        self._settle_features()

    def _settle_features(self) -> None:
        """Settle which of the other columns make features, and check their types."""
        heading, options, schema = self._heading, self._options, self._schema
        place = string_place(options, heading, self._columns.aside)
        if place is not None:
            if not arrow_types.is_string(schema.field(place).type):
                raise self._column_type(place)
            self._maker = self._maker or StringColumn(place, options)
            self.index_base = 0
        else:
            columns = self.feature_columns()
            if isinstance(self._maker, MixedFeatures):
                self._maker.columns = columns
            else:
                self._maker = MixedFeatures(columns, options, grows=self._labelled)
                self._column_entries = column_entries(self.format, columns, self._columns, heading, options.like)
        for number in self.number_places(self._maker):
            if not arrow_types.is_number(schema.field(number).type):
                raise self._column_type(number)
        self.set_features(self._maker.n_features)

    def _column_type(self, place: int) -> InputError:
        """The error for a column whose type does not fit its use."""
        kind, hint = self._schema.field(place).type, None
        if self._options.string_column is None and place not in self._columns.aside:
            is_new, is_date = self._labelled and self._options.like is None, arrow_types.is_date(kind)
            hint = type_hint(self._heading.option(place), is_new, is_date, arrow_types.is_words(kind))
        return InputError("column_type", f"{self._heading.shown(place)} is of type {str(kind)[:40]}", hint=hint)

    def _read_places(self) -> list[int]:
        assert self._maker is not None
        return sorted({*self._columns.aside, *self._maker.number_places.tolist(), *self._maker.word_places})

    def _column(self, batch: Any, place: int) -> Any:
        return batch.column(batch.schema.get_field_index(self._schema.names[place]))

    def number_places(self, maker: Maker) -> list[int]:
        """The places of the columns that are read as numbers."""
        aside = [k for k in (self._columns.label, self._columns.weight) if k is not None]
        return [k for k in (*aside, *maker.number_places.tolist()) if k not in self.text_columns]

    def _read_batch(self, batch: Any, first: int) -> Rows:
        """Read a batch, whose first row has the number `first`; reject rows with faults."""
        maker, faults = self._maker, Faults()
        assert maker is not None
        texts = {k: arrow_types.strings_of(self._column(batch, k)) for k in self.text_columns}
        for k, strings in texts.items():
            if self._is_judged(k):
                continue
            sizes = arrow_types.lengths(strings)
            _note(faults, k, np.nan_to_num(sizes, nan=np.inf) <= MOST_CHARACTERS, partial(_text_fault, sizes))
        numbers = {
            k: self._numbers(self._column(batch, k), k, Faults() if self._is_judged(k) else faults)
            for k in self.number_places(maker)
        }
        words = {k: arrow_types.words_of(self._column(batch, k)) for k in maker.word_places}
        for k, fields in words.items():
            fit = maker.words_fit(fields, is_utf8(fields.text))
            _note(faults, k, fit, lambda row, fields=fields: maker.word_fault(fields[row]))
        keep = np.ones(batch.num_rows, bool)
        for row in sorted(faults):
            keep[row] = False
            column, (code, message) = faults[row]
            self.rejected.add(partial(self._fault_at, first + row, column, code, message))
        return self._made(maker, keep, numbers, texts, {k: fields.select(keep) for k, fields in words.items()})

    def _is_judged(self, place: int) -> bool:
        """Whether a column has labels that only judge predictions: none of them is a fault."""
        return not self._labelled and place == self._columns.label

    def _made(
        self,
        maker: Maker,
        keep: Array,
        numbers: dict[int, Array],
        texts: dict[int, Array],
        words: dict[int, Fields],
    ) -> Rows:
        weight, group = self._columns.weight, self._columns.group
        labels = self.labels_of(numbers, texts, keep)
        table = np.empty((len(labels), len(maker.number_places)))
        for place, k in enumerate(maker.number_places.tolist()):
            table[:, place] = numbers[k][keep]
        made = maker.make(table, list(words.values()), self.index_base)
        self.set_features(maker.n_features)
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(texts[group][keep].tolist())
        return self.give(Rows(labels, *made, weights, groups))

    def labels_of(self, numbers: dict[int, Array], texts: dict[int, Array], keep: Array) -> Array:
        """The labels of the rows that can be read."""
        label = self._columns.label
        assert label is not None
        if label in texts:
            return self._labels.numbers(texts[label][keep].tolist())
        return numbers[label][keep].astype(LABEL)

    def _numbers(self, column: Any, place: int, faults: Faults) -> Array:
        """(n,) float64: the numbers of a column, NaN where a feature is missing; faults are added to `faults`."""
        values = arrow_types.numbers_of(column)
        fit = self.fitting(values, place)
        if fit.all():
            return values
        is_missing = np.asarray(column.is_null(nan_is_null=True))
        if place not in self._columns.aside and self._options.missing != "error":
            fit |= is_missing
        is_weight = place == self._columns.weight
        _note(
            faults,
            place,
            fit,
            lambda row: _MISSING if is_missing[row] else _number_fault(float(values[row]), is_weight),
        )
        return values

    def _fault_at(self, row: int, column: int, code: str, message: str) -> InputError:
        return InputError(code, f"row {row}, {self._heading.shown(column)}: {message}", line=row)


def _number_fault(value: float, is_weight: bool) -> Fault:
    return weight_misfit(value) if is_weight else misfit(value)


def _text_fault(sizes: Array, row: int) -> Fault:
    return _MISSING if np.isnan(sizes[row]) else ("label_too_long", f"the text has {sizes[row]:.0f} characters")


def _note(faults: Faults, column: int, fit: Array, fault_of: Any) -> None:
    """Add the faults of a column, unless the row has a fault in an earlier column."""
    for row in np.flatnonzero(~fit).tolist():
        fault = fault_of(row)
        if fault is not None and (row not in faults or column < faults[row][0]):
            faults[row] = column, fault[:2]
