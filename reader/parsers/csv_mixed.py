"""CSV and TSV with categories, missing numbers or strings of bases in them. Lines and quotes are as in `csv`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers import fields_kernel as kernel
from reader.parsers.categories import Fields, is_utf8
from reader.parsers.csv import BAD_QUOTE, CsvParser
from reader.parsers.csv_fields import BadQuote, field_fault, is_text, text_fault
from reader.parsers.groups import groups_of
from reader.parsers.label_names import LabelNames
from reader.parsers.mixed import MixedFeatures, StringColumn
from reader.parsers.mixed_columns import ALL, columns_before, like_before, new_columns, string_place, told_columns
from reader.parsers.mixed_lines import MixedLines
from reader.parsers.text_window import WINDOW_BYTES
from storage.csr import LABEL, Array, Rows


class MixedCsvParser(CsvParser):
    """As CsvParser.

    grows     whether categories that are new make features
    unknown   categories that make none
    """

    def __init__(
        self,
        options: InputOptions,
        limits: Limits,
        names: LabelNames | None = None,
        *,
        labelled: bool = True,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        options = like_before(options, labelled)
        super().__init__(options, limits, names, labelled=labelled, window_bytes=window_bytes)
        self._lines_read: MixedLines | None = None
        self._strings: StringColumn | None = None
        self._string_place = -1
        self._features: MixedFeatures | None = None
        self._told: dict[str, Any] = {}

    @property
    def input(self) -> dict[str, Any] | None:  # type: ignore[override]
        """What further tables need to make the same features."""
        if self._strings is not None:
            return {**self._strings.told(), "string_column": self._options.string_column}
        if self._features is None:
            return None
        return {"format": self._options.format, **self._told, **self._features.told()}

    @property
    def unknown(self) -> int:
        return self._features.unknown if self._features else 0

    def settle_columns(self, begin: int, end: int) -> None:
        # What a column holds is seen in rows.
        if begin == end and self._options.categorical == ALL:
            return
        self._lines_read = MixedLines(self._n_columns)
        aside, like, names = self._columns.aside, self._options.like, self._names
        place = string_place(self._options, names, self._n_columns, aside)
        if place is not None:
            self._strings, self._string_place = StringColumn(self._options), place
            self.index_base = 0
            return
        if like:
            columns = columns_before(like, names, self._n_columns, aside, may_have_others=not self._labelled)
        else:
            words = self._word_columns(begin, end) if self._options.categorical == ALL else set()
            columns = new_columns(self._options, names, self._n_columns, aside, words)
        self._features = MixedFeatures(columns, self._options, grows=self._labelled)
        self._told = told_columns(columns, self._options, names is not None, self._n_columns)
        self._count_features()

    def _word_columns(self, begin: int, end: int) -> set[int]:
        """Columns with a field in these lines that is no number, and not missing."""
        found: set[int] = set()
        lines = MixedLines(self._n_columns)
        while begin < end:
            rows, begin = kernel.split_lines(self._window.text, begin, end, self._delimiter, lines.start, lines.stop)
            for column in set(range(self._n_columns)) - found:
                fields = Fields(self._window.text, lines.start[:rows, column], lines.stop[:rows, column])
                if _holds_word(fields):
                    found.add(column)
            if rows == 0:
                begin = self._line(begin)[1]
        return found

    @property
    def _delimiter(self) -> int:
        assert self._reader is not None
        return self._reader.delimiter[0]

    def rows_between(self, begin: int, end: int) -> Iterator[Rows]:
        if self._lines_read is None:
            self.settle_columns(begin, end)
        lines = self._lines_read
        assert lines is not None and self._reader is not None
        window, is_text_ = self._window, is_utf8(self._window.text[begin:end])
        while begin < end:
            rows, begin = kernel.split_lines(
                window.text, begin, end, self._delimiter, lines.start[lines.rows :], lines.stop[lines.rows :]
            )
            lines.rows += rows
            if begin < end and not lines.full:
                begin = self._read_odd(lines, begin)
            if lines.full or begin >= end:
                found = self._made(lines, is_text_)
                lines.clear()
                if len(found):
                    yield found

    def _read_odd(self, lines: MixedLines, begin: int) -> int:
        """A line that the kernel leaves over; where the next one begins."""
        assert self._reader is not None
        line, following = self._line(begin)
        if not line.strip() and self._reader.delimiter not in line:
            self._blank_lines += 1
            return following
        try:
            fields = self._reader.split(line)
        except BadQuote as bad:
            self._reject(begin + bad.args[0], "bad_quote", BAD_QUOTE)
            return following
        if len(fields) != self._n_columns:
            self._reject_count(begin, len(fields))
        else:
            lines.add_odd(fields, begin, self._window.filled)
        return following

    def _made(self, lines: MixedLines, is_text_: bool) -> Rows:
        """The rows of lines that can be read."""
        text, n = lines.text(self._window.text, self._window.filled), lines.rows
        fields = [Fields(text, lines.start[:n, k], lines.stop[:n, k]) for k in range(self._n_columns)]
        faults: dict[int, dict[int, tuple[Any, ...]]] = {}
        weight, group = self._columns.weight, self._columns.group
        numbers = {k: self._numbers(fields[k], k, faults) for k in self._number_places()}
        texts = {k: self._texts(fields[k], k, faults) for k in self.text_columns}
        if self._strings is not None:
            _note(
                faults,
                self._string_place,
                self._strings.fit(fields[self._string_place]),
                partial(self._string_fault, fields[self._string_place]),
            )
        else:
            assert self._features is not None
            for k in self._features.columns.words:
                fit = self._features.words_fit(fields[k], is_text_)
                _note(faults, k, fit, partial(self._word_fault, fields[k]))
        keep = np.ones(n, bool)
        for row in sorted(faults):
            keep[row] = False
            column = min(faults[row])
            code, message, offset = faults[row][column]
            self._reject(lines.place(row, column) + offset, code, f"column {self._column(column)}: {message}")
        labels = self._kept_labels(numbers, texts, keep)
        made_of = [each.kept(keep) for each in fields]
        if self._strings is not None:
            made = self._strings.make(made_of[self._string_place])
        else:
            assert self._features is not None
            columns = self._features.columns
            values = [numbers[k][keep] for k in columns.numbers]
            table = np.stack(values, axis=1) if values else np.empty((int(keep.sum()), 0))
            made = self._features.make(table, [made_of[k] for k in columns.words], self.index_base)
        self._count_features()
        weights = None if weight is None else numbers[weight][keep]
        groups = None if group is None else groups_of(np.array(texts[group], object)[keep].tolist())
        return self.give(Rows(labels, *made, weights, groups))

    def _count_features(self) -> None:
        maker = self._strings or self._features
        assert maker is not None
        self.set_features(maker.n_features)

    def _kept_labels(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        label = self._columns.label
        if label is None or (label in texts and not self._labelled):
            return np.full(int(keep.sum()), np.nan)
        if label in texts:
            return self._labels.numbers(np.array(texts[label], object)[keep].tolist())
        return numbers[label][keep].astype(LABEL)

    def _number_places(self) -> list[int]:
        aside = [k for k in (self._columns.label, self._columns.weight) if k is not None]
        features = self._features.columns.numbers if self._features else []
        return [k for k in (*aside, *features) if k not in self.text_columns]

    def _numbers(self, fields: Fields, column: int, faults: dict[int, dict[int, Any]]) -> Array:
        """(n,) float64, nan where a feature is missing."""
        kind = self._kind(column)
        values = np.empty(len(fields))
        kernel.read_numbers(fields.text, fields.start, fields.stop, kind != "field", values)
        may_miss = kind == "field" and self._options.missing != "error"
        hard = np.isnan(values)
        if kind == "weight":
            hard |= values < 0
        for row in np.flatnonzero(hard).tolist():
            field = fields[row]
            fault = field_fault(field, kind)
            if fault is None:
                values[row] = float(field)
            elif not (may_miss and fault[0] == "missing_value"):
                faults.setdefault(row, {})[column] = (*fault, 0)
        return values

    def _texts(self, fields: Fields, column: int, faults: dict[int, dict[int, Any]]) -> list[str]:
        found = []
        for row in range(len(fields)):
            field = fields[row]
            fault = text_fault(field)
            if fault is not None:
                faults.setdefault(row, {})[column] = (*fault, 0)
            found.append("" if fault else field.decode())
        return found

    def _word_fault(self, fields: Fields, row: int) -> tuple[str, str, int] | None:
        assert self._features is not None
        fault = self._features.word_fault(fields[row])
        return fault and (*fault, 0)

    def _string_fault(self, fields: Fields, row: int) -> tuple[str, str, int] | None:
        assert self._strings is not None
        return self._strings.fault(fields[row])


def _holds_word(fields: Fields) -> bool:
    values = np.empty(len(fields))
    kernel.read_numbers(fields.text, fields.start, fields.stop, False, values)
    return any(is_text(fields[row]) for row in np.flatnonzero(np.isnan(values)).tolist())


def _note(faults: dict[int, dict[int, Any]], column: int, fit: Array, fault_of: Any) -> None:
    for row in np.flatnonzero(~fit).tolist():
        fault = fault_of(row)
        if fault is not None:
            faults.setdefault(row, {})[column] = fault
