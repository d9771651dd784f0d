"""Assigns numbers to the features `column=word` of categorical columns, by a dictionary that grows or by a hash."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.reader.parsers.values import of_32_bits, settled, value_of
from streamsvm.storage.rows.csr import INDEX, VALUE, Array

MOST_CATEGORIES = 100_000
_MOST_SPELLINGS = 4 * MOST_CATEGORIES
HASHED_FEATURES = 1 << 20


@dataclass(frozen=True)
class TextFields:
    """Fields of a column: field i is text[start[i]:stop[i]]; text (k,) uint8 bytes, start and stop (n,) integers."""

    text: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, row: int) -> bytes:
        return self.text[self.start[row] : self.stop[row]].tobytes()

    def select(self, rows: Array) -> "TextFields":
        """Return the fields of `rows`: a mask (n,) bool, or indices (m,) of rows."""
        return TextFields(self.text, self.start[rows], self.stop[rows])

    def distinct(self) -> tuple["TextFields", Any]:
        """Return the different fields, in the order in which they first occur, and for each field its index among them.

        Fields with the same offsets in `text`, as repeated words of a dictionary have, are one; others are different.
        """
        if int((self.stop - self.start).sum()) <= len(self.text):
            return self, slice(None)
        # An empty field may begin at the offset of another field.
        return self._by_key(2 * self.start.astype(np.int64) + (self.stop > self.start))

    def distinct_texts(self) -> tuple["TextFields", Any]:
        """Return what `distinct` does; if all fields are short, fields with equal texts are one, too."""
        keys = np.empty(len(self), np.uint64)
        is_short = kernel.short_keys(self.text, self.start, self.stop, keys)
        return self._by_key(keys) if is_short else self.distinct()

    def _by_key(self, keys: Array) -> tuple["TextFields", Array]:
        _, first, fields = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return self.select(first[order]), np.argsort(order)[fields]

    @classmethod
    def of(cls, texts: list[str]) -> "TextFields":
        """Return fields that hold `texts` in UTF-8."""
        return cls.of_bytes([text.encode(errors="surrogatepass") for text in texts])

    @classmethod
    def of_bytes(cls, fields: Sequence[bytes]) -> "TextFields":
        """Return fields that hold `fields`."""
        ends = np.cumsum([0, *map(len, fields)])
        return cls(np.frombuffer(b"".join(fields) + b"\n", np.uint8), ends[:-1], ends[1:])


class Dictionary:
    """Numbers the words of columns from 0, as they first occur; words of one value have one number.

    names    names of the columns
    earlier  {column: {word: number}}: the numbers of the dataset or model
    grows    False: new words get no number
    unknown  attribute (columns,): how many words of each column so far had no number
    """

    def __init__(
        self, names: list[str], earlier: dict[str, dict[str, int]] | None = None, *, grows: bool = True
    ) -> None:
        self.unknown = np.zeros(len(names), np.int64)
        self._names = names
        self._grows = grows
        self._words: list[tuple[int, str]] = []  # the column and the word of each number
        self._values: dict[tuple[int, str], int] = {}  # a column and a value -> the number of its word
        # Key k is a spelling of a word: _keys[k] is (column, begin, end in _pool), _of_key[k] the number of the word.
        self._slots = np.full(1 << 10, kernel.EMPTY_SLOT, INDEX)
        self._keys = np.empty((1 << 9, 3), np.int64)
        self._of_key = np.empty(1 << 9, INDEX)
        self._pool = np.empty(1 << 14, np.uint8)
        self._spellings = self._pooled = 0
        places = {name: place for place, name in enumerate(names)}
        words = [(number, places[name], word) for name, of in (earlier or {}).items() for word, number in of.items()]
        for _, place, word in sorted(words):
            self._number(place, word)

    @property
    def n_features(self) -> int:
        return len(self._words)

    def numbers(self, place: int, fields: TextFields) -> tuple[Array, Array]:
        """Return numbers (n,) int32 of words of column names[place], -1 for none, and values (n,), all 1.

        Raises InputError too_many_categories.
        """
        fields, of_row = fields.distinct()
        keys = np.empty(len(fields), INDEX)
        row, go_on = 0, not self._grows
        while True:
            row = kernel.find_words(
                fields.text, fields.start, fields.stop, place, row, self._slots, self._keys, self._pool, keys, go_on
            )
            if row == len(fields):
                break
            # A new spelling gets the number of its value, or a new number if the value is new, too.
            spelling = fields[row].decode()
            number = self._values.get((place, value_of(spelling)))
            if number is None:
                number = self._number(place, settled(spelling))
            if self._words[number][1] != spelling:
                self._spell(place, spelling, number)
        numbers, new = self._of_key[keys], np.flatnonzero(keys == kernel.UNKNOWN)
        if len(new):
            numbers[new] = [self._known(place, fields[row].decode()) for row in new.tolist()]
            is_unknown = (numbers == kernel.UNKNOWN) & (fields.stop > fields.start)  # a gap is no word
            self.unknown[place] += np.count_nonzero(is_unknown[of_row])
        numbers = numbers[of_row]
        return numbers, np.ones(len(numbers), VALUE)

    def input_entries(self) -> dict[str, Any]:
        """Return the entries of `Manifest.input` that describe the categories."""
        words: dict[str, dict[str, int]] = {name: {} for name in self._names}
        for number, (place, word) in enumerate(self._words):
            words[self._names[place]][word] = number
        return {"categories": "dictionary", "dictionary": words}

    def _known(self, place: int, spelling: str) -> int:
        """Return the number of the value of a new spelling; UNKNOWN if the value has no number."""
        number = self._values.get((place, value_of(spelling)))
        if number is None:
            number = self._values.get((place, value_of(of_32_bits(spelling))), kernel.UNKNOWN)
        if number != kernel.UNKNOWN and self._spellings < _MOST_SPELLINGS:
            self._spell(place, spelling, number)
        return number

    def _number(self, place: int, word: str) -> int:
        number = len(self._words)
        if number == MOST_CATEGORIES:
            raise self._too_many(place, f"{MOST_CATEGORIES} categories")
        self._words.append((place, word))
        for same in (word,) if self._grows else (word, of_32_bits(word)):
            self._values.setdefault((place, value_of(same)), number)
        self._spell(place, word, number)
        return number

    def _spell(self, place: int, spelling: str, number: int) -> None:
        if self._spellings == _MOST_SPELLINGS:
            raise self._too_many(place, f"{_MOST_SPELLINGS} spellings of categories")
        word, key = spelling.encode(), self._spellings
        end = self._pooled + len(word)
        self._pool = _with_room(self._pool, end)
        self._pool[self._pooled : end] = np.frombuffer(word, np.uint8)
        self._keys, self._of_key = _with_room(self._keys, key + 1), _with_room(self._of_key, key + 1)
        self._keys[key], self._of_key[key] = (place, self._pooled, end), number
        self._pooled, self._spellings = end, key + 1
        if 2 * self._spellings > len(self._slots):
            self._slots = np.full(2 * len(self._slots), kernel.EMPTY_SLOT, INDEX)
            for each, (column, begin, stop) in enumerate(self._keys[: key + 1].tolist()):
                kernel.put_word(self._pool, begin, stop, column, each, self._slots)
        else:
            kernel.put_word(self._pool, end - len(word), end, place, key, self._slots)

    def _too_many(self, place: int, what: str) -> InputError:
        return InputError("too_many_categories", f"there are more than {what}: {self._names[place][:40]}")


class HashedWords:
    """Hashes words to numbers and signs, as scikit-learn's FeatureHasher does, with the methods of `Dictionary`."""

    def __init__(self, names: list[str], n_features: int) -> None:
        self.n_features, self.unknown = n_features, np.zeros(len(names), np.int64)
        self._before = [np.frombuffer(f"{name}=".encode(), np.uint8) for name in names]

    def numbers(self, place: int, fields: TextFields) -> tuple[Array, Array]:
        fields, of_row = fields.distinct()
        numbers, sign = np.empty(len(fields), INDEX), np.empty(len(fields), VALUE)
        before, fields = self._before[place], _with_times(fields)
        kernel.hash_words(fields.text, fields.start, fields.stop, before, self.n_features, numbers, sign)
        return numbers[of_row], sign[of_row]

    def input_entries(self) -> dict[str, Any]:
        return {"categories": "hashed", "n_features": self.n_features}


def _with_times(fields: TextFields) -> TextFields:
    """Return the fields, with times in the standard form of `values.settled`."""
    may_be = np.zeros(len(fields), bool)
    for place, least in ((2, 10), (13, 16)):  # offset of a time's first colon, and its least length
        rows = np.flatnonzero(fields.stop - fields.start >= least)
        may_be[rows] |= fields.text[fields.start[rows] + place] == ord(":")
    rows = np.flatnonzero(may_be)
    if not len(rows):
        return fields
    further = TextFields.of([settled(fields[row].decode()) for row in rows.tolist()])
    start, stop = fields.start.copy(), fields.stop.copy()
    start[rows], stop[rows] = further.start + len(fields.text), further.stop + len(fields.text)
    return TextFields(np.concatenate((fields.text, further.text)), start, stop)


def _with_room(array: Array, count: int) -> Array:
    """Return the array, or a longer copy if it has fewer than `count` rows."""
    return array if count <= len(array) else np.resize(array, (2 * count, *array.shape[1:]))


def is_utf8(text: Array) -> bool:
    """Return whether the bytes (n,) uint8 are UTF-8."""
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
