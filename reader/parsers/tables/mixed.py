"""Makes rows of the columns of a table: of numbers and categories, or of strings of bases.

Features are numbered in this order: columns of numbers, as in `MixedColumns.names`; with missing=indicator, a feature
for each of them that is 1 where the number is missing; categories as they first occur. Values within a row are sorted
by the names of their columns (`MixedColumns.by_name`), so that sums over a row do not depend on the order of columns.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import excerpt
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import fasta_kernel
from streamsvm.reader.parsers.fasta import string_input
from streamsvm.reader.parsers.tables import tables_kernel
from streamsvm.reader.parsers.tables.categories import HASHED_FEATURES, Dictionary, HashedWords, TextFields
from streamsvm.reader.parsers.tables.fields import FieldBatch
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns, first_names
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

Made = tuple[Array, Array, Array]  # indptr, indices, values
_LOOK_ROWS, _LOOK_VALUES, _LOOK_BYTES = 10_000, 1 << 20, 16 << 20
_LEAST_ROWS = 10  # before a column is called an id by its values alone
_ID = re.compile(r"(.*[^a-z])?(id|ids|idx|index|key|uuid|guid|rownum|row_number|row_no|serial)", re.IGNORECASE)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")
_DATE = re.compile(rb"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T ].*)?")
_LARGE = 1 << 24
_FIRST_DAY, _LAST_DAY = 1900_01_01, 2100_12_31


class MixedFeatures:
    """Makes rows of numbers and categories.

    columns        the columns that make features
    grows          False: categories that options.like does not have make no features

    number_places  (k,) positions of the columns that are read as numbers
    word_places    positions of the columns that are read as strings
    n_features     number of features so far
    unknown        name of a column -> number of its fields so far whose category has no feature
    warnings       see `OddColumns.warnings`
    """

    def __init__(self, columns: MixedColumns, options: InputOptions, *, grows: bool = True) -> None:
        self.columns = columns
        self._odd = OddColumns(columns) if options.like is None else None
        self._missing = options.missing
        self._n_numbers = len(columns.number_places)
        self._n_indicators = self._n_numbers * (options.missing == "indicator")
        # The features, from 0, of columns of numbers and then of their indicators, in the order of values in rows.
        self._features = columns.number_features
        if self._features is not None and self._n_indicators:
            self._features = np.concatenate((self._features, self._features + self._n_indicators))
        words = columns.word_names
        like = options.like or {}
        if options.categories == "hashed":
            n_features = like.get("n_features") or options.n_features or HASHED_FEATURES
            self._categories: Dictionary | HashedWords = HashedWords(words, n_features)
        else:
            self._categories = Dictionary(words, like.get("dictionary"), grows=grows)

    @property
    def number_places(self) -> Array:
        return self.columns.number_places

    @property
    def word_places(self) -> list[int]:
        return self.columns.words

    @property
    def n_features(self) -> int:
        return self._n_numbers + self._n_indicators + self._categories.n_features

    @property
    def unknown(self) -> dict[str, int]:
        counts = zip(self.columns.word_names, self._categories.unknown.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    @property
    def warnings(self) -> list[dict[str, str]]:
        return [] if self._odd is None else self._odd.warnings()

    def last_values(self, n_columns: int) -> tuple[int, bool]:
        """Return what `OddColumns.last_values` does, or (0, False) where the rows join a dataset that exists."""
        return (0, False) if self._odd is None else self._odd.last_values(n_columns)

    def word_fault(self, word: bytes) -> tuple[str, str, int] | None:
        """Return the code, the message and the offset in the word of a word's fault; None if the word has no fault."""
        if not word and self._missing == "error":
            return "missing_value", "a category is missing", 0
        try:
            word.decode()
        except UnicodeDecodeError:
            return "not_utf8", f"{excerpt(word)} is not UTF-8", 0
        return None

    def read(self, batch: FieldBatch, place: int) -> tuple[TextFields, Array]:
        """Return the words of the column at a position, and (n,) bool: whether each is without a fault."""
        fields = batch.words(place)
        if batch.is_text:
            return fields, (fields.stop > fields.start) | (self._missing != "error")
        return fields, np.array([self.word_fault(fields[row]) is None for row in range(len(fields))], bool)

    def make(self, numbers: Array, words: list[TextFields], base: int) -> Made:
        """Return CSR rows of numbers (n, k), NaN if missing, and n words of each word column; base: first feature."""
        n_rows = len(numbers)
        if self._odd is not None:
            self._odd.look(numbers, words)
        is_missing = np.isnan(numbers)
        values = np.where(is_missing, 0, numbers).astype(VALUE)
        missing = is_missing if self._n_indicators else np.zeros((n_rows, 0), bool)
        categories = np.empty((n_rows, len(words)), INDEX)
        signs = np.empty((n_rows, len(words)), VALUE)
        for place, fields in enumerate(words):
            categories[:, place], signs[:, place] = self._categories.numbers(place, fields)
        most = n_rows * (len(self.columns.names) + missing.shape[1])
        indptr, indices, data = np.zeros(n_rows + 1, INDPTR), np.empty(most, INDEX), np.empty(most, VALUE)
        tables_kernel.put_rows(values, missing, categories, signs, base, indptr, indices, data)
        return indptr, self._numbered(indices[: indptr[-1]], base), data[: indptr[-1]].copy()

    def _numbered(self, indices: Array, base: int) -> Array:
        """Return the numbers of features; `indices` count the features from `base` in the order of values in rows."""
        if self._features is None:
            return indices.copy()
        features = self._features + base
        is_number = indices < base + len(features)
        return np.where(is_number, features[np.where(is_number, indices - base, 0)], indices).astype(INDEX)

    def places(self, base: int) -> Array | None:
        """Return `Parser.feature_places` for features that are numbered from `base`."""
        if self._features is None:
            return None
        return np.concatenate((np.arange(base), self._features.argsort() + base)).astype(INDEX)

    def input_entries(self) -> dict[str, Any]:
        """Return the entries of `Manifest.input` that say how features are made."""
        columns = zip(self.columns.names, self.columns.is_word, strict=True)
        return {
            "columns": self.columns.names,
            "categorical": [name for name, is_word in columns if is_word],
            "missing": self._missing,
            **self._categories.input_entries(),
        }


