"""Turns a column of documents in CSV or TSV into rows of hashed n-grams, in bounded memory.

`records_kernel` has the grammar of CSV. All records have as many fields as the first record. Of the other columns, only
labels, weights, groups and those to write beside predictions are read.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables.columns import ColumnPlaces, Heading
from streamsvm.reader.parsers.tables.csv_head import documents_have_header
from streamsvm.reader.parsers.tables.fields import FieldBatch, TextBatch, find_delimiter
from streamsvm.reader.parsers.tables.table import Fault, TableParser
from streamsvm.reader.parsers.text.records_kernel import COLUMNS, FAULT, PLACE, find_records, strip
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Array, Rows

_RECORDS = 1 << 13  # most records in a batch
_BLANKS = b" \t"
_BAD_QUOTE = "a quote that is not closed, or is closed in the middle of a field"


class _TextRecords(TextBatch):
    """A batch of records of a window, of which the columns at spans (n, k, 3) were read: documents, then k - 1 others.

    Fields with doubled quotes are copied behind the text. Positions of columns are those among the k.
    """

    def __init__(self, window: TextWindow, spans: Array) -> None:
        for k in range(1, spans.shape[1]):
            strip(window.text, spans[:, k, 0], spans[:, k, 1])
        self._begins, text = spans[:, :, 0].copy(), window.text
        doubled = np.argwhere(spans[:, :, 2]).tolist()
        if doubled:
            contents = [_text(window, spans[row, k]) for row, k in doubled]
            ends = window.filled + np.cumsum([len(content) + 1 for content in contents])
            for (row, k), content, end in zip(doubled, contents, ends.tolist(), strict=True):
                spans[row, k, :2] = end - len(content) - 1, end - 1
            further = np.frombuffer(b"".join(content + b"\n" for content in contents), np.uint8)
            text = np.concatenate((text[: window.filled], further))
        super().__init__(text, spans[:, :, 0], spans[:, :, 1])

    def place(self, row: int, column: int) -> int:
        return int(self._begins[row, column])


class TextTableParser(TableParser):
    """A `Parser` of documents in a column of CSV and TSV. For the arguments see `TableParser`."""

    window_bytes = WINDOW_BYTES
    _window: TextWindow  # `parse_chunks` makes it
    _wanted: Array | None = None  # positions of documents, labels, weights, groups, -1 for none, and those to keep
    _delimiter = 0

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        window = self._window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        for _ in window.fill(chunks):
            yield from self._read(window)
        if window.begin < window.filled:
            raise window.error(window.begin, "bad_quote", _BAD_QUOTE)
        self.check_end()

    def _read(self, window: TextWindow) -> Iterator[Rows]:
        """Yield the rows of the window's whole records."""
        place = window.begin if self._wanted is not None else self._read_head(window)
        while self._wanted is not None:
            heads, spans = np.empty((_RECORDS, 3), np.int64), np.empty((_RECORDS, len(self._wanted), 3), np.int64)
            count, after = find_records(window.text, place, window.filled, self._delimiter, self._wanted, heads, spans)
            if count == 0:
                break
            batch = self._records(window, heads[:count], spans[:count])
            self.put_beside(batch)
            yield from self.rows_in(batch)
            place = after
        window.begin = place
        window.check_tail()

    def _records(self, window: TextWindow, heads: Array, spans: Array) -> _TextRecords:
        """Return the records that are rows; the others are blank, or bad lines."""
        columns, quote, n_columns = heads[:, COLUMNS], heads[:, FAULT], self._heading.n_columns
        self._blank_lines += int(np.count_nonzero(columns == 0))
        is_row = (columns == n_columns) & (quote < 0)
        batch = _TextRecords(window, spans[is_row])
        for row in np.flatnonzero(~is_row & (columns > 0)).tolist():
            fault = int(quote[row]), "bad_quote", _BAD_QUOTE
            if quote[row] < 0:
                message = f"the line has {columns[row]} columns, the first has {n_columns}"
                fault = int(heads[row, PLACE]), "column_count", message
            batch.bad_lines.append((fault[0], partial(window.error, *fault)))
        return batch

    def _read_head(self, window: TextWindow) -> int:
        """Settle the columns by the first record that is not blank; return the offset of the first row."""
        begin, end = window.begin, window.lines_end()
        while begin < end:
            following = window.buffer.index(b"\n", begin) + 1
            line = bytes(window.buffer[begin : following - 1]).removesuffix(b"\r")
            if line.strip():
                return self._settle(window, begin, line)
            self._blank_lines += 1
            begin = following
        return begin

    def _settle(self, window: TextWindow, begin: int, line: bytes) -> int:
        """Settle the columns by the record that begins with this line; return the offset of the first row."""
        option = "tab" if self._options.format == "tsv" else self._options.delimiter
        delimiter = find_delimiter(line, option, may_be_one=self.to_predict is not None)[0]
        heads, none = np.empty((2, 3), np.int64), np.zeros(0, np.int64)
        count, _ = find_records(
            window.text, begin, window.filled, delimiter, none, heads, np.empty((2, 0, 3), np.int64)
        )
        if count == 0:
            return begin
        places = np.arange(heads[0, COLUMNS])
        spans = np.empty((1, len(places), 3), np.int64)
        _, following = find_records(window.text, begin, window.filled, delimiter, places, heads[:1], spans)
        first = [_text(window, span).strip(_BLANKS) for span in spans[0]]
        fields = [field.decode(errors="replace") for field in first]
        find_records(window.text, following, window.filled, delimiter, places, heads[:1], spans)
        below = [[_text(window, span) for span in spans[0]]] if count > 1 and heads[0, COLUMNS] == len(first) else []
        self._delimiter = delimiter
        names = fields if documents_have_header(first, below, self._options, self.to_predict is None) else None
        if names is not None and len(set(names)) < len(names):
            raise window.error(begin, "duplicate_column", "a column name stands twice")
        self.settle_heading(Heading(names, len(fields)))
        self._settle_wanted()
        return begin if names is None else following

    def _settle_wanted(self) -> None:
        """Choose the columns that are read. From here on, their positions are those in `_wanted`."""
        assert self._documents is not None
        aside, kept = (self._columns.label, self._columns.weight, self._columns.group), super().kept_places()
        places = (*self._documents.word_places, *aside, *kept)
        self._wanted = np.array([-1 if place is None else place for place in places])
        self._columns = ColumnPlaces(*(None if place is None else k for k, place in enumerate(aside, 1)))
        self._documents.word_places = [0]

    def kept_places(self) -> Sequence[int]:
        return range(4, 4 if self._wanted is None else len(self._wanted))

    def error_at(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
        code, message, offset = fault
        return self._window.error(batch.place(row, column) + offset, code, message)


def _text(window: TextWindow, span: Array) -> bytes:
    """Return the field at a span (3,), with each doubled quote as a single one."""
    begin, end, doubled = span.tolist()
    field = bytes(window.buffer[begin:end])
    return field.replace(b'""', b'"') if doubled else field
