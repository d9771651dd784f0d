"""Makes rows of the columns of a table: of numbers and categories, or of strings of bases.

Features are numbered in this order: columns of numbers as they stand; with missing `indicator`, a feature for each of
these columns that is 1 where it is missing; categories as they come. Values within a row come by the names of their
columns (`MixedColumns.by_name`), whatever their numbers: sums over a row do not depend on how columns stand.
"""

from typing import Any, Protocol

import numpy as np

from streamsvm.reader.errors import excerpt
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.strings import fasta_kernel, strings_kernel
from streamsvm.reader.parsers.strings.strings import string_input
from streamsvm.reader.parsers.tables import tables_kernel
from streamsvm.reader.parsers.tables.categories import HASHED_FEATURES, Categories, Dictionary, Fields, Hashed
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.reader.parsers.tables.odd_columns import OddColumns
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

Made = tuple[Array, Array, Array]  # indptr, indices, values


class Maker(Protocol):
    """Makes rows of the columns of a table.

    number_places  (k,) places of the columns that are read as numbers
    word_places    places of the columns that are read as strings
    n_features     number of features so far
    unknown        number of fields so far whose category has no feature, by column
    warnings       of columns that look like ids or dates, each a code and a message
    """

    @property
    def number_places(self) -> Array: ...
    @property
    def word_places(self) -> list[int]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def unknown(self) -> dict[str, int]: ...
    @property
    def warnings(self) -> list[dict[str, str]]: ...

    def words_fit(self, fields: Fields, is_text: bool) -> Array:
        """(n,) bool: which fields can be read; is_text: the caller knows that all are UTF-8."""

    def word_fault(self, word: bytes) -> tuple[str, str, int] | None:
        """The fault of a word: its code, message and place in the word; None if it can be read."""

    def make(self, numbers: Array, words: list[Fields], base: int) -> Made:
        """Make rows of numbers (n, k) that fit float32, NaN where missing, and of the words of each word column."""

    def places(self, base: int) -> Array | None:
        """The places in rows, (d,), of the features below d, which are numbered from `base`; None: as numbered."""

    def input_entries(self) -> dict[str, Any]:
        """The entries of `Manifest.input` that say how features are made."""


class MixedFeatures:
    """A `Maker` of features of numbers and categories.

    columns  that make features
    grows    False: categories that options.like does not have make no features
    """

    def __init__(self, columns: MixedColumns, options: InputOptions, *, grows: bool = True) -> None:
        self.columns = columns
        self._odd = OddColumns(columns) if options.like is None else None
        self._missing = options.missing
        self._n_numbers = len(columns.number_places)
        self._n_indicators = self._n_numbers * (options.missing == "indicator")
        self._features = _with_indicators(columns.number_features, self._n_indicators)
        words = columns.word_names
        like = options.like or {}
        if options.categories == "hashed":
            n_features = like.get("n_features") or options.n_features or HASHED_FEATURES
            self._categories: Categories = Hashed(words, n_features)
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
        """See `OddColumns.last_values`; (0, False) if the rows are not those of a new dataset."""
        return (0, False) if self._odd is None else self._odd.last_values(n_columns)

    def word_fault(self, word: bytes) -> tuple[str, str, int] | None:
        if not word and self._missing == "error":
            return "missing_value", "a category is missing", 0
        try:
            word.decode()
        except UnicodeDecodeError:
            return "not_utf8", f"{excerpt(word)} is not UTF-8", 0
        return None

    def words_fit(self, fields: Fields, is_text: bool) -> Array:
        if is_text:
            return (fields.stop > fields.start) | (self._missing != "error")
        return np.array([self.word_fault(fields[row]) is None for row in range(len(fields))], bool)

    def make(self, numbers: Array, words: list[Fields], base: int) -> Made:
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
        """The features' numbers, from `base`, for those in the order in which rows are made."""
        if self._features is None:
            return indices.copy()
        features = self._features + base
        is_number = indices < base + len(features)
        return np.where(is_number, features[np.where(is_number, indices - base, 0)], indices).astype(INDEX)

    def places(self, base: int) -> Array | None:
        """The places in rows, (d,) int32, of the features below d; None: they come in the order of their numbers."""
        if self._features is None:
            return None
        return np.concatenate((np.arange(base), self._features.argsort() + base)).astype(INDEX)

    def input_entries(self) -> dict[str, Any]:
        columns = zip(self.columns.names, self.columns.is_word, strict=True)
        return {
            "columns": self.columns.names,
            "categorical": [name for name, is_word in columns if is_word],
            "missing": self._missing,
            **self._categories.input_entries(),
        }


def _with_indicators(features: Array | None, n_indicators: int) -> Array | None:
    """Features (k,) of columns of numbers, then those of their indicators, if there are any."""
    return features if features is None or not n_indicators else np.concatenate((features, features + n_indicators))


class StringColumn:
    """A `Maker` of strings of bases, all of the length of the first, or of the dataset's strings.

    place   of the column with the strings
    length  of the strings; None before the first
    """

    number_places = np.empty(0, np.int64)
    unknown: dict[str, int] = {}  # noqa: RUF012
    warnings: list[dict[str, str]] = []  # noqa: RUF012

    def __init__(self, place: int, options: InputOptions) -> None:
        self.length: int | None = (options.like or {}).get("length")
        self.word_places = [place]
        self._name = options.string_column

    @property
    def n_features(self) -> int:
        return 0 if self.length is None else fasta_kernel.words_of(self.length)

    def word_fault(self, string: bytes) -> tuple[str, str, int] | None:
        """See `Maker`. The first good string sets the length."""
        if not string:
            return "empty_sequence", "there is no string", 0
        bad = np.flatnonzero(fasta_kernel.CODES[np.frombuffer(string, np.uint8)] > fasta_kernel.UNKNOWN_BASE)
        if len(bad):
            return "not_a_base", f"{excerpt(string[bad[0] : bad[0] + 1])} is no base", int(bad[0])
        self.length = len(string) if self.length is None else self.length
        if len(string) != self.length:
            return "string_length", f"the string has {len(string)} letters, the first one {self.length}", 0
        return None

    def words_fit(self, fields: Fields, is_text: bool) -> Array:
        row = 0
        while self.length is None and row < len(fields):
            self.word_fault(fields[row])
            row += 1
        fit = np.zeros(len(fields), bool)
        strings_kernel.are_strings(fields.text, fields.start, fields.stop, fasta_kernel.CODES, self.length or 0, fit)
        return fit

    def make(self, numbers: Array, words: list[Fields], base: int) -> Made:
        (fields,) = words
        each = self.n_features
        packed, values = np.empty(len(fields) * each, INDEX), np.empty(len(fields) * each, VALUE)
        strings_kernel.pack_strings(fields.text, fields.start, fields.stop, fasta_kernel.CODES, packed, values)
        return np.arange(len(fields) + 1, dtype=INDPTR) * each, packed, values

    def places(self, base: int) -> Array | None:
        return None

    def input_entries(self) -> dict[str, Any]:
        return {**string_input(self.length or 0), "string_column": self._name}


def feature_names(input: dict[str, Any] | None, wanted: set[int], base: int) -> dict[int, str]:
    """Names of the `wanted` features in a dataset with this `input`, as far as they have one; `base` is the first."""
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
