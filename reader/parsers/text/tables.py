"""Turns a column of documents in tables of Arrow, or in JSON lines, into rows of hashed n-grams."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.columns import Heading, find_columns, find_label
from streamsvm.reader.parsers.tables.json_lines import JsonLines, Row, cell_text
from streamsvm.reader.parsers.tables.to_predict import ToPredict
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText, PlacedFault, one_text
from streamsvm.storage.rows.csr import Array, Rows

_BATCH_ROWS = 1 << 12
_BLANKS = b" \t"


def columns_of_documents(
    options: InputOptions, heading: Heading, to_predict: ToPredict | None
) -> tuple[int | None, ...]:
    """The places of documents, labels, weights and groups, None if there are none."""
    assert options.text_column is not None
    text = 0 if heading.n_columns == 1 else heading.place(options.text_column, "text_column")
    label = to_predict.aside(options, heading).label if to_predict else find_label(options, heading)
    if label is not None and options.label_column is None and heading.names is None:
        label = int(text == 0)
    columns = find_columns(label, options, heading)
    if text in columns.aside:
        raise InputError("same_column", "the column of documents has labels, weights or groups, too", line=1)
    return text, columns.label, columns.weight, columns.group


class ColumnsOfDocuments(HashedText):
    """A `Parser` of tables whose cells have no places but their row and column."""

    _names_of_columns: Sequence[str] = ()

    def find_columns(self, names: list[str]) -> Sequence[int | None]:
        """The places of documents, labels, weights and groups in a table with these columns, None if there are none."""
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        self._names_of_columns = names
        return columns_of_documents(self._options, Heading(names, len(names)), self.to_predict)

    def rows_of_columns(
        self,
        documents: tuple[bytes, Array],
        missing: Sequence[int],
        beside: Iterable[Sequence[bytes | None] | None],
        places: Sequence[int | None],
        numbers: Sequence[int],
    ) -> Iterator[Rows]:
        """Yield the rows of documents.

        documents  `text` and `spans` of Documents
        missing    rows whose document is missing
        beside     labels, weights and groups, None for a gap
        numbers    of the rows
        """
        width = len(self._names_of_columns)
        # A place is the number of a cell, counted row by row.
        at = np.array(numbers)[:, np.newaxis] * width + np.array([place or 0 for place in places])
        faults: dict[int, PlacedFault] = {
            row: (int(at[row, 0]), "missing_value", "a value is missing") for row in missing
        }
        stripped = ([(text or b"").strip(_BLANKS) for text in column] if column else () for column in beside)
        batch = Documents(*documents, at, *stripped)
        yield from self.give(batch, faults, lambda cell, *fault: self.error_at(*divmod(cell, width), *fault))

    def error_at(self, row: int, column: int, code: str, message: str) -> InputError:
        """The error for a cell."""
        return InputError(code, f"row {row}, {self._shown(column)}: {message}", line=row)

    def _shown(self, column: int) -> str:
        return f"column {column + 1} ({self._names_of_columns[column][:40]})"


class ArrowDocuments(ColumnsOfDocuments):
    """Reads tables of Arrow; a fault's `line` is the row's number.

    read       makes the tables of the bytes of an input
    first_row  the number of the input's first row, for faults
    """

    first_row = 1

    def __init__(self, options: Any, limits: Any, read: Callable[[Iterable[bytes]], Iterator[Any]], *args: Any) -> None:
        super().__init__(options, limits, *args)
        self._read = read

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
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
                message = f"{self._shown(place)} is of type {str(kind)[:40]}"
                raise InputError("column_type", message, hint="documents are strings, labels strings or numbers")
        if self._names.type == "auto" and places[1] is not None:
            self._names.type = "string" if is_string(schema.field(places[1]).type) else "number"


class JsonDocuments(ColumnsOfDocuments):
    """Reads JSON lines."""

    _json: JsonLines

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
        known = None if self.to_predict is None else {self._options.text_column or "", *self.beside.names}
        self._json = JsonLines(self._limits.max_line_bytes, self.rejected, known)
        places: Sequence[int | None] = ()
        for lines, rows in self._json.pieces(chunks):
            self._blank_lines = self._json.blank_lines
            places = places or self.find_columns(self._json.names)
            self._put_beside(rows)
            for begin in range(0, len(rows), _BATCH_ROWS):
                some = rows[begin : begin + _BATCH_ROWS]
                texts, *beside = (
                    [_cell(row[place]) for row in some] if place is not None else None for place in places
                )
                assert texts is not None
                documents = one_text([text or b"" for text in texts])
                missing = [row for row, text in enumerate(texts) if text is None]
                numbers = lines[begin : begin + _BATCH_ROWS]
                yield from self.rows_of_columns(documents, missing, beside, places, numbers)
        self.check_end()

    def _put_beside(self, rows: Sequence[Row]) -> None:
        if self.beside.names:
            heading = Heading(self._json.names, len(self._json.names))
            places = heading.places_of(self.beside.names, "keep")
            self.beside.put([[cell_text(row[place]).strip(" \t") for row in rows] for place in places])

    def error_at(self, row: int, column: int, code: str, message: str) -> InputError:
        return self._json.fault(row, code, f"{self._shown(column)}: {message}")


def _cell(value: Any) -> bytes | None:
    return None if value is None else cell_text(value).encode()
