"""Turns CSV and TSV into rows of numbers, categories or strings of bases; the first line may name the columns.

    line = field (delimiter field)* [CR] LF      field = content | '"' content '"', with blanks around

The content is a number; in columns of labels, groups and categories it may be a string. All lines have as many fields
as the first line. A kernel finds fields and reads numbers. Python code reads each field that the kernel cannot read,
and finds the faults.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.sniff import lines_of, with_head
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.reader.parsers.tables.categories import is_utf8
from streamsvm.reader.parsers.tables.columns import MOST_COLUMNS, UNNAMED, Heading, number_hint, too_many_columns
from streamsvm.reader.parsers.tables.csv_head import LOOK_LINES, has_header, rewritten, stands_between_blanks
from streamsvm.reader.parsers.tables.fields import (
    BadQuote,
    Field,
    FieldBatch,
    FieldReader,
    TextBatch,
    batch_rows,
    decoded,
    find_delimiter,
    mostly_words,
)
from streamsvm.reader.parsers.tables.mixed_columns import ALL
from streamsvm.reader.parsers.tables.table import Fault, TableParser
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Rows

_LOOK_FIELDS = 1 << 16  # most fields below the first line that are read to tell names of columns from a row
_MOST_COUNTED = 1 << 10  # most columns that are counted in a line with too many
_NO_DELIMITER = -1
_SEPARATOR = re.compile(rb'"?sep=([,;|\t])"?', re.IGNORECASE)
_DELIMITERS = re.compile(rb"[,;|\t]")
_BAD_QUOTE = "a quote that is not closed, or stands in a field"


class _LineBatch(TextBatch):
    """A batch of lines of a `TextWindow`. If the kernel cannot split a line, its fields are copied behind the text."""

    def __init__(self, n_columns: int) -> None:
        shape = batch_rows(n_columns), n_columns
        super().__init__(np.empty(0, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32))
        self.clear()

    def clear(self) -> None:
        """Begin a new batch."""
        self.rows = 0
        self.bad_lines = []
        self._begins: dict[int, list[int]] = {}  # row -> offsets in the window of fields that were copied
        self._further = bytearray()

    @property
    def full(self) -> bool:
        """Whether there is no room for a further line."""
        return self.rows == len(self.start)

    def add_odd(self, fields: list[Field], line: int, filled: int) -> None:
        """Add a row of copies of `fields`. Its line is at offset `line` of the window, whose text ends at `filled`."""
        self._begins[self.rows] = [line + place for place, _ in fields]
        for column, (_, content) in enumerate(fields):
            self.start[self.rows, column] = filled + len(self._further)
            self.stop[self.rows, column] = filled + len(self._further) + len(content)
            self._further += content + b"\n"
        self.rows += 1

    def of(self, window: TextWindow) -> "_LineBatch":
        """Set `text` to the window's text and the copied fields; return the batch."""
        self.text = window.text
        if self._further:
            self.text = np.concatenate((window.text[: window.filled], np.frombuffer(bytes(self._further), np.uint8)))
        return self

    def place(self, row: int, column: int) -> int:
        return self._begins[row][column] if row in self._begins else int(self.start[row, column])


