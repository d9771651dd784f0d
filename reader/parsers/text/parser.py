"""Turns documents into rows of hashed n-grams, in bounded memory; `words_kernel` defines the features.

`TextParser` reads lines, `DocumentRows` takes documents in memory. A line is

    line = label TAB document [CR] LF

A label is a number or a string without a tab; the document is the rest of the line, which may have tabs. Without labels
a line is a document. A blank line is counted and skipped; without labels it is a document without features.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText, PlacedFault, as_input, one_text
from streamsvm.reader.parsers.text.records_kernel import first_of, short_keys
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Array, Rows

_LINES_AT_ONCE = 1 << 16  # bounds the lists of labels and faults
_TAB, _NEWLINE, _RETURN = b"\t\n\r"
_BATCH_BYTES = 4 << 20


class TextParser(HashedText):
    """A `Parser` of lines. Lines to predict have labels only if options.label_column is given."""

    window_bytes = WINDOW_BYTES

    @property
    def _has_labels(self) -> bool:
        return self.to_predict is None or self._options.label_column is not None

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        window = TextWindow(self._limits.max_line_bytes, self.window_bytes)
        for _ in window.fill(chunks, refuse=self._has_labels):
            yield from self._read_lines(window)
        self.check_end()

    def _read_lines(self, window: TextWindow) -> Iterator[Rows]:
        """Yield the rows of the window's whole lines."""
        end = window.lines_end()
        every = _lines(window.text, window.begin, end)
        for first in range(0, len(every), _LINES_AT_ONCE):
            spans = every[first : first + _LINES_AT_ONCE]
            unlabelled = Documents(window.buffer, spans, _places(spans[:, 0]))
            documents, faults = self._labels(window, spans) if self._has_labels else (unlabelled, {})
            for row in np.flatnonzero(documents.spans[:, 1] - documents.places[:, 0] > window.max_line_bytes).tolist():
                faults[row] = int(documents.places[row, 0]), "line_too_long", ""
            yield from self.rows_of_documents(documents, faults, window.error)
        window.begin = end
        window.check_tail()

    def _labels(self, window: TextWindow, spans: Array) -> tuple[Documents, dict[int, PlacedFault]]:
        """Return the documents and labels of lines, and the faults of lines without a label; count blank lines."""
        first = np.empty(len(spans), np.int64)
        first_of(_TAB, window.text, spans, first)
        has_tab = first < spans[:, 1]
        is_empty = spans[:, 0] == spans[:, 1]
        blank = np.flatnonzero(is_empty).tolist() + [
            row
            for row in np.flatnonzero(~has_tab & ~is_empty).tolist()
            if not bytes(window.buffer[slice(*spans[row])]).strip()
        ]
        self._blank_lines += len(blank)
        rows = np.delete(np.arange(len(spans)), blank)
        begins, tab, ends, has_tab = spans[rows, 0], first[rows], spans[rows, 1], has_tab[rows]
        tab = np.where(has_tab, tab, begins)
        labels = _texts(window, np.column_stack([begins, tab]))
        message = "no label and tab before the document"
        faults = {row: (int(begins[row]), "label_missing", message) for row, label in enumerate(labels) if not label}
        texts = np.column_stack([np.where(has_tab, tab + 1, begins), ends])
        return Documents(window.buffer, texts, _places(begins), labels), faults


def _texts(window: TextWindow, spans: Array) -> list[bytes]:
    """Return the labels at these spans (n, 2), without spaces around them. Equal short labels are made only once."""
    keys = np.empty(len(spans), np.uint64)
    if not short_keys(window.text, spans, keys):
        return [bytes(window.buffer[begin:end]).strip(b" ") for begin, end in spans.tolist()]
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    different = [bytes(window.buffer[begin:end]).strip(b" ") for begin, end in spans[first].tolist()]
    return [different[each] for each in place.tolist()]


def _places(begins: Array) -> Array:
    """`Documents.places` of faults that are placed alike, whether of a label or of the document."""
    return np.repeat(begins[:, np.newaxis], 4, axis=1)


def _lines(text: Array, begin: int, end: int) -> Array:
    """Return (n, 2) int64: begin and end of each line of text[begin:end], without LF or CRLF."""
    ends = np.flatnonzero(text[begin:end] == _NEWLINE) + begin
    begins = np.append(begin, ends[:-1] + 1)[: len(ends)]
    has_return = (ends > begins) & (text[np.maximum(ends - 1, 0)] == _RETURN)
    return np.column_stack([begins, ends - has_return])


class DocumentRows(HashedText):
    """Makes rows without labels of texts in memory, which may have line feeds; input_: a dataset's Manifest.input."""

    def __init__(self, input_: Mapping[str, Any]) -> None:
        options = as_input(InputOptions("text"), dict(input_))
        super().__init__(options, InputLimits(max_features=1 << 31), to_predict=ToPredict())

    def rows_of(self, texts: Sequence[str]) -> Iterator[Rows]:
        """Yield the rows of texts in batches. Raises InputError not_text, whose `line` is the text's number, from 1."""
        rest, first = iter(texts), 1
        while batch := self._batch(rest, first):
            places = _places(np.arange(first, first + len(batch)))
            yield from self.rows_of_documents(Documents(*one_text(batch), places), {}, _fault)
            first += len(batch)

    def _batch(self, texts: Iterator[str], first: int) -> list[bytes]:
        """Return the next texts in UTF-8, about _BATCH_BYTES or fewer at the end; first: number of the first text."""
        batch: list[bytes] = []
        size = 0
        while size < _BATCH_BYTES and (text := next(texts, None)) is not None:
            try:
                batch.append(text.encode())
            except UnicodeEncodeError:
                raise _fault(first + len(batch), "not_text", "the document has half a surrogate pair") from None
            size += len(batch[-1])
        return batch


def _fault(number: int, code: str, message: str) -> InputError:
    return InputError(code, message, line=number)
