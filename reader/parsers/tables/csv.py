"""Turns CSV and TSV into rows of numbers, categories or strings of bases. `csv_lines` describes lines and quotes.

A kernel finds fields and reads numbers. Python looks at each field that the kernel cannot read, and finds the faults.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.reader.parsers.tables.categories import is_utf8
from streamsvm.reader.parsers.tables.columns import number_hint
from streamsvm.reader.parsers.tables.csv_lines import BAD_QUOTE, CsvLines
from streamsvm.reader.parsers.tables.fields import BadQuote, Field, TextBatch, batch_rows, decoded
from streamsvm.reader.parsers.tables.mixed_columns import ALL
from streamsvm.reader.parsers.tables.table import Batch, Fault
from streamsvm.reader.parsers.text_window import TextWindow
from streamsvm.storage.rows.csr import Rows

_MOST_COUNTED = 1 << 10  # columns of a line that has too many


class _Lines(TextBatch):
    """A batch of lines of a window. Fields of lines that the kernel cannot split are copied behind its text."""

    def __init__(self, n_columns: int) -> None:
        shape = batch_rows(n_columns), n_columns
        super().__init__(np.empty(0, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32))
        self.clear()

    def clear(self) -> None:
        """Begin a new batch."""
        self.rows = 0
        self.bad_lines = []
        self._begins: dict[int, list[int]] = {}  # row -> places in the window of the fields that were copied
        self._further = bytearray()

    @property
    def full(self) -> bool:
        """Whether there is no room for a further line."""
        return self.rows == len(self.start)

    def add_odd(self, fields: list[Field], line: int, filled: int) -> None:
        """Copy the fields of a line that begins at `line` in the window, whose text ends at `filled`."""
        self._begins[self.rows] = [line + place for place, _ in fields]
        for column, (_, content) in enumerate(fields):
            self.start[self.rows, column] = filled + len(self._further)
            self.stop[self.rows, column] = filled + len(self._further) + len(content)
            self._further += content + b"\n"
        self.rows += 1

    def of(self, window: TextWindow) -> "_Lines":
        """The batch, whose fields are in this window from now on."""
        self.text = window.text
        if self._further:
            self.text = np.concatenate((window.text[: window.filled], np.frombuffer(bytes(self._further), np.uint8)))
        return self

    def place(self, row: int, column: int) -> int:
        return self._begins[row][column] if row in self._begins else int(self.start[row, column])


class CsvParser(CsvLines):
    """A `Parser` of tables whose columns are numbers, categories or strings. For the arguments see `TableParser`."""

    _lines: _Lines | None = None

    def settle_columns(self, begin: int, end: int) -> None:
        # Which columns hold words is seen in the first rows.
        if begin == end and self._options.categorical == ALL:
            return
        self._lines = _Lines(self._heading.n_columns)
        self.settle_features(partial(self._word_columns, begin, end))

    def _word_columns(self, begin: int, end: int) -> set[int]:
        """Places of columns that have a word in these lines: a field that is no number, and not missing."""
        places, lines = set[int](), _Lines(self._heading.n_columns)
        while begin < end:
            lines.rows, _, begin = kernel.split_lines(
                self._window.text, begin, end, self._delimiter, lines.start, lines.stop
            )
            if begin < end and not lines.full:
                begin = self._read_odd(lines, begin)
            places |= lines.of(self._window).word_columns(places)
            lines.clear()
        return places

    @property
    def _delimiter(self) -> int:
        assert self._reader is not None
        return self._reader.delimiter[0]

    def rows_between(self, begin: int, end: int) -> Iterator[Rows]:
        if self._lines is None:
            self.settle_columns(begin, end)
        lines, window = self._lines, self._window
        assert lines is not None and self._maker is not None
        lines.is_text = bool(self._maker.word_places) and is_utf8(window.text[begin:end])
        while begin < end:
            n_rows, blank, begin = kernel.split_lines(
                window.text, begin, end, self._delimiter, lines.start[lines.rows :], lines.stop[lines.rows :]
            )
            lines.rows += n_rows
            self._blank_lines += blank
            if begin < end and not lines.full:
                begin = self._read_odd(lines, begin)
            if lines.full or begin >= end:
                rows = self.rows_of(lines.of(window))
                if self.to_predict is not None and self.to_predict.beside.names:
                    self._put_beside(lines)
                lines.clear()
                if len(rows):
                    yield rows

    def _read_odd(self, lines: _Lines, begin: int) -> int:
        """Read a line that the kernel cannot split; return where the next one begins."""
        assert self._reader is not None
        line, following = self._line(begin)
        n_columns = self._heading.n_columns
        most = max(n_columns, _MOST_COUNTED)
        try:
            fields = self._reader.split(line, most)
        except BadQuote as bad:
            self._note_line(lines, begin + bad.args[0], "bad_quote", BAD_QUOTE)
            return following
        if len(fields) != n_columns:
            count = len(fields) if len(fields) <= most else f"more than {most}"
            self._note_line(lines, begin, "column_count", f"the line has {count} columns, the first has {n_columns}")
        else:
            lines.add_odd(fields, begin, self._window.filled)
        return following

    def _note_line(self, lines: _Lines, place: int, code: str, message: str) -> None:
        lines.bad_lines.append((place, partial(self._window.error, place, code, message)))

    def _put_beside(self, lines: TextBatch) -> None:
        assert self.to_predict is not None
        beside = self.to_predict.beside
        columns = map(lines.words, self._heading.places_of(beside.names, "keep"))
        beside.put([decoded([each[row] for row in range(len(each))]) for each in columns])

    def error_at(self, batch: Batch, row: int, column: int, fault: Fault) -> InputError:
        code, message, offset = fault
        hint = ""
        if code == "not_numeric":
            assert isinstance(batch, TextBatch)
            hint = number_hint(batch.field(row, column), self.kind(column), self._heading.option(column), self.is_new)
        place = batch.place(row, column) + offset
        error = self._window.error(place, code, f"{self._heading.shown(column)}: {message}", hint)
        if code == "not_numeric" and error.line == 1:
            error.hint = f"set header=yes if the first line names the columns; else {hint}"
        return error