class CsvParser(TableParser):
    """A `Parser` of CSV and TSV. For the arguments see `TableParser`."""

    window_bytes = WINDOW_BYTES
    _window: TextWindow  # `parse_chunks` makes it
    _reader: FieldReader | None = None
    _lines: _LineBatch | None = None

    @property
    def format(self) -> str:  # type: ignore[override]
        return "tsv" if self._options.format == "tsv" else "csv"

    @property
    def delimiter(self) -> str | None:  # type: ignore[override]
        return None if self._reader is None else self._options.delimiter or self._reader.delimiter.decode()

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows in batches. Raises InputError at the first fault, unless faulty rows are skipped."""
        self._window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        head, chunks = with_head(chunks)
        first = next((line for line in lines_of(head) if not line.startswith(b"#")), b"")
        has_blanks = self._options.format != "tsv" and stands_between_blanks(first, self._options.delimiter)
        if has_blanks:
            self._options = replace(self._options, delimiter="space")
        for _ in self._window.fill(rewritten(chunks, self._options, has_blanks)):
            yield from self._read_lines()
        self.check_end()

    def _read_lines(self) -> Iterator[Rows]:
        window = self._window

        end = window.lines_end()
        begin = self._read_head(window.begin, end) if self._reader is None else window.begin
        if begin < end:
            yield from self._rows_between(begin, end)

        window.begin = end
        window.check_tail()

    def _read_head(self, begin: int, end: int) -> int:
        """Settle the columns by the first line of the table; return the offset of the first row."""
        line, following = b"", begin
        while not line or self._is_remark(line, following, end):
            skipped, begin = kernel.skip_blank(self._window.text, following, end, _NO_DELIMITER)
            self._blank_lines += skipped + bool(line)
            if begin == end:
                return end
            line, following = self._line(begin)
        try:
            option = "tab" if self._options.format == "tsv" else self._options.delimiter
            self._reader = FieldReader(find_delimiter(line, option, may_be_one=self.to_predict is not None))
            fields = self._reader.split(line, MOST_COLUMNS)
        except BadQuote as bad:
            raise self._window.error(begin + bad.args[0], "bad_quote", _BAD_QUOTE) from None
        try:
            if len(fields) > MOST_COLUMNS:
                raise too_many_columns()
            look_below = partial(self._below, len(fields), following, end)
            first, labelled = [field for _, field in fields], self.to_predict is None
            names_columns = has_header(first, look_below, self._options, labelled)
            self.settle_heading(Heading(self._names_of(fields, begin) if names_columns else None, len(fields)))
            first_row = following if names_columns else begin
            self._settle_columns(first_row, end)
            return first_row
        except InputError as error:
            if error.line == 1:
                error.line += self._blank_lines
            raise

    def _is_remark(self, line: bytes, following: int, end: int) -> bool:
        """Return whether a line before the table is a comment, or Excel's `sep=;`, whose delimiter is then used."""
        if known := _SEPARATOR.fullmatch(line.strip(b"\xef\xbb\xbf \t")):
            if self._options.delimiter is None and self._options.format != "tsv":
                self._options = replace(self._options, delimiter=known[1].decode())
            return True
        if not line.startswith(b"#") or following == end:
            return False
        # Names may begin with a hash: "#id,label,a".
        below = self._line(following)[0]
        return line[1:2] in (b" ", b"\t", b"#", b"") or _DELIMITERS.findall(line) != _DELIMITERS.findall(below)

    def _names_of(self, fields: list[Field], begin: int) -> list[str]:
        """Return the columns' names, pandas' name for an empty one. Raises InputError duplicate_column, not_utf8."""
        contents = [field for _, field in fields]
        names = decoded(contents)
        if not is_utf8(np.frombuffer(b"\n".join(contents), np.uint8)):
            raise self._window.error(begin, "not_utf8", "the names of columns are not UTF-8")
        if "" in names:
            names = [name or f"{UNNAMED}{number}" for number, name in enumerate(names)]
        if len(set(names)) < len(names):
            first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
            twice = next(number for number, name in enumerate(names) if first[name] < number)
            raise self._window.error(begin + fields[twice][0], "duplicate_column", "a column name stands twice")
        return names

    def _below(self, n_columns: int, begin: int, end: int) -> list[list[bytes]]:
        """Return the fields of lines with `n_columns` fields, among at most LOOK_LINES lines from `begin` on."""
        assert self._reader is not None
        below: list[list[bytes]] = []
        lines = max(1, min(LOOK_LINES, _LOOK_FIELDS // n_columns))
        while begin < end and lines:
            line, begin = self._line(begin)
            try:
                fields = self._reader.split(line, n_columns) if line.strip() else []
            except BadQuote:
                continue
            finally:
                lines -= 1
            if len(fields) == n_columns:
                below.append([field for _, field in fields])
        return below

    def _line(self, begin: int) -> tuple[bytes, int]:
        """Return the line at offset `begin`, without its line end, and the offset of the next line."""
        end = self._window.buffer.index(b"\n", begin)
        return bytes(self._window.buffer[begin:end]).removesuffix(b"\r"), end + 1

    def _settle_columns(self, begin: int, end: int) -> None:
        if begin == end and self.looks_for_words:
            return
        self._lines = _LineBatch(self._heading.n_columns)
        self.settle_features(partial(self._word_columns, begin, end))

    def _word_columns(self, begin: int, end: int) -> set[int]:
        """Return the positions of columns with a word in the lines from `begin` to `end`.

        If categorical is not "all": with words for the most part in the first of these lines.
        """
        if self._options.categorical != ALL:
            return mostly_words(self._below(self._heading.n_columns, begin, end))
        places, lines = set[int](), _LineBatch(self._heading.n_columns)
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

    def _rows_between(self, begin: int, end: int) -> Iterator[Rows]:
        if self._lines is None:
            self._settle_columns(begin, end)
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
                self.put_beside(lines.of(window))
                yield from self.rows_in(lines)
                lines.clear()

    def _read_odd(self, lines: _LineBatch, begin: int) -> int:
        """Add the line at `begin`, which the kernel cannot split, to `lines`; return the offset of the next line."""
        assert self._reader is not None
        line, following = self._line(begin)
        n_columns = self._heading.n_columns
        most = max(n_columns, _MOST_COUNTED)
        try:
            fields = self._reader.split(line, most)
        except BadQuote as bad:
            fault = begin + bad.args[0], "bad_quote", _BAD_QUOTE
        else:
            if len(fields) == n_columns:
                lines.add_odd(fields, begin, self._window.filled)
                return following
            count = len(fields) if len(fields) <= most else f"more than {most}"
            fault = begin, "column_count", f"the line has {count} columns, the first has {n_columns}"
        lines.bad_lines.append((fault[0], partial(self._window.error, *fault)))
        return following

    def error_at(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
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