class OneColumn:
    """The base of makers of rows whose features are all made of one column. Methods: see `MixedFeatures`."""

    number_places = np.empty(0, np.int64)
    unknown: Mapping[str, int] = {}
    warnings: Sequence[dict[str, str]] = ()

    def last_values(self, _n_columns: int) -> tuple[int, bool]:
        return 0, False

    def places(self, _base: int) -> Array | None:
        return None


class StringColumn(OneColumn):
    """Makes rows of strings of bases of one length: the dataset's, or the first string's.

    place   position of the column with the strings
    length  number of letters of a string; None before the first string
    """

    def __init__(self, place: int, options: InputOptions) -> None:
        self.length: int | None = (options.like or {}).get("length")
        self.word_places = [place]
        self._name = options.string_column

    @property
    def n_features(self) -> int:
        return 0 if self.length is None else fasta_kernel.words_of(self.length)

    def word_fault(self, string: bytes) -> tuple[str, str, int] | None:
        """See `MixedFeatures`. The first string without a fault sets the length."""
        if not string:
            return "empty_sequence", "there is no string", 0
        bad = np.flatnonzero(fasta_kernel.CODES[np.frombuffer(string, np.uint8)] > fasta_kernel.UNKNOWN_BASE)
        if len(bad):
            return "not_a_base", f"{excerpt(string[bad[0] : bad[0] + 1])} is no base", int(bad[0])
        self.length = len(string) if self.length is None else self.length
        if len(string) != self.length:
            return "string_length", f"the string has {len(string)} letters, the first one {self.length}", 0
        return None

    def read(self, batch: FieldBatch, place: int) -> tuple[TextFields, Array]:
        fields, row = batch.words(place), 0
        while self.length is None and row < len(fields):
            self.word_fault(fields[row])
            row += 1
        fit = np.zeros(len(fields), bool)
        fasta_kernel.are_strings(fields.text, fields.start, fields.stop, fasta_kernel.CODES, self.length or 0, fit)
        return fields, fit

    def make(self, numbers: Array, words: list[TextFields], base: int) -> Made:
        (fields,) = words
        each = self.n_features
        packed, values = np.empty(len(fields) * each, INDEX), np.empty(len(fields) * each, VALUE)
        fasta_kernel.pack_strings(fields.text, fields.start, fields.stop, fasta_kernel.CODES, packed, values)
        return np.arange(len(fields) + 1, dtype=INDPTR) * each, packed, values

    def input_entries(self) -> dict[str, Any]:
        return {**string_input(self.length or 0), "string_column": self._name}


Maker = MixedFeatures | StringColumn


def feature_names(input: dict[str, Any] | None, wanted: set[int], base: int) -> dict[int, str]:
    """Return feature -> name for `wanted` features that have a name; input: the dataset's, base: its first feature."""
    if input is None or "columns" not in input:
        return {}
    words = set(input["categorical"])
    names = [name for name in input["columns"] if name not in words]
    names += [f"{name} is missing" for name in names] if input["missing"] == "indicator" else []
    named = {base + number: name for number, name in enumerate(names)}
    first = base + len(names)
    for column, numbers in input.get("dictionary", {}).items():
        named |= {first + number: f"{column}={word}" for word, number in numbers.items() if first + number in wanted}
    return {number: name for number, name in named.items() if number in wanted}


