"""Parquet with categories, missing numbers or strings of bases in it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import types

from reader.errors import InputError
from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers.categories import Fields, is_utf8
from reader.parsers.groups import groups_of
from reader.parsers.label_names import MOST_CHARACTERS, LabelNames
from reader.parsers.matrix import misfit, weight_misfit
from reader.parsers.mixed import MixedFeatures, StringColumn
from reader.parsers.mixed_columns import columns_before, like_before, new_columns, string_place, told_columns
from reader.parsers.parquet import ParquetParser, is_number, is_string, lengths, numbers_of, strings_of
from storage.csr import LABEL, Array, Rows

Fault = tuple[str, str]


class MixedParquetParser(ParquetParser):
    """As ParquetParser. What it makes is as in CSV; nulls are what is missing."""

    def __init__(self, options: InputOptions, limits: Limits, scratch: Path, names: LabelNames | None = None) -> None:
        super().__init__(like_before(options, labelled=True), limits, scratch, names)
        self._strings: StringColumn | None = None
        self._string_place = -1
        self._features: MixedFeatures | None = None
        self._told: dict[str, Any] = {}

    @property
    def input(self) -> dict[str, Any] | None:  # type: ignore[override]
        """What further tables need to make the same features."""
        if self._strings is not None:
            return {**self._strings.told(), "string_column": self._options.string_column}
        return None if self._features is None else {"format": "parquet", **self._told, **self._features.told()}

    def settle_features(self, schema: Any) -> None:
        n_columns, aside, options = len(self._names), self._columns.aside, self._options
        place = string_place(options, self._names, n_columns, aside)
        if place is not None:
            if not is_string(schema.field(place).type):
                raise self.column_type(place, schema)
            self._strings, self._string_place = StringColumn(options), place
            self.index_base = 0
        elif options.like:
            columns = columns_before(options.like, self._names, n_columns, aside, may_have_others=False)
        else:
            words = {place for place in range(n_columns) if is_string(schema.field(place).type)}
            columns = new_columns(options, self._names, n_columns, aside, words)
        if self._strings is None:
            self._features = MixedFeatures(columns, options)
            self._told = told_columns(columns, options, True, n_columns)
        for number in self._number_places():
            if not is_number(schema.field(number).type):
                raise self.column_type(number, schema)
        self._count_features()

    def _number_places(self) -> list[int]:
        aside = [k for k in (self._columns.label, self._columns.weight) if k is not None]
        features = self._features.columns.numbers if self._features else []
        return [k for k in (*aside, *features) if k not in self.text_columns]

    def read_batch(self, batch: Any, first: int) -> Rows:
        faults: dict[int, tuple[int, Fault]] = {}
        texts = {k: strings_of(batch.column(k)) for k in self.text_columns}
        for k, found in texts.items():
            sizes = lengths(found)
            _note(faults, k, np.nan_to_num(sizes, nan=np.inf) <= MOST_CHARACTERS, partial(_text_fault, sizes))
        numbers = {k: self._numbers(batch.column(k), k, faults) for k in self._number_places()}
        words = {k: _fields(batch.column(k)) for k in self._word_places()}
        for k, fields in words.items():
            if self._strings is not None:
                _note(faults, k, self._strings.fit(fields), lambda row, fields=fields: self._strings.fault(fields[row]))
            else:
                assert self._features is not None
                _note(
                    faults,
                    k,
                    self._features.words_fit(fields, is_utf8(fields.text)),
                    lambda row, fields=fields: self._word_fault(fields, row),
                )
        keep = np.ones(batch.num_rows, bool)
        for row in sorted(faults):
            keep[row] = False
            column, (code, message) = faults[row]
            self.rejected.add(partial(self._fault_at, first + row, column, code, message))
        return self._made(keep, numbers, texts, {k: fields.kept(keep) for k, fields in words.items()})

    def _word_fault(self, fields: Fields, row: int) -> Fault | None:
        assert self._features is not None
        return self._features.word_fault(fields[row])

    def _word_places(self) -> list[int]:
        if self._strings is not None:
            return [self._string_place]
        return self._features.columns.words if self._features else []

    def _made(self, keep: Array, numbers: dict[int, Array], texts: dict[int, Array], words: dict[int, Fields]) -> Rows:
        label, weight, group = self._columns.label, self._columns.weight, self._columns.group
        assert label is not None
        if label in texts:
            labels = self._labels.numbers(texts[label][keep].tolist())
        else:
            labels = numbers[label][keep].astype(LABEL)
        if self._strings is not None:
            made = self._strings.make(words[self._string_place])
        else:
            assert self._features is not None
            columns = self._features.columns
            values = [numbers[k][keep] for k in columns.numbers]
            table = np.stack(values, axis=1) if values else np.empty((len(labels), 0))
            made = self._features.make(table, [words[k] for k in columns.words], self.index_base)
        self._count_features()
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(texts[group][keep].tolist())
        return self.give(Rows(labels, *made, weights, groups))

    def _count_features(self) -> None:
        maker = self._strings or self._features
        assert maker is not None
        self.set_features(maker.n_features)

    def _numbers(self, column: Any, place: int, faults: dict[int, tuple[int, Fault]]) -> Array:
        """(n,) float64, nan where a feature is missing."""
        values = numbers_of(column)
        fit = self.fitting(values[:, None], [place])[:, 0]
        is_missing = np.asarray(column.is_null(nan_is_null=True))
        if place not in self._columns.aside and self._options.missing != "error":
            fit |= is_missing
        _note(
            faults,
            place,
            fit,
            lambda row: (
                _MISSING if is_missing[row] else _number_fault(float(values[row]), place == self._columns.weight)
            ),
        )
        return values

    def _fault_at(self, row: int, column: int, code: str, message: str) -> InputError:
        return InputError(code, f"row {row}, column {column + 1} ({self._names[column][:40]}): {message}", line=row)


_MISSING = ("missing_value", "a value is missing")


def _number_fault(value: float, is_weight: bool) -> Fault:
    return weight_misfit(value) if is_weight else misfit(value)


def _text_fault(sizes: Array, row: int) -> Fault:
    return _MISSING if np.isnan(sizes[row]) else ("label_too_long", f"the text has {sizes[row]:.0f} characters")


def _note(faults: dict[int, tuple[int, Fault]], column: int, fit: Array, fault_of: Any) -> None:
    """The first column of a row that cannot be read says what is wrong."""
    for row in np.flatnonzero(~fit).tolist():
        fault = fault_of(row)
        if fault is not None and (row not in faults or column < faults[row][0]):
            faults[row] = column, fault[:2]


def _fields(column: Any) -> Fields:
    """Words of a column, those that are null empty."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    texts = column.cast(pyarrow.large_string()).fill_null("")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return Fields(text, ends[:-1], ends[1:])
