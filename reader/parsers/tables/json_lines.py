"""Writes JSON lines, an object a line, as the CSV that `CsvParser` and `TextTableParser` read.

Columns are the keys in the first HEAD_BYTES, in the order in which they come; a key that an object lacks is a missing
value. A first line that is an array of strings names the columns in their place. The CSV has a line of names, and then
a line for each line of the input, blank if that has no object.
"""

import csv
import io
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import accumulate, chain
from typing import Any, NamedTuple

import orjson

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.reader.parsers.sniff import HEAD_BYTES as _HEAD
from streamsvm.reader.parsers.sniff import refuse_foreign
from streamsvm.reader.parsers.tables.columns import MOST_COLUMNS, too_many_columns

HEAD_BYTES = 1 << 20  # looked at for names, and read at a time
_PLACED = 96  # pieces whose lines are remembered, more than the windows of the parsers of CSV hold
_MARK = b"\xef\xbb\xbf"


class _Piece(NamedTuple):
    """The lines of a piece.

    first   number of its first line
    bytes_  where each line begins in the input, and where the next piece does
    csv     number of the line of CSV that each became, and that the next piece begins with
    """

    first: int
    bytes_: "array[int]"
    csv: "array[int]"


class JsonLines:
    """Call `as_csv` once.

    reject     takes the fault of a line
    known      names of columns that matter: other keys that come late are passed over; None: all matter
    keeps_ends whether strings keep their line ends, which else become blanks
    names      of the columns, known when the first CSV has been given
    with_text  names of columns that have had strings so far
    """

    def __init__(
        self,
        most_line_bytes: int,
        reject: Callable[[Callable[[], InputError]], None],
        known: Collection[str] | None = None,
        keeps_ends: bool = False,
    ) -> None:
        self._most_line_bytes = most_line_bytes
        self._reject = reject
        self._known = None if known is None else frozenset(known)
        self._keeps_ends = keeps_ends
        self.names: list[str] = []
        self.with_text: set[str] = set()
        self._known_keys: frozenset[str] = frozenset()
        self._pieces: deque[_Piece] = deque(maxlen=_PLACED)
        self._starts = array("q")
        self._lines = self._bytes = self._csv_lines = 0
        self._last: InputError | None = None

    def as_csv(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the CSV, a piece of some lines at a time. InputError not_json, line_too_long, columns_differ."""
        for number, piece in enumerate(self._whole_lines(chunks)):
            lines = piece.split(b"\n")[:-1]
            self._starts = array("q", accumulate((len(line) + 1 for line in lines), initial=self._bytes))
            self._check_lengths(lines)
            objects = [self._object(line, self._lines + place) for place, line in enumerate(lines)]
            if number == 0:
                if not any(each is not None for each in objects):
                    raise InputError("no_rows", "the first lines have no object")
                self._settle_names(objects)
                yield _csv([self.names], csv.QUOTE_ALL)
                self._csv_lines = 1
            yield self._written(objects)

    def placed(self, error: InputError) -> InputError:
        """Change the place of an error from its place in the CSV to its place in the input."""
        if error.line is None or error is self._last:
            return error
        self._last, error.column = error, None
        for piece in reversed(self._pieces):
            if piece.csv[0] <= error.line:
                place = min(bisect_right(piece.csv, error.line), len(piece.csv) - 1) - 1
                error.line, error.byte = piece.first + place + 1, piece.bytes_[place]
                break
        else:  # the line of names
            error.byte = None
        return error

    def _whole_lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield pieces of whole lines. The first is the lines in HEAD_BYTES, or one longer line."""
        held, is_first = bytearray(), True
        for chunk in chain(chunks, [None]):
            held += chunk or b""
            if chunk is not None and len(held) < HEAD_BYTES:
                continue
            if is_first:
                refuse_foreign(bytes(held[:_HEAD]), is_json=True)
            if chunk is None and held and not held.endswith(b"\n"):
                held += b"\n"
            while held:
                end = (held.rfind(b"\n", 0, HEAD_BYTES) + 1) or (held.find(b"\n") + 1)
                if not end or (chunk is not None and len(held) < HEAD_BYTES):
                    break
                piece, is_first = bytes(held[:end]), False
                del held[:end]
                yield piece
            if len(held) > self._most_line_bytes:
                raise self._too_long(self._lines)

    def _check_lengths(self, lines: list[bytes]) -> None:
        """InputError line_too_long."""
        if max(map(len, lines)) > self._most_line_bytes:
            place = next(place for place, line in enumerate(lines) if len(line) > self._most_line_bytes)
            raise self._too_long(self._lines + place)

    def _too_long(self, number: int) -> InputError:
        return self._fault(number, "line_too_long", f"the line has more than {self._most_line_bytes} bytes")

    def _object(self, line: bytes, number: int) -> Any:
        """The object of a line, or the names in the first line; None for blank lines and faults, which are rejected."""
        text = line.removeprefix(_MARK) if number == 0 else line
        if not text.strip():
            return None
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            what = f"this is no JSON, from column {error.colno} on: {error.msg.partition(':')[0]}"
            self._reject(lambda: self._fault(number, "not_json", what))
            return None
        is_names = number == 0 and isinstance(value, list) and all(isinstance(each, str) for each in value)
        if isinstance(value, dict) or is_names:
            return value
        self._reject(lambda: self._fault(number, "not_json", "the line has no object"))
        return None

    def _settle_names(self, objects: list[Any]) -> None:
        first = next(each for each in objects if each is not None)
        if isinstance(first, list):
            self.names = first
            objects[objects.index(first)] = None
        else:
            self.names = list(dict.fromkeys(chain.from_iterable(each for each in objects if each is not None)))
        if len(self.names) > MOST_COLUMNS:
            raise too_many_columns()
        if not self.names:
            raise InputError("no_rows", "the objects have no key")
        self._known_keys = frozenset(self.names)

    def _written(self, objects: list[Any]) -> bytes:
        """The CSV of a piece."""
        rows = [self._row(each, self._lines + place) for place, each in enumerate(objects)]
        heights = (1 + self._line_ends(row) for row in rows)
        csv_starts = array("q", accumulate(heights, initial=self._csv_lines + 1))
        self._pieces.append(_Piece(self._lines, self._starts, csv_starts))
        self._lines, self._bytes, self._csv_lines = self._lines + len(rows), self._starts[-1], csv_starts[-1] - 1
        # A field in quotes may be empty, or blank, in a line of its own.
        return _csv(rows, csv.QUOTE_ALL if self._keeps_ends or len(self.names) == 1 else csv.QUOTE_MINIMAL)

    def _line_ends(self, row: list[Any]) -> int:
        return sum(cell.count("\n") for cell in row if type(cell) is str) if self._keeps_ends else 0

    def _row(self, of: dict[str, Any] | None, number: int) -> list[Any]:
        """The cells of a row; [] for a line without one."""
        if of is None:
            return []
        if not of.keys() <= self._known_keys:
            late = of.keys() - self._known_keys
            matters = late if self._known is None else late & self._known
            if matters:
                what = f"the key {min(matters)[:40]!r} is in none of the first objects"
                self._reject(lambda: self._fault(number, "late_key", what))
                return []
        cells = list(map(of.get, self.names))
        kinds = set(map(type, cells))
        if dict in kinds or list in kinds:
            name = next(name for name, cell in zip(self.names, cells, strict=True) if isinstance(cell, dict | list))
            what = f"{name[:40]!r} is an object or an array"
            self._reject(lambda: self._fault(number, "nested_value", what))
            return []
        if str in kinds:
            self._note_texts(cells)
        return cells

    def _note_texts(self, cells: list[Any]) -> None:
        for place, cell in enumerate(cells):
            if type(cell) is str:
                self.with_text.add(self.names[place])
                if not self._keeps_ends and ("\n" in cell or "\r" in cell):
                    cells[place] = cell.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")

    def _fault(self, number: int, code: str, message: str) -> InputError:
        place = number - self._lines
        byte = self._starts[place] if place < len(self._starts) else self._bytes
        self._last = InputError(code, message, line=number + 1, byte=byte)
        return self._last


class PlacedRejected(Rejected):
    """Changes the places of faults by `place`."""

    def __init__(self, skip: bool, place: Callable[[InputError], InputError]) -> None:
        super().__init__(skip)
        self._place = place

    def add(self, fault: Callable[[], InputError]) -> None:
        super().add(lambda: self._place(fault()))


def _csv(rows: Iterable[list[Any]], quoting: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(rows)
    return text.getvalue().encode()


def names_line(text: bytes) -> bytes:
    """The line that names the columns of an input which begins with `text`, whole lines. InputError as `as_csv`."""
    lines = JsonLines(len(text), lambda _: None)
    next(lines.as_csv([text]))
    return orjson.dumps(lines.names) + b"\n"
