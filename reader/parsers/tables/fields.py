"""Splits lines of a table into fields of text, finds faults of fields, and reads batches of fields."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, count, repeat
from operator import add

import numpy as np

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.options import LabelType
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.values import MOST_CHARACTERS, NOT_FINITE, NUMBER, value_fault
from streamsvm.storage.rows.csr import Array

DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_GUESSED = (b"\t", b";", b"|", b",")  # the first of equally frequent ones wins: a comma may be decimal
_MISSING = {b"", b"na", b"n/a", b"nan", b"-nan", b"null", b"none", b"nil", b"?", b"#n/a"}
_MOST_FIELDS = 1 << 18  # in a batch
_QUOTED = re.compile(rb'"[^"]*"')

Field = tuple[int, bytes]  # offset in its line, content without the quotes and blanks around it


class BadQuote(Exception):
    """Raised for a quote that is not closed, or stands inside a field; `args[0]` is the fault's offset in the line."""


class FieldReader:
    """Splits lines at `delimiter`, one byte. A field in quotes ends on its line; a quote inside it is written twice."""

    def __init__(self, delimiter: bytes) -> None:
        self.delimiter = delimiter
        d = re.escape(delimiter)
        # Possessive quantifiers: others would make the match store a state for each byte of the field, to backtrack.
        self._field = re.compile(rb'"((?:[^"]++|"")*+)"|([^"%s]*)' % d)

    def split(self, line: bytes, most: int) -> list[Field]:
        """Return the fields of `line`, which has no line end, or the first `most` + 1 of them. Raises BadQuote."""
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
    """Return the delimiter of a file whose first line is `line`. Raises InputError bad_delimiter, delimiter_mismatch.

    option      options.delimiter; None: the most frequent of the usual delimiters
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
    """Return fields as texts, with U+FFFD for bytes that are not UTF-8. One call decodes all fields, which is fast."""
    texts = b"\n".join(fields).decode(errors="replace").split("\n")
    if len(texts) == len(fields):
        return texts
    return [field.decode(errors="replace") for field in fields]  # a field has a line feed, or there is no field


DATE = re.compile(rb"\d{4}-\d\d?-\d\d?(?!\d)|\d\d?([./-])\d\d?\1\d{2,4}(?!\d)")
_ODD_NUMBER = re.compile(rb"[$+-]?[\d., ']*\d[\d., ']*%?")
_LONGEST_WORD = 200  # bytes


def is_missing(field: bytes) -> bool:
    """Return whether a field stands for a missing number: it is empty, NA, NaN, null or the like."""
    return field.lower() in _MISSING


def is_truth(field: bytes) -> bool:
    """Return whether a field is true or false, which are the numbers 1 and 0 of a feature, but words of a label."""
    return field.lower() in (b"true", b"false")


def is_text(field: bytes) -> bool:
    """Return whether a field is neither a number, nor true or false, nor missing."""
    return not (NUMBER.fullmatch(field) or NOT_FINITE.fullmatch(field) or is_missing(field) or is_truth(field))


def mostly_words(rows: Sequence[Sequence[bytes]]) -> set[int]:
    """Return the positions of columns that hold categories: more than half of their fields here are words.

    Missing fields do not count. Dates, documents, long strings and numbers written otherwise (1,5, $3, 20%) are no
    words: a column of these is refused with a hint, as an option reads it better. A field of more than two parts is a
    document, unless it occurs twice here.
    """
    words = set[int]()
    for place, column in enumerate(zip(*rows, strict=True)):
        counts = Counter(column)
        n_words = sum(count for field, count in counts.items() if _is_word(field, count))
        if 2 * n_words > sum(count for field, count in counts.items() if not is_missing(field)):
            words.add(place)
    return words


def _is_word(field: bytes, count: int) -> bool:
    is_short = len(field) <= _LONGEST_WORD and (field.count(b" ") <= 1 or count > 1)
    return is_short and is_text(field) and not DATE.match(field) and not _ODD_NUMBER.fullmatch(field)


def label_type(first: bytes) -> LabelType:
    """Return the type of labels, "string" or "number", by the first label; true and false are strings."""
    return "string" if is_text(first) or is_truth(first) else "number"


def field_fault(field: bytes, kind: str = "field") -> tuple[str, str] | None:
    """Return code and message if a field is no valid number, else None; kind: "field", "label" or "weight"."""
    if is_missing(field):
        return "missing_value", "a value is missing"
    fault = value_fault(field)
    if fault is None:
        negative = kind == "weight" and float(field) < 0
        return ("negative_weight", f"weight {excerpt(field)} is below 0") if negative else None
    code, message = fault
    # A label may be any finite float64.
    if kind == "label" and code == "row_overflow":
        return None
    return ("not_numeric", f"{kind} {excerpt(field)} is not a number") if code == "bad_number" else (code, message)


def text_fault(field: bytes) -> tuple[str, str] | None:
    """Return code and message of the fault of a string (a label or group): missing, not UTF-8, too long; else None."""
    if not field:
        return "missing_value", "a value is missing"
    try:
        length = len(field.decode())
    except UnicodeDecodeError:
        return "not_utf8", f"{excerpt(field)} is not UTF-8"
    return ("label_too_long", f"{excerpt(field)} has {length} characters") if length > MOST_CHARACTERS else None


def batch_rows(n_columns: int) -> int:
    """Return the most rows in a batch. All formats use this number, since categories are numbered batch by batch."""
    return max(1, _MOST_FIELDS // n_columns)


class FieldBatch:
    """A batch of rows of a table, whose fields are read column by column. Positions of columns count from 0.

    rows        number of rows
    is_text     whether all words are known to be UTF-8
    bad_lines   for each line that is no row: its place in the input (see `place`), and a function that makes its error
    """

    rows: int
    is_text = False
    bad_lines: Sequence[tuple[int, Callable[[], InputError]]] = ()

    def numbers(self, places: Array, exact: bool) -> tuple[Array, Array | None]:
        """Return numbers (n, k) float64, NaN for fields that are no numbers, and (n, k) bool: which fields are missing.

        places  (k,) positions of columns
        exact   False: numbers may be rounded to float32; if no field is missing and all fit, None replaces the bool
        """
        raise NotImplementedError

    def words(self, place: int) -> TextFields:
        """Return the words of the column at position `place`, an empty word for each missing field."""
        raise NotImplementedError

    def documents(self, place: int) -> tuple[TextFields, Array]:
        """Return the texts of a column as they stand, blanks included, and (n,) bool: which of them are missing.

        At least one byte follows each text. By default, none is missing, and the words are the texts.
        """
        return self.words(place), np.zeros(self.rows, bool)

    def fault(self, row: int, column: int, kind: str) -> tuple[str, str]:
        """Return code and message of the fault of a field that is no number; kind: "field", "label" or "weight"."""
        raise NotImplementedError

    def place(self, row: int, column: int) -> int:
        """Return a field's place in the input, an offset or a count of fields: faults are reported in this order."""
        raise NotImplementedError


