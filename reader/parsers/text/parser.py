"""Turns documents into rows of hashed n-grams, in bounded memory; `words_kernel` defines the features.

`TextParser` reads lines, `DocumentRows` takes documents in memory. A line is

    line = label TAB document [CR] LF

A label is a number or a string without a tab; the document is the rest of the line, which may have tabs. Without labels
a line is a document. A blank line is counted and skipped; without labels it is a document without features.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.tables.columns import ColumnPlaces
from streamsvm.reader.parsers.tables.fields import FieldBatch, TextBatch
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.tables.table import Fault, TableParser
from streamsvm.reader.parsers.text.hashed_text import as_input
from streamsvm.reader.parsers.text.records_kernel import first_of, strip
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Array, Rows

_LINES_AT_ONCE = 1 << 16  # bounds the lists of labels and faults
_TAB, _NEWLINE, _RETURN = b"\t\n\r"
_BATCH_BYTES = 4 << 20


class TextParser(TableParser):
    """A `Parser` of lines. Lines to predict have labels only if options.label_column is given."""

    window_bytes = WINDOW_BYTES
    _window: TextWindow  # `parse_chunks` makes it

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        has_labels = self.to_predict is None or self._options.label_column is not None
        assert self._documents is not None
        self._documents.word_places = [1]
        self._columns = ColumnPlaces(0 if has_labels else None, None, None)
        window = self._window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        for _ in window.fill(chunks, refuse=has_labels):
            yield from self._read_lines(window, has_labels)
        self.check_end()

    def _read_lines(self, window: TextWindow, has_labels: bool) -> Iterator[Rows]:
        """Yield the rows of the window's whole lines."""
        end = window.lines_end()
        every = _lines(window.text, window.begin, end)
        for first in range(0, len(every), _LINES_AT_ONCE):
            spans = every[first : first + _LINES_AT_ONCE]
            # Without labels, the label of each line is the empty text before it.
            fields = self._labelled(window, spans) if has_labels else spans[:, [0, 0, 0, 1]]
            yield from self.rows_in(self._batch(window, fields, has_labels))
        window.begin = end
        window.check_tail()

    def _labelled(self, window: TextWindow, spans: Array) -> Array:
        """Return (n, 4) offsets of lines that are not blank: begin and end of the label, then of the document."""
        first = np.empty(len(spans), np.int64)
        first_of(_TAB, window.text, spans, first)
        has_tab = first < spans[:, 1]
        is_blank = spans[:, 0] == spans[:, 1]
        for row in np.flatnonzero(~has_tab & ~is_blank).tolist():
            is_blank[row] = not bytes(window.buffer[slice(*spans[row])]).strip()
        self._blank_lines += int(np.count_nonzero(is_blank))
        begin, end = spans.T
        fields = np.column_stack((begin, np.where(has_tab, first, begin), np.where(has_tab, first + 1, begin), end))
        return fields[~is_blank]

    def _batch(self, window: TextWindow, fields: Array, has_labels: bool) -> "_Lines":
        """Return the lines whose labels and documents are at `fields` (n, 4), without those that are no rows."""
        begin = fields[:, 0].copy()
        strip(window.text, fields[:, 0], fields[:, 1])
        is_long = fields[:, 3] - begin > window.max_line_bytes
        is_bad = is_long | ((fields[:, 1] == fields[:, 0]) & has_labels)
        batch = _Lines(window.text, fields[~is_bad], begin[~is_bad])
        for row in np.flatnonzero(is_bad).tolist():
            fault = ("line_too_long", "") if is_long[row] else ("label_missing", "no label and tab before the document")
            batch.bad_lines.append((int(begin[row]), partial(window.error, int(begin[row]), *fault)))
        return batch

    def error_at(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
        code, message, offset = fault
        return self._window.error(batch.place(row, column) + offset, code, message)


class _Lines(TextBatch):
    """Lines of a label and a document; fields: see `TextParser._labelled`; begin (n,): where the lines begin."""

    def __init__(self, text: Array, fields: Array, begin: Array) -> None:
        super().__init__(text, fields[:, [0, 2]], fields[:, [1, 3]])
        self._begin = begin

    def place(self, row: int, column: int) -> int:
        return int(self.start[row, column] if column else self._begin[row])


def _lines(text: Array, begin: int, end: int) -> Array:
    """Return (n, 2) int64: begin and end of each line of text[begin:end], without LF or CRLF."""
    ends = np.flatnonzero(text[begin:end] == _NEWLINE) + begin
    begins = np.append(begin, ends[:-1] + 1)[: len(ends)]
    has_return = (ends > begins) & (text[np.maximum(ends - 1, 0)] == _RETURN)
    return np.column_stack([begins, ends - has_return])


class DocumentRows(TableParser):
    """Makes rows without labels of texts in memory, which may have line feeds; input_: a dataset's Manifest.input."""

    def __init__(self, input_: Mapping[str, Any]) -> None:
        options = as_input(InputOptions("text"), dict(input_))
        super().__init__(options, InputLimits(max_features=1 << 31), to_predict=ToPredict())

    def rows_of(self, texts: Sequence[str]) -> Iterator[Rows]:
        """Yield the rows of texts in batches. Raises InputError not_text, whose `line` is the text's number, from 1."""
        assert self._documents is not None
        rest, first = iter(texts), 1
        while batch := self._batch(rest, first):
            for made in self._documents.make(TextFields.of_bytes(batch)):
                yield self.give(Rows(np.full(len(made[0]) - 1, np.nan), *made))
            first += len(batch)

    def _batch(self, texts: Iterator[str], first: int) -> list[bytes]:
        """Return the next texts in UTF-8, about _BATCH_BYTES or fewer at the end; first: number of the first text."""
        batch: list[bytes] = []
        size = 0
        while size < _BATCH_BYTES and (text := next(texts, None)) is not None:
            try:
                batch.append(text.encode())
            except UnicodeEncodeError:
                message = "the document has half a surrogate pair"
                raise InputError("not_text", message, line=first + len(batch)) from None
            size += len(batch[-1])
        return batch