class OddColumns:
    """Finds columns that look like ids or dates in the first rows. Call `look` with rows in order, then `warnings`."""

    def __init__(self, columns: MixedColumns) -> None:
        self._columns = columns
        self._names = columns.number_names
        self._most = max(1, min(_LOOK_ROWS, _LOOK_VALUES // max(1, len(columns.names))))
        self._numbers: list[Array] = []
        self._words: list[list[bytes]] = [[] for _ in columns.words]
        self._rows = self._bytes = 0

    def look(self, numbers: Array, words: Sequence[TextFields]) -> None:
        """Store the first rows of an input: numbers (n, k), NaN where missing, and n words of each word column."""
        count = min(len(numbers), self._most - self._rows)
        if words and count > 0:
            size = self._bytes + np.cumsum(sum(fields.stop[:count] - fields.start[:count] for fields in words))
            fit = int(np.searchsorted(size, _LOOK_BYTES, "right"))
            self._most, count, self._bytes = (self._most if fit == count else 0), fit, int(size[-1])
        if count <= 0:
            return
        self._numbers.append(numbers[:count].copy())
        for stored, fields in zip(self._words, words, strict=True):
            stored += [fields[row] for row in range(count)]
        self._rows += count

    def warnings(self) -> list[dict[str, str]]:
        """Return the warnings, each a dict of "code" and "message"; the message says what helps."""
        values, words = self._whole(), [*zip(self._columns.word_names, self._words, strict=True)]
        dates = {self._names[k] for k in _days(values)}
        dates |= {name for name, column in words if column and all(map(_DATE.fullmatch, column))}
        ids = {name for name, column in zip(self._names, values.T, strict=True) if _is_id(column, name)}
        ids |= {name for name, column in words if len(column) >= _LEAST_ROWS and len(set(column)) == len(column)}
        names = sorted(self._columns.names, key={*self._columns.word_names}.__contains__)  # numbers come first
        columns = {
            "index_left_out": self._columns.index,
            "columns_like_ids": [name for name in names if name in ids and name not in dates],
            "columns_like_dates": [name for name in names if name in dates],
        }
        texts = ((code, *_TEXTS[code], first_names(names)) for code, names in columns.items() if names)
        return [{"code": code, "message": f"{what}: {shown}. {help_}"} for code, what, help_, shown in texts]

    def last_values(self, n_columns: int) -> tuple[int, bool]:
        """Return how many different values the last column has in the first rows, and whether these are words.

        The columns have no names; `n_columns` is their number. The count is 0 if the last column makes no features, or
        has a number with a fraction.
        """
        name, words = str(n_columns), self._columns.word_names
        if name in words:
            return len(set(self._words[words.index(name)])), True
        if name not in self._names:
            return 0, False
        column = self._whole()[:, self._names.index(name)]
        return len(np.unique(column)) * bool((column % 1 == 0).all()), False

    def _whole(self) -> Array:
        return np.concatenate(self._numbers) if self._numbers else np.empty((0, len(self._names)))


def _days(values: Array) -> list[int]:
    """The columns of values (n, k) that are days written as 20240131."""
    are_days = (values >= _FIRST_DAY) & (values <= _LAST_DAY) & (values % 1 == 0)
    month, day = values // 100 % 100, values % 100
    # Rounded to float32, days are off by one.
    are_days &= (month >= 1) & (month <= 12) & (day >= 0) & (day <= 32)
    return np.flatnonzero(are_days.all(axis=0)).tolist() if len(values) else []


def _is_id(values: Array, name: str) -> bool:
    """Return whether values are ids: integers, different or large in a column named as an id, or all of a range."""
    if len(values) < 3 or not (values % 1 == 0).all():
        return False
    if _ID.fullmatch(name) or _CAMEL_ID.fullmatch(name):
        # Rounded to float32, large integers equal their neighbours.
        return len(np.unique(values)) == len(values) or bool(np.median(values) > _LARGE)
    if len(values) < _LEAST_ROWS:
        return False
    if (np.diff(values) == 1).all():
        return True
    is_range = values.max() - values.min() == len(values) - 1
    return bool(is_range) and len(np.unique(values)) == len(values)


_TEXTS = {
    "index_left_out": ("an index of rows is no feature and was left out", "To keep it, name it in columns"),
    "columns_like_ids": ("columns look like ids, which say nothing of new rows", "Leave them out: drop_columns"),
    "columns_like_dates": (
        "columns look like dates, which are taken for numbers or words",
        "Leave them out, or make numbers of them: drop_columns",
    ),
}
