"""Fields of a table as text: splits a line into them, finds their faults, and reads a batch of them."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, count, repeat
from operator import add

import numpy as np

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.options import LabelType
from streamsvm.reader.parsers.label_names import MOST_CHARACTERS
from streamsvm.reader.parsers.libsvm.fault import NOT_FINITE, NUMBER, value_fault
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.storage.rows.csr import Array

DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_GUESSED = (b"\t", b";", b"|", b",")  # of equal counts the first wins: a comma may be a decimal one
_MISSING = {b"", b"na", b"n/a", b"nan", b"-nan", b"null", b"none", b"nil", b"?", b"#n/a"}
_MOST_FIELDS = 1 << 18  # in a batch
_QUOTED = re.compile(rb'"[^"]*"')

Field = tuple[int, bytes]  # place in its line, content without the quotes and blanks around it


class BadQuote(Exception):
    """A quote is not closed, or stands inside a field; `args[0]` is its place in the line."""


class FieldReader:
    """Splits lines at a delimiter (one byte). A field in quotes ends on its line; a quote in it is written twice."""

    def __init__(self, delimiter: bytes) -> None:
        self.delimiter = delimiter
        d = re.escape(delimiter)
        # Possessive quantifiers: else the match would remember each byte of the field, to go back to it.
        self._field = re.compile(rb'"((?:[^"]++|"")*+)"|([^"%s]*)' % d)

    def split(self, line: bytes, most: int) -> list[Field]:
        """The fields of a line without its end, the first `most` + 1 if there are more. Raises BadQuote."""
        if b'"' not in line:
            fields = line.split(self.delimiter, most + 1)[: most + 1]
            places = map(add, accumulate(map(len, fields), initial=0), count())
            return list(zip(places, map(bytes.strip, fields, repeat(b" \t")), strict=False))
        split: list[Field] = []
        place = 0
        while True:
            match = self._field.match(line, place)
            if match is None or (match.end() < len(line) and line[match.end()] != self.delimiter[0]):
                raise BadQuote(match.end() if match else place)
            quoted, plain = match.groups()
            content = plain if quoted is None else quoted.replace(b'""', b'"')
            split.append((place, content.strip(b" \t")))
            if match.end() == len(line) or len(split) > most:
                return split
            place = match.end() + 1


def find_delimiter(line: bytes, option: str | None, may_be_one: bool) -> bytes:
    """The delimiter of a file with this first line. InputError bad_delimiter, delimiter_mismatch.

    option      options.delimiter
    may_be_one  whether the table may have a single column
    """
    bare = _QUOTED.sub(b"", line)
    likely = max(_GUESSED, key=bare.count)
    wanted = likely if option is None else DELIMITERS.get(option, option).encode()
    if len(wanted) != 1 or wanted in b'"\r\n.+-0123456789':
        raise InputError("bad_delimiter", "a delimiter is one character, or a name such as tab")
    if wanted not in bare and not (may_be_one and likely not in bare):
        instead = f", but {bare.count(likely)} {excerpt(likely)}" if likely in bare else ""
        raise InputError("delimiter_mismatch", f"the first line has no delimiter {excerpt(wanted)}{instead}", line=1)
    return wanted


def decoded(fields: Sequence[bytes]) -> list[str]:
    """The texts of fields, with U+FFFD for what is not UTF-8; at once, for there may be hundreds of thousands."""
    texts = b"\n".join(fields).decode(errors="replace").split("\n")
    if len(texts) == len(fields):
        return texts
    return [field.decode(errors="replace") for field in fields]  # some have several lines, or there are none


def is_missing(field: bytes) -> bool:
    """Whether a field stands for a missing value."""
    return field.lower() in _MISSING


def is_truth(field: bytes) -> bool:
    """Whether a field is true or false, which are the numbers 1 and 0 of a feature, and words of a label."""
    return field.lower() in (b"true", b"false")


def is_text(field: bytes) -> bool:
    """Whether a field is neither a number, a truth value nor missing."""
    return not (NUMBER.fullmatch(field) or NOT_FINITE.fullmatch(field) or is_missing(field) or is_truth(field))


def label_type(first: bytes) -> LabelType:
    """The type of labels of which this is the first; true and false are strings."""
    return "string" if is_text(first) or is_truth(first) else "number"


def field_fault(field: bytes, kind: str = "field") -> tuple[str, str] | None:
    """Code and message of the fault of a field that should be a number, or None; kind: "field", "label" or "weight"."""
    if is_missing(field):
        return "missing_value", "a value is missing"
    fault = value_fault(field)
    if fault is None:
        negative = kind == "weight" and float(field) < 0
        return ("negative_weight", f"weight {excerpt(field)} is below 0") if negative else None
    code, message = fault
    # A label may be as large as any double.
    if kind == "label" and code == "row_overflow":
        return None
    return ("not_numeric", f"{kind} {excerpt(field)} is not a number") if code == "bad_number" else (code, message)


def text_fault(field: bytes) -> tuple[str, str] | None:
    """Code and message of the fault of a field that is a string, or None."""
    if not field:
        return "missing_value", "a value is missing"
    try:
        length = len(field.decode())
    except UnicodeDecodeError:
        return "not_utf8", f"{excerpt(field)} is not UTF-8"
    return ("label_too_long", f"{excerpt(field)} has {length} characters") if length > MOST_CHARACTERS else None


def batch_rows(n_columns: int) -> int:
    """The most rows of a batch: categories are numbered batch by batch, so that all formats have the same."""
    return max(1, _MOST_FIELDS // n_columns)


class TextBatch:
    """A `FieldBatch` of text[start:stop]; text (k,) uint8, a byte behind each field; start, stop (n, columns)."""

    is_text = False

    def __init__(self, text: Array, start: Array, stop: Array) -> None:
        self.text, self.start, self.stop, self.rows = text, start, stop, len(start)
        self.bad_lines: list[tuple[int, Callable[[], InputError]]] = []

    def numbers(self, places: Array, exact: bool) -> tuple[Array, Array | None]:
        """See `FieldBatch`."""
        start, stop = self.start[: self.rows], self.stop[: self.rows]
        values = np.empty((self.rows, len(places)))
        if exact:
            for k, place in enumerate(places.tolist()):
                kernel.read_doubles(self.text, start[:, place], stop[:, place], values[:, k])
        elif kernel.read_table(self.text, start, stop, places, values) == 0:
            return values, None
        missing = np.isnan(values)
        # The kernel reads neither long numbers nor words for gaps.
        for row, k in np.argwhere(missing & (stop > start)[:, places]).tolist():
            field = self.field(row, int(places[k]))
            if field_fault(field, "label") is None:
                values[row, k] = float(field)
            missing[row, k] = is_missing(field)
        return values, missing

    def words(self, place: int) -> TextFields:
        """See `FieldBatch`."""
        return TextFields(self.text, self.start[: self.rows, place], self.stop[: self.rows, place])

    def field(self, row: int, column: int) -> bytes:
        """A field."""
        return self.text[self.start[row, column] : self.stop[row, column]].tobytes()

    def fault(self, row: int, column: int, kind: str) -> tuple[str, str]:
        """See `FieldBatch`."""
        fault = field_fault(self.field(row, column), kind)
        assert fault is not None
        return fault

    def place(self, row: int, column: int) -> int:
        """See `FieldBatch`."""
        return int(self.start[row, column])

    def word_columns(self, skipped: set[int]) -> set[int]:
        """Columns, but the skipped ones, that have a word: a field that is no number, and not missing."""
        columns = np.array([column for column in range(self.start.shape[1]) if column not in skipped], np.int64)
        values = np.empty((self.rows, len(columns)))
        kernel.read_table(self.text, self.start, self.stop, columns, values)
        is_hard = np.isnan(values)
        return {
            int(columns[k])
            for k in np.flatnonzero(is_hard.any(axis=0)).tolist()
            if any(is_text(self.field(row, columns[k])) for row in np.flatnonzero(is_hard[:, k]).tolist())
        }
