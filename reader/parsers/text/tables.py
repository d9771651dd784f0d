"""Turns a column of documents in a table of any format into rows of hashed n-grams, in bounded memory.

`records_kernel` has the grammar of CSV. All records have as many fields as the first record. Of the other columns, only
labels, weights, groups and those to write beside predictions are read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.columns import Heading, find_columns, find_label
from streamsvm.reader.parsers.tables.csv_head import documents_have_header, is_place
from streamsvm.reader.parsers.tables.fields import find_delimiter
from streamsvm.reader.parsers.tables.json_lines import JsonLinesReader, cell_text
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText, PlacedFault, one_text
from streamsvm.reader.parsers.text.records_kernel import COLUMNS, FAULT, PLACE, find_records
from streamsvm.reader.parsers.text_window import WINDOW_BYTES, TextWindow
from streamsvm.storage.rows.csr import Array, Rows

_RECORDS = 1 << 13  # most records of CSV in a batch
_BATCH_ROWS = 1 << 12  # most rows of other tables in a batch
_BLANKS = b" \t"
_BAD_QUOTE = "a quote that is not closed, or is closed in the middle of a field"


def columns_of_documents(
    options: InputOptions, heading: Heading, to_predict: ToPredict | None
) -> tuple[int | None, ...]:
    """Return the positions of the columns of documents, labels, weights and groups, None if there are none."""
    assert options.text_column is not None
    text = 0 if heading.n_columns == 1 else heading.place(options.text_column, "text_column")
    label = to_predict.aside(options, heading).label if to_predict else find_label(options, heading)
    if options.label_column is None and heading.names is None:
        label = _usual_label(options, heading, text, is_needed=to_predict is None)
    columns = find_columns(label, options, heading)
    if text in columns.aside:
        raise InputError("same_column", "the column of documents has labels, weights or groups, too", line=1)
    return text, columns.label, columns.weight, columns.group


def _usual_label(options: InputOptions, heading: Heading, text: int, is_needed: bool) -> int | None:
    """Return the position of labels in a table without names: as in training, else of the first two columns the other.

    None if rows need no labels and the table has no such column. Raises InputError label_column_missing.
    """
    before = (options.like or options.trained or {}).get("label_column")
    wanted = before if before is not None and is_place(before) else str(1 + (text == 0))
    try:
        place = heading.place(wanted, "label_column")
    except InputError:
        if is_needed:
            raise
        return None
    return place if is_needed or place != text else None


class TextTableParser(HashedText):
    """A `Parser` of documents in a column."""

    window_bytes = WINDOW_BYTES
    _columns: Sequence[int | None] = ()  # of documents, labels, weights, groups, and those put into `beside`
    _n_columns = _delimiter = 0

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
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
            beside = ([text.strip(_BLANKS) for text in column] if column else () for column in columns)
            kept = (_texts(window, spans[:, 4 + k]) for k in range(len(self.beside.names)))
            self.beside.put([[field.strip(_BLANKS).decode(errors="replace") for field in fields] for fields in kept])
            # Documents stay in the window, unless one has doubled quotes.
            of_text = spans[:, 0]
            text, documents = (
                one_text(_texts(window, of_text)) if of_text[:, 2].any() else (window.buffer, of_text[:, :2])
            )
            yield from self.rows_of_documents(Documents(text, documents, spans[:, :, 0], *beside), faults, window.error)

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
        first = [field.strip(_BLANKS) for field in _texts(window, spans[0])]
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
    """Return the fields at these spans (n, 3), with each doubled quote as a single one."""
    fields = ((bytes(window.buffer[begin:end]), doubled) for begin, end, doubled in spans.tolist())
    return [field.replace(b'""', b'"') if doubled else field for field, doubled in fields]


class ColumnsOfDocuments(HashedText):
    """The base of parsers of tables whose cells have no offset in a text, only a row and a column."""

    _heading = Heading(None, 0)

    def find_columns(self, names: list[str]) -> Sequence[int | None]:
        """Return the positions of documents, labels, weights, groups among these columns, None if there are none."""
        self._heading = Heading(names, len(names))
        return columns_of_documents(self._options, self._heading, self.to_predict)

    def rows_of_columns(
        self,
        documents: tuple[bytes, Array],
        missing: Sequence[int],
        beside: Iterable[Sequence[bytes | None] | None],
        places: Sequence[int | None],
        numbers: Sequence[int],
    ) -> Iterator[Rows]:
        """Yield rows made of the documents of a table.

        documents  `text` and `spans` of `Documents`
        missing    indices of the documents that are missing
        beside     columns of labels, weights and groups; a column that the table lacks is None, as is a missing value
        places     positions of the columns of documents, labels, weights and groups
        numbers    numbers of the rows in the input, for errors
        """
        width = self._heading.n_columns
        # A fault's place is the number of its cell, counted row by row.
        at = np.array(numbers)[:, np.newaxis] * width + np.array([place or 0 for place in places])
        faults: dict[int, PlacedFault] = {
            row: (int(at[row, 0]), "missing_value", "a value is missing") for row in missing
        }
        stripped = ([(text or b"").strip(_BLANKS) for text in column] if column else () for column in beside)
        batch = Documents(*documents, at, *stripped)
        yield from self.rows_of_documents(
            batch, faults, lambda cell, *fault: self.error_at(*divmod(cell, width), *fault)
        )

    def error_at(self, row: int, column: int, code: str, message: str) -> InputError:
        """Return the error for a cell, by the number of its row and the position of its column."""
        return InputError(code, f"row {row}, {self._heading.shown(column)}: {message}", line=row)


class ArrowDocuments(ColumnsOfDocuments):
    """Reads documents in a column of tables of Arrow. An error's `line` is the number of its row.

    read  yields the tables (`stored.StoredTable`) of an input from its bytes
    """

    def __init__(self, options: Any, limits: Any, read: Callable[[Iterable[bytes]], Iterator[Any]], *args: Any) -> None:
        super().__init__(options, limits, *args)
        self._read = read

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        from streamsvm.reader.parsers.tables.arrow import documents_of, texts_of  # noqa: PLC0415 - slow to import

        first = self.first_row
        for table in self._read(chunks):
            places = self.find_columns(table.schema.names)
            self._check_types(table.schema, places)
            wanted = sorted(place for place in places if place is not None)
            for batch in table.batches(wanted, _BATCH_ROWS):
                column, *beside = (None if place is None else batch.column(wanted.index(place)) for place in places)
                fields, is_missing = documents_of(column)
                documents = fields.text.tobytes() + b"\n", np.column_stack([fields.start, fields.stop])
                texts = [None if each is None else texts_of(each) for each in beside]
                numbers = range(first, first + batch.num_rows)
                yield from self.rows_of_columns(documents, np.flatnonzero(is_missing).tolist(), texts, places, numbers)
                first += batch.num_rows
        self.check_end()

    def _check_types(self, schema: Any, places: Sequence[int | None]) -> None:
        from streamsvm.reader.parsers.tables.arrow import is_number, is_string  # noqa: PLC0415 - slow to import

        for number, place in enumerate(places):
            kind = None if place is None else schema.field(place).type
            if place is not None and not (is_string(kind) or (number and is_number(kind))):
                message = f"{self._heading.shown(place)} is of type {str(kind)[:40]}"
                raise InputError("column_type", message, hint="documents are strings, labels strings or numbers")
        if self._names.type == "auto" and places[1] is not None:
            self._names.type = "string" if is_string(schema.field(places[1]).type) else "number"


class JsonDocuments(ColumnsOfDocuments):
    """Reads documents in a column of JSON lines."""

    _json: JsonLinesReader

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        self._json = JsonLinesReader(self._limits.max_line_bytes, self.rejected, self._options, self.to_predict)
        places: Sequence[int | None] = ()
        for lines, rows in self._json.pieces(chunks):
            self._blank_lines = self._json.blank_lines
            places = places or self.find_columns(self._json.names)
            kept = self._heading.places_of(self.beside.names, "keep")
            self.beside.put([[cell_text(row[place]).strip(" \t") for row in rows] for place in kept])
            for begin in range(0, len(rows), _BATCH_ROWS):
                some, numbers = rows[begin : begin + _BATCH_ROWS], lines[begin : begin + _BATCH_ROWS]
                texts, *beside = [place if place is None else [_cell(row[place]) for row in some] for place in places]
                assert texts is not None
                documents = one_text([text or b"" for text in texts])
                missing = [row for row, text in enumerate(texts) if text is None]
                yield from self.rows_of_columns(documents, missing, beside, places, numbers)
        self.check_end()

    def error_at(self, row: int, column: int, code: str, message: str) -> InputError:
        return self._json.fault(row, code, f"{self._heading.shown(column)}: {message}")


def _cell(value: Any) -> bytes | None:
    return None if value is None else cell_text(value).encode()
