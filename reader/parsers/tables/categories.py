"""Numbers the features `column=word` of categorical columns, in a dictionary that grows or by a hash."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.storage.rows.csr import INDEX, VALUE, Array

MOST_CATEGORIES = 100_000
HASHED_FEATURES = 1 << 20


@dataclass(frozen=True)
class Fields:
    """Fields of a column: the bytes text[start[i]:stop[i]]; text (k,) uint8, start and stop (n,) integers."""

    text: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, row: int) -> bytes:
        return self.text[self.start[row] : self.stop[row]].tobytes()

    def select(self, rows: Array) -> "Fields":
        """The fields of some rows: a mask (n,) or row numbers (m,)."""
        return Fields(self.text, self.start[rows], self.stop[rows])

    @classmethod
    def of(cls, texts: list[str]) -> "Fields":
        """Fields with these strings in UTF-8."""
        fields = [text.encode(errors="surrogatepass") for text in texts]
        ends = np.cumsum([0, *map(len, fields)])
        return cls(np.frombuffer(b"".join(fields) + b"\n", np.uint8), ends[:-1], ends[1:])


class Categories(Protocol):
    """Maps words of columns to feature numbers from 0.

    n_features  all numbers are below it
    unknown     how many words so far had no number
    """

    n_features: int
    unknown: int

    def numbers(self, place: int, fields: Fields) -> tuple[Array, Array]:
        """Numbers (n,) int32 of the words of column names[place], -1 for none, and values (n,) float32."""

    def input_entries(self) -> dict[str, Any]:
        """The entries of `Manifest.input` that describe the categories."""


class Dictionary:
    """Numbers words in the order in which they come. InputError too_many_categories.

    names    of the columns
    earlier  {column: {word: number}} of the dataset or model
    grows    False: new words have no number
    """

    def __init__(
        self, names: list[str], earlier: dict[str, dict[str, int]] | None = None, *, grows: bool = True
    ) -> None:
        self.n_features = self.unknown = 0
        self._names = names
        self._grows = grows
        self._slots = np.full(1 << 10, kernel.EMPTY_SLOT, INDEX)
        self._keys = np.empty((1 << 9, 3), np.int64)
        self._pool = np.empty(1 << 14, np.uint8)
        self._pooled = 0
        places = {name: place for place, name in enumerate(names)}
        words = [(number, places[name], word) for name, of in (earlier or {}).items() for word, number in of.items()]
        for _, place, word in sorted(words):
            self._add(place, word.encode())

    def numbers(self, place: int, fields: Fields) -> tuple[Array, Array]:
        numbers = np.empty(len(fields), INDEX)
        row, go_on = 0, not self._grows
        while True:
            row = kernel.find_words(
                fields.text, fields.start, fields.stop, place, row, self._slots, self._keys, self._pool, numbers, go_on
            )
            if row == len(fields):
                break
            self._add(place, fields[row])
        self.unknown += int(np.count_nonzero(numbers == kernel.UNKNOWN))
        return numbers, np.ones(len(fields), VALUE)

    def input_entries(self) -> dict[str, Any]:
        words: dict[str, dict[str, int]] = {name: {} for name in self._names}
        for number, (place, begin, end) in enumerate(self._keys[: self.n_features].tolist()):
            words[self._names[place]][self._pool[begin:end].tobytes().decode()] = number
        return {"categories": "dictionary", "dictionary": words}

    def _add(self, place: int, word: bytes) -> None:
        number = self.n_features
        if number == MOST_CATEGORIES:
            column = self._names[place][:40]
            raise InputError("too_many_categories", f"there are more than {MOST_CATEGORIES} categories: {column}")
        end = self._pooled + len(word)
        self._pool = _with_room(self._pool, end)
        self._pool[self._pooled : end] = np.frombuffer(word, np.uint8)
        self._keys = _with_room(self._keys, number + 1)
        self._keys[number] = place, self._pooled, end
        self._pooled, self.n_features = end, number + 1
        if 2 * self.n_features > len(self._slots):
            self._slots = np.full(2 * len(self._slots), kernel.EMPTY_SLOT, INDEX)
            for key, (column, begin, stop) in enumerate(self._keys[: number + 1].tolist()):
                kernel.put_word(self._pool, begin, stop, column, key, self._slots)
        else:
            kernel.put_word(self._pool, end - len(word), end, place, number, self._slots)


class Hashed:
    """Hashes words to numbers and signs, as scikit-learn's FeatureHasher does; no memory for words."""

    def __init__(self, names: list[str], n_features: int) -> None:
        self.n_features, self.unknown = n_features, 0
        self._before = [np.frombuffer(f"{name}=".encode(), np.uint8) for name in names]

    def numbers(self, place: int, fields: Fields) -> tuple[Array, Array]:
        numbers, sign = np.empty(len(fields), INDEX), np.empty(len(fields), VALUE)
        before = self._before[place]
        kernel.hash_words(fields.text, fields.start, fields.stop, before, self.n_features, numbers, sign)
        return numbers, sign

    def input_entries(self) -> dict[str, Any]:
        return {"categories": "hashed", "n_features": self.n_features}


def _with_room(array: Array, count: int) -> Array:
    """The array, or a longer copy if it has fewer than `count` rows."""
    if count <= len(array):
        return array
    larger = np.empty((2 * count, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def is_utf8(text: Array) -> bool:
    """Whether the bytes (n,) uint8 are UTF-8."""
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
