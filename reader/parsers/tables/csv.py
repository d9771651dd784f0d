"""Turns CSV and TSV into rows of numbers, categories or strings of bases. `csv_lines` describes lines and quotes.

A kernel finds fields and reads numbers. Python looks at each field that the kernel cannot read, and finds the faults.
"""

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.label_names import groups_of
from streamsvm.reader.parsers.tables import fields_kernel as kernel
from streamsvm.reader.parsers.tables.categories import Fields, is_utf8
from streamsvm.reader.parsers.tables.columns import string_place
from streamsvm.reader.parsers.tables.csv_fields import BadQuote, field_fault, text_fault
from streamsvm.reader.parsers.tables.csv_lines import BAD_QUOTE, CsvLines
from streamsvm.reader.parsers.tables.hints import number_hint
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures, StringColumn
from streamsvm.reader.parsers.tables.mixed_columns import (
    ALL,
    MixedColumns,
    column_entries,
    columns_before,
    new_columns,
)
from streamsvm.reader.parsers.tables.mixed_lines import MixedLines
from streamsvm.storage.rows.csr import LABEL, Array, Rows

_MOST_COUNTED = 1 << 10  # columns of a line that has too many
Faults = dict[int, dict[int, tuple[Any, ...]]]  # row -> column -> code, message, place in the field


