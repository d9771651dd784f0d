"""CSV and TSV to rows, in bounded memory.

    line = field (delimiter field)* [CR] LF      field = content | '"' content '"', with blanks around

A content is a number; labels and groups may be strings.
All lines have as many fields as the first. numpy reads whole windows of lines. A window that it refuses, or may have
misread, is read line by line, which finds the fault and its place.
"""

import io
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers.columns import find_columns
from reader.parsers.csv_fields import (
    BadQuote,
    Field,
    FieldReader,
    field_fault,
    find_delimiter,
    is_missing,
    is_text,
    text_fault,
)
from reader.parsers.csv_head import has_header
from reader.parsers.label_names import MOST_CHARACTERS, LabelNames
from reader.parsers.matrix import column_number, label_by_name
from reader.parsers.sniff import HEAD_BYTES, refuse_foreign
from reader.parsers.table import TableParser, Texts
from reader.parsers.text_window import WINDOW_BYTES, TextWindow
from storage.csr import Array, Rows

BAD_QUOTE = "a quote that is not closed, or stands in a field"


class CsvParser(TableParser):
    """Reads one text, given in pieces of any size.

    options.label_column  by default the column called label, y, target or class; without a header the first
    labelled              False: every column is a feature, unless options.label_column names one; labels are NaN then
    names                 of labels that are strings
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
        super().__init__(options, limits, names)
        self._window = TextWindow(limits.max_line_bytes, max(window_bytes, 2 * HEAD_BYTES))
        self._labelled = labelled
        self._lines = 0
        self._names: list[str] | None = None
        self._n_columns = 0
        self._reader: FieldReader | None = None

    @property
    def has_names(self) -> bool:
        """Whether the first line names the columns, as far as it has been read."""
        return self._names is not None

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """The rows in batches of up to about 4 MiB of text. InputError at the first fault, unless rows are skipped."""
        window = self._window
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[window.take(rest) :]
                if window.full:
                    yield from self._read_lines()
                    window.make_room(self._lines)
        window.end_last_line()
        yield from self._read_lines()
        self.check_end()

    def _read_lines(self) -> Iterator[Rows]:
        window = self._window
        if self._lines == window.begin == 0:
            window.skip_mark()
            refuse_foreign(bytes(window.buffer[window.begin : min(window.begin + HEAD_BYTES, window.filled)]))
        end = window.lines_end()
        begin = self._read_head(window.begin, end) if self._reader is None else window.begin
        if begin < end:
            if self._labels.type == "auto":
                self._settle_type(begin, end)
            yield from self.rows_between(begin, end)
        self._lines += window.buffer.count(b"\n", window.begin, end)
        window.begin = end
        window.check_tail()

    def rows_between(self, begin: int, end: int) -> Iterator[Rows]:
        """Those of the whole lines at these offsets of the window."""
        table, texts = self._read_fast(bytes(self._window.buffer[begin:end])) or self._read_slowly(begin, end)
        if len(table):
            yield self.give_columns(table, texts, labelled=self._labelled)

    def settle_columns(self, begin: int, end: int) -> None:
        """What the columns are: the first line is known, and rows begin at this offset."""
        self.set_features(self._n_columns - len(self._columns.aside))

    def _settle_type(self, begin: int, end: int) -> None:
        """Labels are of the type of the first that is there."""
        assert self._reader is not None
        while begin < end and self._columns.label is not None:
            line, begin = self._line(begin)
            try:
                fields = self._reader.split(line)
            except BadQuote:
                continue
            if len(fields) == self._n_columns and not is_missing(fields[self._columns.label][1]):
                self._labels.type = "string" if is_text(fields[self._columns.label][1]) else "number"
                return

    def _read_head(self, begin: int, end: int) -> int:
        """Find out the columns from the first line that is not blank; where the first row begins."""
        while begin < end:
            line, following = self._line(begin)
            if line.strip():
                break
            self._blank_lines += 1
            begin = following
        else:
            return end
        try:
            given = "tab" if self._options.format == "tsv" else self._options.delimiter
            reader = FieldReader(find_delimiter(line, given, may_be_one=not self._labelled))
            fields = reader.split(line)
        except BadQuote as bad:
            raise self._window.error(begin + bad.args[0], "bad_quote", BAD_QUOTE) from None
        names_columns = self._has_header(reader, fields, following, end)
        if names_columns:
            self._names = [name.decode(errors="replace") for _, name in fields]
            for number, (place, name) in enumerate(fields):
                if name and self._names.index(self._names[number]) < number:
                    raise self._window.error(begin + place, "duplicate_column", "a column name stands twice")
        self._reader, self._n_columns = reader, len(fields)
        self._columns = find_columns(self._find_label(), self._options, self._names, self._n_columns)
        begin = following if names_columns else begin
        self.settle_columns(begin, end)
        return begin

    def _has_header(self, reader: FieldReader, fields: list[Field], following: int, end: int) -> bool:
        """Whether the first line, of these fields, names the columns; the next one begins at `following`."""
        if self._options.header != "auto":
            return self._options.header == "yes"
        second = self._line(following)[0] if following < end else b""
        return has_header(fields, second, reader, self._options, self._labelled)

    def _find_label(self) -> int | None:
        wanted = self._options.label_column
        if wanted is not None:
            return column_number(wanted, self._names, self._n_columns)
        if not self._labelled:
            return None
        return 0 if self._names is None else label_by_name(self._names)

    def _read_fast(self, text: bytes) -> tuple[Array, Texts] | None:
        """The table of a text of whole lines; None if it has any oddity."""
        assert self._reader is not None
        text = self._reader.unquoted(text)
        if b'"' in text or text.isspace() or text.count(b"\r") != text.count(b"\r\n"):
            return None
        delimiter = self._reader.delimiter.decode()
        texts: dict[int, list[str]] = {column: [] for column in self.text_columns}
        converters: dict[int | str, Any] = {column: partial(_set_aside, found) for column, found in texts.items()}
        try:
            lines = io.StringIO(text.decode("ascii"))
            table = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2, converters=converters or None)
        except ValueError:
            return None
        if table.shape != (text.count(b"\n"), self._n_columns):
            return None
        are_good = all(0 < len(field) <= MOST_CHARACTERS for found in texts.values() for field in found)
        return (table, texts) if are_good and self.fitting(table).all() else None

    def _read_slowly(self, begin: int, end: int) -> tuple[Array, Texts]:
        assert self._reader is not None
        rows: list[list[bytes]] = []
        while begin < end:
            line, following = self._line(begin)
            # A line of tabs may be a row without any value.
            if line.strip() or self._reader.delimiter in line:
                self._read_row(rows, begin, line)
            else:
                self._blank_lines += 1
            begin = following
        texts = {column: [row[column].decode() for row in rows] for column in self.text_columns}
        numbers = [[0.0 if k in texts else float(field) for k, field in enumerate(row)] for row in rows]
        return np.array(numbers).reshape(len(rows), self._n_columns), texts

    def _read_row(self, rows: list[list[bytes]], begin: int, line: bytes) -> None:
        assert self._reader is not None
        try:
            fields = self._reader.split(line)
        except BadQuote as bad:
            self._reject(begin + bad.args[0], "bad_quote", BAD_QUOTE)
            return
        if len(fields) != self._n_columns:
            self._reject_count(begin, len(fields))
            return
        for number, (place, field) in enumerate(fields):
            fault = text_fault(field) if number in self.text_columns else field_fault(field, self._kind(number))
            if fault is not None:
                self._reject(begin + place, fault[0], f"column {self._column(number)}: {fault[1]}")
                return
        rows.append([field for _, field in fields])

    def _kind(self, column: int) -> str:
        return {self._columns.label: "label", self._columns.weight: "weight"}.get(column, "field")

    def _reject_count(self, line: int, count: int) -> None:
        self._reject(line, "column_count", f"the line has {count} columns, the first has {self._n_columns}")

    def _reject(self, place: int, code: str, message: str) -> None:
        self.rejected.add(partial(self._window.error, place, code, message))

    def _column(self, number: int) -> str:
        return str(number + 1) if self._names is None else f"{number + 1} ({self._names[number][:40]})"

    def _line(self, begin: int) -> tuple[bytes, int]:
        """The line at `begin` without its end, and where the next one begins."""
        end = self._window.buffer.index(b"\n", begin)
        return bytes(self._window.buffer[begin:end]).removesuffix(b"\r"), end + 1


def _set_aside(found: list[str], field: str) -> float:
    found.append(field.strip(" \t"))
    return 0.0
