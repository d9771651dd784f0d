"""CSV and TSV to rows of numbers, categories or strings of bases. Lines and quotes are as in `csv_lines`.

A kernel finds fields and reads numbers. What it leaves over is looked at field by field, which finds faults.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from streamsvm.reader.parsers.groups import groups_of
from streamsvm.reader.parsers.tables import fields_kernel as kernel
from streamsvm.reader.parsers.tables.categories import Fields, is_utf8
from streamsvm.reader.parsers.tables.csv_fields import BadQuote, field_fault, text_fault
from streamsvm.reader.parsers.tables.csv_lines import BAD_QUOTE, CsvLines
from streamsvm.reader.parsers.tables.mixed import Maker, MixedFeatures, StringColumn
from streamsvm.reader.parsers.tables.mixed_columns import (
    ALL,
    MixedColumns,
    columns_before,
    new_columns,
    string_place,
    told_columns,
)
from streamsvm.reader.parsers.tables.mixed_lines import MixedLines
from streamsvm.storage.rows.csr import LABEL, Array, Rows

_MOST_COUNTED = 1 << 10  # columns of a line that has too many
Faults = dict[int, dict[int, tuple[Any, ...]]]  # of a row: of a column: code, message, place in the field


class CsvParser(CsvLines):
    """CSV and TSV whose columns make features of numbers, categories or strings. Arguments are those of CsvLines."""

    _lines_read: MixedLines | None = None

    def settle_columns(self, begin: int, end: int) -> None:
        # What a column holds is seen in rows.
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
        self._told = told_columns(format_, columns, self._columns, self._heading, self._options.like)
        self.set_features(self._maker.n_features)

    def feature_columns(self, begin: int, end: int) -> MixedColumns:
        """The columns that make features; rows are between these offsets."""
        aside, like = self._columns.aside, self._options.like
        if like:
            return columns_before(like, self._options, self._heading, aside)
        words = self._word_columns(begin, end) if self._options.categorical == ALL else set()
        return new_columns(self._options, self._heading, aside, words)

    def _word_columns(self, begin: int, end: int) -> set[int]:
        """Columns with a field in these lines that is no number, and not missing."""
        found: set[int] = set()
        text, lines = self._window.text, MixedLines(self._heading.n_columns)
        while begin < end:
            lines.rows, _, begin = kernel.split_lines(text, begin, end, self._delimiter, lines.start, lines.stop)
            found |= lines.word_columns(text, found)
            if lines.rows == 0 and begin < end:
                begin = self._line(begin)[1]
        return found

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
            rows, blank, begin = kernel.split_lines(
                window.text, begin, end, self._delimiter, lines.start[lines.rows :], lines.stop[lines.rows :]
            )
            lines.rows += rows
            self._blank_lines += blank
            if begin < end and not lines.full:
                begin = self._read_odd(lines, begin)
            if lines.full or begin >= end:
                found = self._made(lines, maker, is_text_)
                lines.clear()
                if len(found):
                    yield found

    def _read_odd(self, lines: MixedLines, begin: int) -> int:
        """A line that the kernel leaves over; where the next one begins."""
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
            told = f"the line has {count} columns, the first has {n_columns}"
            lines.faults.append((begin, "column_count", told))
        else:
            lines.add_odd(fields, begin, self._window.filled)
        return following

    def _made(self, lines: MixedLines, maker: Maker, is_text_: bool) -> Rows:
        """The rows of lines that can be read."""
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
        labels = self._kept_labels(numbers, texts, keep)
        made_of = [fields.kept(keep) for fields in words.values()]
        made = maker.make(table if keep.all() else table[keep], made_of, self.index_base)
        self.set_features(maker.n_features)
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(np.array(texts[group], object)[keep].tolist())
        return self.give(Rows(labels, *made, weights, groups))

    def _reject(self, lines: MixedLines, faults: Faults) -> None:
        """Lines, and rows for the first column that cannot be read, in the order of the text."""
        found = list(lines.faults)
        for row, of in faults.items():
            column = min(of)
            code, message, offset = of[column]
            found.append((lines.place(row, column) + offset, code, f"{self._heading.shown(column)}: {message}"))
        for fault in sorted(found):
            self.rejected.add(partial(self._window.error, *fault))

    def _kept_labels(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        label = self._columns.label
        if label is None or (label in texts and not self._labelled):
            return np.full(int(keep.sum()), np.nan)
        if label in texts:
            return self._labels.numbers(np.array(texts[label], object)[keep].tolist())
        return numbers[label][keep].astype(LABEL)

    def _table(self, text: Array, lines: MixedLines, places: Array, faults: Faults) -> Array:
        """(n, k) float64 of the features that are numbers, nan where one is missing."""
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
        """(n,) float64 of labels or weights."""
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
        found = []
        for row in range(len(fields)):
            field = fields[row]
            fault = text_fault(field)
            if fault is not None:
                faults.setdefault(row, {})[column] = (*fault, 0)
            found.append("" if fault else field.decode())
        return found


def _note(faults: Faults, column: int, maker: Maker, fields: Fields, is_text_: bool) -> None:
    for row in np.flatnonzero(~maker.words_fit(fields, is_text_)).tolist():
        fault = maker.word_fault(fields[row])
        if fault is not None:
            faults.setdefault(row, {})[column] = fault
