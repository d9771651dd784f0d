"""Turns Parquet into rows, batch by batch: flat columns of numbers, and of words where CSV may have them.

Nulls are missing values.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import types

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import MOST_CHARACTERS, LabelNames, groups_of
from streamsvm.reader.parsers.matrices.matrix import misfit, weight_misfit
from streamsvm.reader.parsers.spool import size_of, spooled
from streamsvm.reader.parsers.tables.categories import Fields, is_utf8
from streamsvm.reader.parsers.tables.columns import Heading, find_columns, find_label
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures, StringColumn
from streamsvm.reader.parsers.tables.mixed_columns import (
    check_header,
    column_entries,
    columns_before,
    new_columns,
    string_place,
)
from streamsvm.reader.parsers.tables.parquet_file import (
    check_sizes,
    index_of,
    is_number,
    is_string,
    lengths,
    next_batch,
    numbers_of,
    open_table,
    strings_of,
)
from streamsvm.reader.parsers.tables.table import TableParser
from streamsvm.storage.rows.csr import LABEL, Array, Rows

_BATCH_VALUES = 1 << 20
_MOST_BATCH_ROWS = 1 << 16
_MISSING = ("missing_value", "a value is missing")

Fault = tuple[str, str]
Faults = dict[int, tuple[int, Fault]]  # row -> its first column that cannot be read, and the fault


class ParquetParser(TableParser):
    """A `Parser`. The input is stored in the directory `scratch`. A fault's `line` is the row's number."""

    def __init__(self, options: InputOptions, limits: Limits, scratch: Path, names: LabelNames | None = None) -> None:
        super().__init__(options, limits, names)
        self._scratch = scratch
        self._heading = Heading((), 0)

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
        with spooled(chunks, self._scratch) as file, open_table(file) as table:
            check_sizes(table.metadata, size_of(file), self._limits)
            self._set_columns(table.schema_arrow)
            batch_rows = max(1, min(_MOST_BATCH_ROWS, _BATCH_VALUES // self._heading.n_columns))
            wanted = [self._heading.name(place) for place in self._read_places()]
            batches = table.iter_batches(batch_rows, columns=wanted, use_threads=False)
            first = 1
            while (batch := next_batch(batches)) is not None:
                rows = self._read_batch(batch, first)
                first += batch.num_rows
                if len(rows):
                    yield rows
        self.check_end()

    def _set_columns(self, schema: Any) -> None:
        names = schema.names
        if not names:
            raise InputError("no_rows", "the table has no column")
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        self._heading = Heading(names, len(names))
        check_header(self._options, self._heading)
        label = find_label(self._options, self._heading)
        assert label is not None
        self._columns = find_columns(label, self._options, self._heading)
        if self._labels.type == "auto":
            self._labels.type = "string" if is_string(schema.field(label).type) else "number"
        self._settle_features(schema)

    def _settle_features(self, schema: Any) -> None:
        """Settle which of the other columns make features, and check their types."""
        heading, aside, options = self._heading, self._columns.aside, self._options
        place = string_place(options, heading, aside)
        if place is not None:
            if not is_string(schema.field(place).type):
                raise self._column_type(place, schema)
            self._maker = StringColumn(place, options)
            self.index_base = 0
        else:
            if options.like:
                columns = columns_before(options.like, options, heading, aside)
            else:
                words = {place for place in range(heading.n_columns) if is_string(schema.field(place).type)}
                columns = new_columns(options, heading, aside, words, index_of(schema))
            self._maker = MixedFeatures(columns, options)
            self._column_entries = column_entries("parquet", columns, self._columns, heading, options.like)
        for number in self._number_places(self._maker):
            if not is_number(schema.field(number).type):
                raise self._column_type(number, schema)
        self.set_features(self._maker.n_features)

    def _column_type(self, place: int, schema: Any) -> InputError:
        """The error for a column whose type does not fit its use."""
        return InputError(
            "column_type", f"{self._heading.shown(place)} is of type {str(schema.field(place).type)[:40]}"
        )

    def _read_places(self) -> list[int]:
        assert self._maker is not None
        return sorted({*self._columns.aside, *self._maker.number_places.tolist(), *self._maker.word_places})

    def _column(self, batch: Any, place: int) -> Any:
        return batch.column(batch.schema.get_field_index(self._heading.name(place)))

    def _number_places(self, maker: Maker) -> list[int]:
        aside = [k for k in (self._columns.label, self._columns.weight) if k is not None]
        return [k for k in (*aside, *maker.number_places.tolist()) if k not in self.text_columns]

    def _read_batch(self, batch: Any, first: int) -> Rows:
        """Read a batch, whose first row has the number `first`; reject rows with faults."""
        maker, faults = self._maker, Faults()
        assert maker is not None
        texts = {k: strings_of(self._column(batch, k)) for k in self.text_columns}
        for k, strings in texts.items():
            sizes = lengths(strings)
            _note(faults, k, np.nan_to_num(sizes, nan=np.inf) <= MOST_CHARACTERS, partial(_text_fault, sizes))
        numbers = {k: self._numbers(self._column(batch, k), k, faults) for k in self._number_places(maker)}
        words = {k: _fields(self._column(batch, k)) for k in maker.word_places}
        for k, fields in words.items():
            fit = maker.words_fit(fields, is_utf8(fields.text))
            _note(faults, k, fit, lambda row, fields=fields: maker.word_fault(fields[row]))
        keep = np.ones(batch.num_rows, bool)
        for row in sorted(faults):
            keep[row] = False
            column, (code, message) = faults[row]
            self.rejected.add(partial(self._fault_at, first + row, column, code, message))
        return self._made(maker, keep, numbers, texts, {k: fields.select(keep) for k, fields in words.items()})

    def _made(
        self,
        maker: Maker,
        keep: Array,
        numbers: dict[int, Array],
        texts: dict[int, Array],
        words: dict[int, Fields],
    ) -> Rows:
        label, weight, group = self._columns.label, self._columns.weight, self._columns.group
        assert label is not None
        if label in texts:
            labels = self._labels.numbers(texts[label][keep].tolist())
        else:
            labels = numbers[label][keep].astype(LABEL)
        table = np.empty((len(labels), len(maker.number_places)))
        for place, k in enumerate(maker.number_places.tolist()):
            table[:, place] = numbers[k][keep]
        made = maker.make(table, list(words.values()), self.index_base)
        self.set_features(maker.n_features)
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(texts[group][keep].tolist())
        return self.give(Rows(labels, *made, weights, groups))

    def _numbers(self, column: Any, place: int, faults: Faults) -> Array:
        """(n,) float64: the numbers of a column, NaN where a feature is missing; faults are added to `faults`."""
        values = numbers_of(column)
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


def _fields(column: Any) -> Fields:
    """The words of a column; null becomes an empty word."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    texts = column.cast(pyarrow.large_string()).fill_null("")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return Fields(text, ends[:-1], ends[1:])
