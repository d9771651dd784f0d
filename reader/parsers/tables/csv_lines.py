"""Reads the lines of CSV and TSV in bounded memory; the first line may name the columns.

    line = field (delimiter field)* [CR] LF      field = content | '"' content '"', with blanks around

A content is a number; in columns of labels, groups and categories it may be a string. All lines have as many fields as
the first.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.sniff import lines_of, with_head
from streamsvm.reader.parsers.tables.categories import is_utf8
from streamsvm.reader.parsers.tables.columns import MOST_COLUMNS, UNNAMED, Heading, too_many_columns
from streamsvm.reader.parsers.tables.csv_head import (
    LOOK_LINES,
    has_header,
    rewritten,
    stands_between_blanks,
)
from streamsvm.reader.parsers.tables.fields import (
    BadQuote,
    Field,
    FieldReader,
    decoded,
    find_delimiter,
    is_missing,
    is_text,
    is_truth,
)
from streamsvm.reader.parsers.tables.table import TableParser
from streamsvm.reader.parsers.tables.tables_kernel import skip_blank
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Rows

_LOOK_FIELDS = 1 << 16  # of the lines that are looked at to tell names from rows
_NO_DELIMITER = -1
_SEPARATOR = re.compile(rb'"?sep=([,;|\t])"?', re.IGNORECASE)
_DELIMITERS = re.compile(rb"[,;|\t]")
BAD_QUOTE = "a quote that is not closed, or stands in a field"


class CsvLines(TableParser):
    """Reads one text. A subclass has `settle_columns`, called once, and `rows_between`."""

    window_bytes = WINDOW_BYTES
    _window: TextWindow  # `parse_chunks` makes it
    _reader: FieldReader | None = None

    @property
    def format(self) -> str:  # type: ignore[override]
        return "tsv" if self._options.format == "tsv" else "csv"

    @property
    def delimiter(self) -> str | None:
        """The delimiter of the lines, as an option names it; None before the first line has been read."""
        return None if self._reader is None else self._options.delimiter or self._reader.delimiter.decode()

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows, about 4 MiB of text at a time. InputError at the first fault, unless rows are skipped."""
        self._window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        head, chunks = with_head(chunks)
        first = next((line for line in lines_of(head) if not line.startswith(b"#")), b"")
        has_blanks = self._options.format != "tsv" and stands_between_blanks(first, self._options.delimiter)
        if has_blanks:
            self._options = replace(self._options, delimiter="space")
        for _ in self._window.fill(rewritten(chunks, self._options, has_blanks)):
            yield from self._read_lines()
        self.check_end()

    def settle_columns(self, begin: int, end: int) -> None:
        """Settle which columns make features. `_heading` and `_columns` are set; rows lie in window.text[begin:end]."""
        raise NotImplementedError

    def rows_between(self, begin: int, end: int) -> Iterator[Rows]:
        """Yield the rows of the whole lines window.text[begin:end]."""
        raise NotImplementedError

    def _read_lines(self) -> Iterator[Rows]:
        window = self._window

        end = window.lines_end()
        begin = self._read_head(window.begin, end) if self._reader is None else window.begin
        if begin < end:
            if self._labels.type == "auto":
                self._settle_type(begin, end)
            yield from self.rows_between(begin, end)

        window.begin = end
        window.check_tail()

    def _settle_type(self, begin: int, end: int) -> None:
        """Settle the type of labels by the first label that is not missing."""
        assert self._reader is not None
        while self._columns.label is not None:
            _, begin = skip_blank(self._window.text, begin, end, self._reader.delimiter[0])
            if begin == end:
                return
            line, begin = self._line(begin)
            try:
                fields = self._reader.split(line, self._heading.n_columns)
            except BadQuote:
                continue
            if len(fields) == self._heading.n_columns and not is_missing(fields[self._columns.label][1]):
                first = fields[self._columns.label][1]
                self._labels.type = "string" if is_text(first) or is_truth(first) else "number"
                return

    def _read_head(self, begin: int, end: int) -> int:
        """Settle the columns by the first line that is not blank; return where the first row begins."""
        line, following = b"", begin
        while not line or self._is_remark(line, following, end):
            skipped, begin = skip_blank(self._window.text, following, end, _NO_DELIMITER)
            self._blank_lines += skipped + bool(line)
            if begin == end:
                return end
            line, following = self._line(begin)
        try:
            option = "tab" if self._options.format == "tsv" else self._options.delimiter
            self._reader = FieldReader(find_delimiter(line, option, may_be_one=self.to_predict is not None))
            fields = self._reader.split(line, MOST_COLUMNS)
        except BadQuote as bad:
            raise self._window.error(begin + bad.args[0], "bad_quote", BAD_QUOTE) from None
        try:
            return self._settle_head(fields, begin, following, end)
        except InputError as error:
            if error.line == 1:
                error.line += self._blank_lines
            raise

    def _is_remark(self, line: bytes, following: int, end: int) -> bool:
        """Whether a line before the table is none of its lines: a comment, or the delimiter as Excel writes it."""
        if known := _SEPARATOR.fullmatch(line.strip(b"\xef\xbb\xbf \t")):
            if self._options.delimiter is None and self._options.format != "tsv":
                self._options = replace(self._options, delimiter=known[1].decode())
            return True
        if not line.startswith(b"#") or following == end:
            return False
        # Names may begin with a hash: "#id,label,a".
        below = self._line(following)[0]
        return line[1:2] in (b" ", b"\t", b"#", b"") or _DELIMITERS.findall(line) != _DELIMITERS.findall(below)

    def _settle_head(self, fields: list[Field], begin: int, following: int, end: int) -> int:
        """Settle the columns by the fields of the line at `begin`; return where the first row begins."""
        if len(fields) > MOST_COLUMNS:
            raise too_many_columns()
        look_below = partial(self._below, len(fields), following, end)
        first, labelled = [field for _, field in fields], self.to_predict is None
        names_columns = has_header(first, look_below, self._options, labelled)
        self.settle_heading(Heading(self._names(fields, begin) if names_columns else None, len(fields)))
        first_row = following if names_columns else begin
        self.settle_columns(first_row, end)
        return first_row

    def _names(self, fields: list[Field], begin: int) -> list[str]:
        """The names of the columns; a column without one is named as pandas does. InputError duplicate_column."""
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
        """Fields of the lines from `begin` on that have `n_columns` fields; looks at up to LOOK_LINES lines."""
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
        """The line at `begin` without its end, and where the next one begins."""
        end = self._window.buffer.index(b"\n", begin)
        return bytes(self._window.buffer[begin:end]).removesuffix(b"\r"), end + 1