class TextBatch(FieldBatch):
    """Fields that are slices of a text: field (i, j) is text[start[i, j]:stop[i, j]].

    text         (k,) uint8; at least one byte follows each field
    start, stop  (n_rows, n_columns) positions in the text
    """

    def __init__(self, text: Array, start: Array, stop: Array) -> None:
        self.text, self.start, self.stop, self.rows = text, start, stop, len(start)
        self.bad_lines: list[tuple[int, Callable[[], InputError]]] = []

    def numbers(self, places: Array, exact: bool) -> tuple[Array, Array | None]:
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
        return TextFields(self.text, self.start[: self.rows, place], self.stop[: self.rows, place])

    def field(self, row: int, column: int) -> bytes:
        """Return the bytes of a field, by its row in the batch and the position of its column."""
        return self.text[self.start[row, column] : self.stop[row, column]].tobytes()

    def fault(self, row: int, column: int, kind: str) -> tuple[str, str]:
        fault = field_fault(self.field(row, column), kind)
        assert fault is not None
        return fault

    def place(self, row: int, column: int) -> int:
        return int(self.start[row, column])

    def word_columns(self, skipped: set[int]) -> set[int]:
        """Return the positions of columns, except `skipped`, with a word: a field for which `is_text` is true."""
        columns = np.array([column for column in range(self.start.shape[1]) if column not in skipped], np.int64)
        values = np.empty((self.rows, len(columns)))
        kernel.read_table(self.text, self.start, self.stop, columns, values)
        is_hard = np.isnan(values)
        return {
            int(columns[k])
            for k in np.flatnonzero(is_hard.any(axis=0)).tolist()
            if any(is_text(self.field(row, columns[k])) for row in np.flatnonzero(is_hard[:, k]).tolist())
        }
