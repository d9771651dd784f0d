"""Reads JSON lines, an object a line, as a table.

Columns are the keys in the first HEAD_BYTES, in the order in which they first occur; a key that an object lacks is a
missing value. If the first line is an array of strings, these name the columns instead. A value is read like a field of
CSV with its text; but a new column that has a string holds words, even if all its strings are digits.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import orjson

from streamsvm.reader.errors import InputError, Rejected
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.tables.columns import MOST_COLUMNS, Heading, number_hint, too_many_columns
from streamsvm.reader.parsers.tables.csv_head import LOOK_LINES
from streamsvm.reader.parsers.tables.fields import FieldBatch, TextBatch, mostly_words
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.tables.mixed_columns import ALL
from streamsvm.reader.parsers.tables.table import Fault, TableParser
from streamsvm.reader.parsers.text_window import TextWindow
from streamsvm.storage.rows.csr import Array, Rows

HEAD_BYTES = 1 << 20  # of text in which names are looked for, and that is read at a time
_MOST_CELLS = 64  # most fields for each byte of text: objects with 5 short keys of 1,000 have 17 to 28
_BLANKS = " \t"  # around a string, as around a field of CSV
_NESTED = frozenset({dict, list})

Row = list[Any]  # a value, or None, for each column


class JsonLinesReader:
    """Reads objects, one on each line, as rows of values. Call `pieces` once.

    In rows to predict, keys that occur after HEAD_BYTES only are ignored, unless they name a column that matters.
    names  names of the columns, known when `pieces` has yielded
    """

    def __init__(
        self,
        most_line_bytes: int,
        rejected: Rejected,
        options: InputOptions | None = None,
        to_predict: ToPredict | None = None,
    ) -> None:
        self._window = TextWindow(most_line_bytes, HEAD_BYTES)
        self._rejected = rejected
        self._known: frozenset[str | None] | None = None  # names that matter; None: all do
        if to_predict is not None and options is not None:
            columns = (options.like or {}).get("columns", ())
            self._known = frozenset((*columns, options.text_column, *to_predict.beside.names))
        self.names: list[str] = []
        self._keys: frozenset[str] = frozenset()
        self.blank_lines = 0

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[tuple[list[int], list[Row]]]:
        """Yield (places of lines, for `fault`; their rows) for some lines at a time, without lines that have no object.

        Raises InputError line_too_long, no_rows, too_many_columns; also not_json and others unless rows are skipped.
        """
        window = self._window
        for _ in window.fill(chunks, is_json=True):
            begin, end = window.begin, window.lines_end()
            if begin < end:
                yield self._rows(begin, bytes(window.buffer[begin:end]))
            window.begin = end
            window.check_tail()

    def _rows(self, begin: int, piece: bytes) -> tuple[list[int], list[Row]]:
        lines = piece.split(b"\n")[:-1]
        places = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=begin))
        too_long = (place for place, line in zip(places, lines, strict=True) if len(line) > self._window.max_line_bytes)
        if (place := next(too_long, None)) is not None:
            raise self.fault(place, "line_too_long")
        objects = [self._object(line, place) for place, line in zip(places, lines, strict=True)]
        if not self.names:
            self._settle_names(objects)
        # Work would know no bound if objects lacked nearly all of the columns.
        if sum(each is not None for each in objects) * len(self.names) > _MOST_CELLS * len(piece):
            message = f"most values of {len(self.names)} columns in {len(objects)} rows are missing"
            raise InputError("too_many_columns", message)
        rows = [None if each is None else self._row(each, place) for place, each in zip(places, objects, strict=True)]
        kept = [(place, row) for place, row in zip(places, rows, strict=True) if row is not None]
        return [place for place, _ in kept], [row for _, row in kept]

    def fault(self, place: int, code: str, message: str = "", hint: str = "") -> InputError:
        """Return the error for a line of those that `pieces` yielded last."""
        error = self._window.error(place, code, message, hint)
        error.column = None
        return error

    def _reject(self, place: int, code: str, message: str) -> None:
        self._rejected.add(partial(self.fault, place, code, message))

    def _object(self, text: bytes, place: int) -> Any:
        """Return the object of a line, or the names in the first line; None if the line is blank, or was rejected."""
        if not text.strip():
            self.blank_lines += 1
            return None
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            what = f"this is no JSON, from column {error.colno} on: {error.msg.partition(':')[0]}"
            self._reject(place, "not_json", what)
            return None
        is_first = not self.names and place == self._window.begin
        is_names = is_first and isinstance(value, list) and all(isinstance(each, str) for each in value)
        if isinstance(value, dict) or is_names:
            return value
        self._reject(place, "not_json", "the line has no object")
        return None

    def _settle_names(self, objects: list[Any]) -> None:
        first = next((each for each in objects if each is not None), None)
        if first is None:
            raise InputError("no_rows", "the first lines have no object")
        if isinstance(first, list):
            self.names = first
            objects[objects.index(first)] = None
        else:
            self.names = list(dict.fromkeys(chain.from_iterable(each for each in objects if each is not None)))
        if len(self.names) > MOST_COLUMNS:
            raise too_many_columns()
        if not self.names:
            raise InputError("no_rows", "the objects have no key")
        if len(set(self.names)) < len(self.names):
            raise InputError("duplicate_column", "a column name stands twice", line=1)
        self._keys = frozenset(self.names)

    def _row(self, of: dict[str, Any], place: int) -> Row | None:
        """Return the values of an object, in the order of `names`; None if the row is rejected."""
        if not of.keys() <= self._keys:
            late = of.keys() - self._keys
            if matters := late if self._known is None else late & self._known:
                self._reject(place, "late_key", f"the key {min(matters)[:40]!r} is in none of the first objects")
                return None
        row = [*map(of.get, self.names)]
        if not _NESTED.isdisjoint(map(type, row)):
            name = next(name for name, value in zip(self.names, row, strict=True) if type(value) in _NESTED)
            self._reject(place, "nested_value", f"{name[:40]!r} is an object or an array")
            return None
        return row


class _Cells(TextBatch):
    """A batch of rows of JSON values, which become fields of CSV.

    lines      places of the rows' lines, for `JsonLinesReader.fault`
    documents  position of the column of documents, which keep the blanks around them; None: there is none
    """

    is_text = True

    def __init__(self, rows: list[Row], n_columns: int, lines: list[int], documents: int | None) -> None:
        fields = [
            value.strip(_BLANKS) if type(value) is str else "" if value is None else repr(value)
            for row in rows
            for value in row
        ]
        if documents is not None:
            fields[documents::n_columns] = [_cell_text(row[documents]) for row in rows]
        text = "\n".join([*fields, ""])
        sizes = map(len, fields) if text.isascii() else (len(field.encode()) for field in fields)
        lengths = np.fromiter(sizes, np.int64, len(fields))
        stop = np.cumsum(lengths + 1) - 1
        shape = len(rows), n_columns
        super().__init__(np.frombuffer(text.encode(), np.uint8), (stop - lengths).reshape(shape), stop.reshape(shape))
        self.lines, self._rows, self._documents = lines, rows, documents

    def words(self, place: int) -> TextFields:
        if place != self._documents:
            return super().words(place)
        return TextFields.of([_cell_text(row[place]).strip(_BLANKS) for row in self._rows])

    def documents(self, place: int) -> tuple[TextFields, Array]:
        return super().words(place), np.array([row[place] is None for row in self._rows])


class JsonlParser(TableParser):
    """A `Parser` of JSON lines, whose values are read as fields of CSV. For the arguments see `TableParser`."""

    _json: JsonLinesReader

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        self._json = JsonLinesReader(self._limits.max_line_bytes, self.rejected, self._options, self.to_predict)
        for lines, rows in self._json.pieces(chunks):
            self._blank_lines = self._json.blank_lines
            if not self._heading.names and rows:
                self._settle(rows)
            most, documents = self.most_rows, self._documents.word_places[0] if self._documents is not None else None
            for begin in range(0, len(rows), most):
                batch = _Cells(
                    rows[begin : begin + most], len(self._json.names), lines[begin : begin + most], documents
                )
                self.put_beside(batch)
                yield from self.rows_in(batch)
        self.check_end()

    def _settle(self, rows: Sequence[Row]) -> None:
        self.settle_heading(Heading(self._json.names, len(self._json.names)))
        self.settle_features(partial(self._word_columns, rows))

    def _word_columns(self, rows: Sequence[Row]) -> set[int]:
        if self._options.categorical == ALL:
            return {k for row in rows for k, value in enumerate(row) if type(value) is str}
        texts = [[_cell_text(value).strip(_BLANKS).encode() for value in row] for row in rows[:LOOK_LINES]]
        return mostly_words(texts)

    def error_at(self, batch: FieldBatch, row: int, column: int, fault: Fault) -> InputError:
        code, message, _ = fault
        assert isinstance(batch, _Cells)
        hint = ""
        if code == "not_numeric":
            name = self._heading.option(column)
            hint = number_hint(batch.field(row, column), self.kind(column), name, self.is_new)
        return self._json.fault(batch.lines[row], code, f"{self._heading.shown(column)}: {message}", hint)


def _cell_text(value: Any) -> str:
    """Return a value of JSON as a field of CSV; null becomes an empty field."""
    return "" if value is None else value if type(value) is str else repr(value)


def names_line(text: bytes) -> bytes:
    """Return a line that names the columns of an input; text: its first whole lines. Raises InputError as `pieces`."""
    lines = JsonLinesReader(len(text), Rejected(skip=True))
    next(lines.pieces([text]), None)
    return orjson.dumps(lines.names) + b"\n"