class CsvParser(CsvLines):
    """A `Parser` of tables whose columns are numbers, categories or strings. For the arguments see `CsvLines`."""

    _lines_read: MixedLines | None = None

    def settle_columns(self, begin: int, end: int) -> None:
        # Which columns hold words is seen in the first rows.
        if begin == end and self._options.categorical == ALL:
            return
        self._lines_read = MixedLines(self._heading.n_columns)
        place = string_place(self._options, self._heading, self._columns.aside)
        if place is not None:
            self._maker = StringColumn(place, self._options)
            self.index_base = 0
            return
        columns = self.feature_columns(begin, end)
        self._maker = MixedFeatures(columns, self._options, grows=self._labelled)
        format_ = "tsv" if self._options.format == "tsv" else "csv"
        self._column_entries = column_entries(format_, columns, self._columns, self._heading, self._options.like)
        self.set_features(self._maker.n_features)

    def feature_columns(self, begin: int, end: int) -> MixedColumns:
        """The columns that make features; the first rows lie between these offsets of the window."""
        aside, like = self._columns.aside, self._options.like
        if like:
            return columns_before(like, self._options, self._heading, aside)
        words = self._word_columns(begin, end) if self._options.categorical == ALL else set()
        return new_columns(self._options, self._heading, aside, words)

    def _word_columns(self, begin: int, end: int) -> set[int]:
        """Places of columns that have a word in these lines: a field that is no number, and not missing."""
        places: set[int] = set()
        text, lines = self._window.text, MixedLines(self._heading.n_columns)
        while begin < end:
            lines.rows, _, begin = kernel.split_lines(text, begin, end, self._delimiter, lines.start, lines.stop)
            if begin < end and not lines.full:
                begin = self._read_odd(lines, begin)
            places |= lines.word_columns(lines.text(text, self._window.filled), places)
            lines.clear()
        return places

    @property
    def _delimiter(self) -> int:
        assert self._reader is not None
        return self._reader.delimiter[0]

    def rows_between(self, begin: int, end: int) -> Iterator[Rows]:
        if self._lines_read is None:
            self.settle_columns(begin, end)
        lines, maker = self._lines_read, self._maker
        assert lines is not None and maker is not None
        window, is_text_ = self._window, bool(maker.word_places) and is_utf8(self._window.text[begin:end])
        while begin < end:
            n_rows, blank, begin = kernel.split_lines(
                window.text, begin, end, self._delimiter, lines.start[lines.rows :], lines.stop[lines.rows :]
            )
            lines.rows += n_rows
            self._blank_lines += blank
            if begin < end and not lines.full:
                begin = self._read_odd(lines, begin)
            if lines.full or begin >= end:
                rows = self._made(lines, maker, is_text_)
                lines.clear()
                if len(rows):
                    yield rows

    def _read_odd(self, lines: MixedLines, begin: int) -> int:
        """Read a line that the kernel cannot split; return where the next one begins."""
        assert self._reader is not None
        line, following = self._line(begin)
        n_columns = self._heading.n_columns
        most = max(n_columns, _MOST_COUNTED)
        try:
            fields = self._reader.split(line, most)
        except BadQuote as bad:
            lines.faults.append((begin + bad.args[0], "bad_quote", BAD_QUOTE))
            return following
        if len(fields) != n_columns:
            count = len(fields) if len(fields) <= most else f"more than {most}"
            lines.faults.append((begin, "column_count", f"the line has {count} columns, the first has {n_columns}"))
        else:
            lines.add_odd(fields, begin, self._window.filled)
        return following

    def _made(self, lines: MixedLines, maker: Maker, is_text_: bool) -> Rows:
        """Make rows of the lines, and reject those that cannot be read."""
        text, n = lines.text(self._window.text, self._window.filled), lines.rows
        faults: Faults = {}
        weight, group = self._columns.weight, self._columns.group
        texts = {k: self._texts(lines.fields(text, k), k, faults) for k in self.text_columns}
        aside = [k for k in (self._columns.label, weight) if k is not None and k not in texts]
        numbers = {k: self._aside(lines.fields(text, k), k, faults) for k in aside}
        words = {k: lines.fields(text, k) for k in maker.word_places}
        for k, fields in words.items():
            _note(faults, k, maker, fields, is_text_)
        table = self._table(text, lines, maker.number_places, faults)
        keep = np.ones(n, bool)
        keep[list(faults)] = False
        self._reject(lines, faults)
        labels = self._labels_of(numbers, texts, keep)
        good_words = [fields.select(keep) for fields in words.values()]
        made = maker.make(table if keep.all() else table[keep], good_words, self.index_base)
        self.set_features(maker.n_features)
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(np.array(texts[group], object)[keep].tolist())
        return self.give(Rows(labels, *made, weights, groups))

    def _reject(self, lines: MixedLines, faults: Faults) -> None:
        """Reject lines, and rows with the fault of their first bad column, in the order of the text."""
        placed = [(fault[0], partial(self._window.error, *fault)) for fault in lines.faults]
        for row, of_columns in faults.items():
            column = min(of_columns)
            place = lines.place(row, column) + of_columns[column][2]
            placed.append((place, partial(self._fault, place, lines, row, column, of_columns[column])))
        for _, fault in sorted(placed, key=itemgetter(0)):
            self.rejected.add(fault)

    def _fault(self, place: int, lines: MixedLines, row: int, column: int, fault: tuple[Any, ...]) -> InputError:
        """The error for a field with this code and message."""
        code, message, _ = fault
        hint = ""
        if code == "not_numeric":
            field = lines.field(lines.text(self._window.text, self._window.filled), row, column)
            is_new = self._labelled and self._options.like is None
            hint = number_hint(field, self._kind(column), self._heading.option(column), is_new)
        error = self._window.error(place, code, f"{self._heading.shown(column)}: {message}", hint)
        if code == "not_numeric" and error.line == 1:
            error.hint = f"set header=yes if the first line names the columns; else {hint}"
        return error

    def _labels_of(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        """Labels of the rows that can be read; NaN if the table has none, or has words where rows are not labelled."""
        label = self._columns.label
        if label is None or (label in texts and not self._labelled):
            return np.full(int(keep.sum()), np.nan)
        if label in texts:
            return self._labels.numbers(np.array(texts[label], object)[keep].tolist())
        return numbers[label][keep].astype(LABEL)

    def _table(self, text: Array, lines: MixedLines, places: Array, faults: Faults) -> Array:
        """(n, k) float64: the features in columns of numbers, NaN where one is missing."""
        values = np.empty((lines.rows, len(places)))
        if kernel.read_table(text, lines.start, lines.stop, places, values) == 0:
            return values
        may_miss = self._options.missing != "error"
        hard = np.isnan(values)
        if may_miss:
            hard &= (lines.stop > lines.start)[: lines.rows, places]
        for row, k in np.argwhere(hard).tolist():
            column = int(places[k])
            field = lines.field(text, row, column)
            fault = field_fault(field)
            if fault is None:
                values[row, k] = float(field)
            elif not (may_miss and fault[0] == "missing_value"):
                faults.setdefault(row, {})[column] = (*fault, 0)
        return values

    def _aside(self, fields: Fields, column: int, faults: Faults) -> Array:
        """(n,) float64: the numbers in a column of labels or weights."""
        kind = self._kind(column)
        values = np.empty(len(fields))
        kernel.read_doubles(fields.text, fields.start, fields.stop, values)
        hard = np.isnan(values)
        if kind == "weight":
            hard |= values < 0
        for row in np.flatnonzero(hard).tolist():
            fault = field_fault(fields[row], kind)
            if fault is None:
                values[row] = float(fields[row])
            else:
                faults.setdefault(row, {})[column] = (*fault, 0)
        return values

    def _texts(self, fields: Fields, column: int, faults: Faults) -> list[str]:
        """The strings in a column of labels or groups, "" for faults."""
        texts = []
        for row in range(len(fields)):
            field = fields[row]
            fault = text_fault(field)
            if fault is not None:
                faults.setdefault(row, {})[column] = (*fault, 0)
            texts.append("" if fault else field.decode())
        return texts


def _note(faults: Faults, column: int, maker: Maker, fields: Fields, is_text_: bool) -> None:
    """Add the faults of words to `faults`."""
    for row in np.flatnonzero(~maker.words_fit(fields, is_text_)).tolist():
        fault = maker.word_fault(fields[row])
        if fault is not None:
            faults.setdefault(row, {})[column] = fault
