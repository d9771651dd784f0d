"""Words in columns as features: by a dictionary that grows, or hashed. A feature is a `column=word`."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables import categories_kernel as kernel
from streamsvm.storage.rows.csr import INDEX, VALUE, Array

MOST_CATEGORIES = 100_000
HASHED_FEATURES = 1 << 20


@dataclass(frozen=True)
class Fields:
    """Fields of a column: the bytes text[start[i]:stop[i]]; text (k,) uint8, start and stop (n,) whole numbers."""

    text: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, row: int) -> bytes:
        return self.text[self.start[row] : self.stop[row]].tobytes()

    def kept(self, keep: Array) -> "Fields":
        """Those of some rows."""
        return Fields(self.text, self.start[keep], self.stop[keep])

    @classmethod
    def of(cls, texts: list[str]) -> "Fields":
        """Of strings."""
        parts = [text.encode(errors="surrogatepass") for text in texts]
        ends = np.cumsum([0, *map(len, parts)])
        return cls(np.frombuffer(b"".join(parts) + b"\n", np.uint8), ends[:-1], ends[1:])


class Categories(Protocol):
    """Numbers of words, from 0.

    n_features  above all numbers
    unknown     words met that have no number
    """

    n_features: int
    unknown: int

    def numbers(self, place: int, fields: Fields) -> tuple[Array, Array]:
        """Of words of the column at a place: (n,) int32, -1 for those that have none, and their values (n,) float32."""

    def told(self) -> dict[str, Any]:
        """As `input` of a dataset has it."""


class Dictionary:
    """Numbers in the order in which words come. InputError too_many_categories.

    names   of the columns
    known   {column: {word: number}} so far
    grows   False: words that are not known have no number
    """

    def __init__(self, names: list[str], known: dict[str, dict[str, int]] | None = None, *, grows: bool = True) -> None:
        self.n_features = self.unknown = 0
        self._names = names
        self._grows = grows
        self._slots = np.full(1 << 10, kernel.EMPTY_SLOT, INDEX)
        self._keys = np.empty((1 << 9, 3), np.int64)
        self._pool = np.empty(1 << 14, np.uint8)
        self._pooled = 0
        places = {name: place for place, name in enumerate(names)}
        words = [(number, places[name], word) for name, of in (known or {}).items() for word, number in of.items()]
        for _, place, word in sorted(words):
            self._add(place, word.encode())

    def numbers(self, place: int, fields: Fields) -> tuple[Array, Array]:
        found = np.empty(len(fields), INDEX)
        row, go_on = 0, not self._grows
        while True:
            row = kernel.find_words(
                fields.text, fields.start, fields.stop, place, row, self._slots, self._keys, self._pool, found, go_on
            )
            if row == len(fields):
                break
            self._add(place, fields[row])
        self.unknown += int(np.count_nonzero(found == kernel.UNKNOWN))
        return found, np.ones(len(fields), VALUE)

    def told(self) -> dict[str, Any]:
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
            for known, (column, begin, stop) in enumerate(self._keys[: number + 1].tolist()):
                kernel.put_word(self._pool, begin, stop, column, known, self._slots)
        else:
            kernel.put_word(self._pool, end - len(word), end, place, number, self._slots)


class Hashed:
    """Numbers and signs as scikit-learn's FeatureHasher gives them; any number of words, in no memory."""

    def __init__(self, names: list[str], n_features: int) -> None:
        self.n_features, self.unknown = n_features, 0
        self._before = [np.frombuffer(f"{name}=".encode(), np.uint8) for name in names]

    def numbers(self, place: int, fields: Fields) -> tuple[Array, Array]:
        found, sign = np.empty(len(fields), INDEX), np.empty(len(fields), VALUE)
        before = self._before[place]
        kernel.hash_words(fields.text, fields.start, fields.stop, before, self.n_features, found, sign)
        return found, sign

    def told(self) -> dict[str, Any]:
        return {"categories": "hashed", "n_features": self.n_features}


def _with_room(array: Array, count: int) -> Array:
    """The array, longer if it has no room for so many."""
    if count <= len(array):
        return array
    larger = np.empty((2 * count, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def is_utf8(text: Array) -> bool:
    """Whether these bytes are."""
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
