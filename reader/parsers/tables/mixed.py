"""What columns of a table make, where not all of them are numbers: features of numbers and words, or strings.

The features of a table: first the columns of numbers in their order, then, with missing `indicator`, one of
each of them that says where it is missing, then the categories.
"""

from typing import Any, Protocol

import numpy as np

from streamsvm.reader.errors import excerpt
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.strings import fasta_kernel, strings_kernel
from streamsvm.reader.parsers.strings.strings import string_input
from streamsvm.reader.parsers.tables import categories_kernel
from streamsvm.reader.parsers.tables.categories import HASHED_FEATURES, Categories, Dictionary, Fields, Hashed
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.reader.parsers.tables.odd_columns import OddColumns
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

Made = tuple[Array, Array, Array]  # indptr, indices, values


class Maker(Protocol):
    """Makes rows of the columns of a table.

    number_places  (k,) of the columns that are read as numbers
    word_places    of those that are read as they are
    n_features     so far
    unknown        categories without a feature
    warnings       of columns that look as if they were none, with code and message
    """

    @property
    def number_places(self) -> Array: ...
    @property
    def word_places(self) -> list[int]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def unknown(self) -> int: ...
    @property
    def warnings(self) -> list[dict[str, str]]: ...

    def words_fit(self, fields: Fields, is_text: bool) -> Array:
        """(n,): which words can be read; is_text: all of them are UTF-8, as is known already."""

    def word_fault(self, word: bytes) -> tuple[str, str, int] | None:
        """Code, message and place in the word of what is wrong with it, or None."""

    def make(self, numbers: Array, words: list[Fields], base: int) -> Made:
        """Make features of numbers (n, k) that fit, nan where they are missing, and of the words."""

    def told(self) -> dict[str, Any]:
        """The part of `input` that says how features are made."""


class MixedFeatures:
    """A `Maker` of features of numbers and categories.

    columns      that make features
    grows        whether categories that are not in `like` make features of their own
    """

    def __init__(self, columns: MixedColumns, options: InputOptions, *, grows: bool = True) -> None:
        self.columns = columns
        self._odd = OddColumns(columns) if options.like is None else None
        self._missing = options.missing
        self._n_numbers = len(columns.number_places)
        self._n_indicators = self._n_numbers * (options.missing == "indicator")
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
    def unknown(self) -> int:
        return self._categories.unknown

    @property
    def warnings(self) -> list[dict[str, str]]:
        return [] if self._odd is None else self._odd.warnings()

    def word_fault(self, word: bytes) -> tuple[str, str, int] | None:
        if not word and self._missing == "error":
            return "missing_value", "a category is missing", 0
        try:
            word.decode()
        except UnicodeDecodeError:
            return "not_text", f"{excerpt(word)} is not UTF-8", 0
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
        found = np.empty((n_rows, len(words)), INDEX)
        signs = np.empty((n_rows, len(words)), VALUE)
        for place, fields in enumerate(words):
            found[:, place], signs[:, place] = self._categories.numbers(place, fields)
        most = n_rows * (len(self.columns.names) + missing.shape[1])
        indptr, indices, kept = np.zeros(n_rows + 1, INDPTR), np.empty(most, INDEX), np.empty(most, VALUE)
        categories_kernel.put_rows(values, missing, found, signs, base, indptr, indices, kept)
        return indptr, indices[: indptr[-1]].copy(), kept[: indptr[-1]].copy()

    def told(self) -> dict[str, Any]:
        return {
            "columns": self.columns.names,
            "categorical": self.columns.word_names,
            "missing": self._missing,
            **self._categories.told(),
        }


class StringColumn:
    """A `Maker` of strings of bases, all as long as the first, or as those before.

    place   of their column; name: as the options say it
    length  None before the first
    """

    number_places = np.empty(0, np.int64)
    unknown = 0
    warnings: list[dict[str, str]] = []  # noqa: RUF012

    def __init__(self, place: int, options: InputOptions) -> None:
        self.length: int | None = (options.like or {}).get("length")
        self.word_places = [place]
        self._name = options.string_column

    @property
    def n_features(self) -> int:
        return 0 if self.length is None else fasta_kernel.words_of(self.length)

    def word_fault(self, string: bytes) -> tuple[str, str, int] | None:
        """See `Maker`. The first string that fits says the length."""
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

    def told(self) -> dict[str, Any]:
        return {**string_input(self.length or 0), "string_column": self._name}


def feature_names(input: dict[str, Any] | None, wanted: set[int], base: int) -> dict[int, str]:
    """Names of those of these features that have one, in a dataset with this `input`."""
    if input is None or "columns" not in input:
        return {}
    words = set(input["categorical"])
    names = [name for name in input["columns"] if name not in words]
    names += [f"{name} is missing" for name in names] if input["missing"] == "indicator" else []
    found = {base + number: name for number, name in enumerate(names)}
    first = base + len(names)
    for column, numbers in input.get("dictionary", {}).items():
        found |= {first + number: f"{column}={word}" for word, number in numbers.items() if first + number in wanted}
    return {number: name for number, name in found.items() if number in wanted}
