"""Turns a column of documents in CSV and TSV into rows of hashed n-grams, in bounded memory.

`records_kernel` has the grammar. All records have as many fields as the first. Of the other columns only labels,
weights and groups are read.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from streamsvm.reader.parsers.tables.columns import Heading
from streamsvm.reader.parsers.tables.csv_head import documents_have_header
from streamsvm.reader.parsers.tables.fields import find_delimiter
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText, PlacedFault, one_text
from streamsvm.reader.parsers.text.records_kernel import COLUMNS, FAULT, PLACE, find_records
from streamsvm.reader.parsers.text.tables import columns_of_documents
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Array, Rows

_RECORDS = 1 << 13  # in a batch
_BAD_QUOTE = "a quote that is not closed, or is closed in the middle of a field"


class TextTableParser(HashedText):
    """A `Parser` of documents in a column.

    has_names  whether the first record names the columns; False before it has been read
    """

    window_bytes = WINDOW_BYTES
    has_names = False
    _columns: Sequence[int | None] = ()  # of documents, labels, weights, groups, and those put into `beside`
    _n_columns = _delimiter = 0

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows in batches. InputError at the first fault, unless rows are skipped."""
        window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        for _ in window.fill(chunks):
            yield from self._read(window)
        if window.begin < window.filled:
            raise window.error(window.begin, "bad_quote", _BAD_QUOTE)
        self.check_end()

    def _read(self, window: TextWindow) -> Iterator[Rows]:
        """Yield the rows of the window's whole records."""
        place = window.begin if self._columns else self._read_head(window)
        heads, spans = np.empty((_RECORDS, 3), np.int64), np.empty((_RECORDS, 4 + len(self.beside.names), 3), np.int64)
        while self._columns:
            wanted = np.array([-1 if column is None else column for column in self._columns])
            count, after = find_records(window.text, place, window.filled, self._delimiter, wanted, heads, spans)
            if count == 0:
                break
            yield from self._rows(window, heads[:count], spans[:count])
            place = after
        window.begin = place
        window.check_tail()

    def _rows(self, window: TextWindow, heads: Array, spans: Array) -> Iterator[Rows]:
        is_row = heads[:, COLUMNS] > 0
        self._blank_lines += int(np.count_nonzero(~is_row))
        heads, spans = heads[is_row], spans[is_row]
        faults: dict[int, PlacedFault] = {}
        for row in np.flatnonzero(heads[:, COLUMNS] != self._n_columns).tolist():
            message = f"the line has {heads[row, COLUMNS]} columns, the first has {self._n_columns}"
            faults[row] = int(heads[row, PLACE]), "column_count", message
        for row in np.flatnonzero(heads[:, FAULT] >= 0).tolist():
            faults[row] = int(heads[row, FAULT]), "bad_quote", _BAD_QUOTE
        if len(heads):
            columns = (None if self._columns[k] is None else _texts(window, spans[:, k]) for k in range(1, 4))
            beside = ([text.strip(b" \t") for text in column] if column else () for column in columns)
            self.beside.put([_shown(_texts(window, spans[:, 4 + k])) for k in range(len(self.beside.names))])
            text, documents = _joined(window, spans[:, 0])
            yield from self.give(Documents(text, documents, spans[:, :, 0], *beside), faults, window.error)

    def _read_head(self, window: TextWindow) -> int:
        """Settle the columns by the first record that is not blank; return where the first row begins."""
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
        """Settle the columns by the record that begins with this line; return where the first row begins."""
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
        first = [field.strip(b" \t") for field in _texts(window, spans[0])]
        fields = [field.decode(errors="replace") for field in first]
        find_records(window.text, following, window.filled, delimiter, places, heads[:1], spans)
        below = [_texts(window, spans[0])] if count > 1 and heads[0, COLUMNS] == len(first) else []
        self._n_columns, self._delimiter = len(fields), delimiter
        names = fields if documents_have_header(first, below, self._options, self.to_predict is None) else None
        self.has_names = names is not None
        if names is not None and len(set(names)) < len(names):
            raise window.error(begin, "duplicate_column", "a column name stands twice")
        heading = Heading(names, len(fields))
        found = columns_of_documents(self._options, heading, self.to_predict)
        self._columns = *found, *heading.places_of(self.beside.names, "keep")
        return begin if names is None else following


def _texts(window: TextWindow, spans: Array) -> list[bytes]:
    """The fields at these spans (n, 3), each quote that is written twice once."""
    fields = ((bytes(window.buffer[begin:end]), doubled) for begin, end, doubled in spans.tolist())
    return [field.replace(b'""', b'"') if doubled else field for field, doubled in fields]


def _shown(fields: list[bytes]) -> list[str]:
    return [field.strip(b" \t").decode(errors="replace") for field in fields]


def _joined(window: TextWindow, spans: Array) -> tuple[bytes | bytearray, Array]:
    """The documents in the window; copies if a quote is written twice in one."""
    return one_text(_texts(window, spans)) if spans[:, 2].any() else (window.buffer, spans[:, :2])
