"""Hashes documents to rows, the work of one thread; remembers the first n-gram that was hashed to each feature."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streamsvm.reader.parsers.text import words_kernel as kernel
from streamsvm.reader.parsers.text.grams_kernel import ASCII, KEY, NOTED_AT_ONCE, Grams, Table, characters
from streamsvm.reader.parsers.text.words_kernel import NOTED_BYTES
from streamsvm.storage.blocks.feature_files import FeatureWords
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

_FEWEST_SLOTS, _FEWEST_PAIRS, _FEWEST_ROWS = 1 << 12, 1 << 18, 1 << 14
_NOTES, _NOTE_BYTES = 1 << 15, 1 << 19
MOST_BYTES = 64 << 20


class FirstGrams(NamedTuple):
    """The first n-grams of k features: noted (k,), end (k,), text (b,) are noted, note_end, note_text of `Output`."""

    noted: Array
    end: Array
    text: Array


class HashedDocuments(NamedTuple):
    """Rows of n documents: indptr (n + 1,), indices, values (nnz,), and n-grams of new features."""

    indptr: Array
    indices: Array
    values: Array
    notes: FirstGrams


class TextHasher:
    """Hashes batches of documents to rows, on any thread. Memory grows with the longest document.

    notes  whether `documents` yields the first n-gram of each feature, once
    """

    def __init__(self, grams: Grams, notes: bool) -> None:
        self._grams = grams
        seen = np.zeros(grams.n_features + 7 >> 3 if notes else 0, np.uint8)
        self._table = self._new_table(_FEWEST_SLOTS, 0)
        self._output = _new_output(_FEWEST_PAIRS, seen)

    def documents(self, text: Array, begin: Array, end: Array, is_ascii: bool = False) -> Iterator[HashedDocuments]:
        """Yield rows of the documents text[begin[k]:end[k]], valid UTF-8 without hard characters (see `Characters`).

        is_ascii  the text is ASCII, so that the large tables of all characters are not needed
        """
        chars = characters(ASCII) if is_ascii else characters()
        longest = int((end - begin).max(initial=0))
        if len(self._table.low) < 3 * longest + 16:
            self._table = self._new_table(len(self._table.slots) // 4, longest)
        state = np.zeros(kernel.STATE_SIZE, np.int64)
        while state[kernel.DOCUMENT] < len(begin):
            first = int(state[kernel.DOCUMENT])
            state[kernel.ROWS :] = 0
            outcome = kernel.hash_documents(text, begin, end, self._grams, chars, self._table, self._output, state)
            if state[kernel.DOCUMENT] > first:
                yield self._give(state)
            elif outcome == kernel.FULL:
                self._output = _new_output(2 * len(self._output.indices), self._output.seen)
            if outcome == kernel.SMALL_TABLE:
                self._table = self._new_table(len(self._table.slots) // 2, longest)

    def _new_table(self, slots: int, longest: int) -> Table:
        table = np.empty(4 * slots, np.int32)
        table[KEY::4] = -1
        low = np.empty(3 * longest + 16, np.uint8)
        taken, touched = np.zeros(slots // 64, np.uint64), np.empty(slots // 2 + 1, np.int64)
        noted, starts = np.empty((NOTED_AT_ONCE, 2), np.int64), np.zeros(self._grams.most, np.int64)
        return Table(table, taken, touched, low, noted, starts)

    def _give(self, state: Array) -> HashedDocuments:
        rows, pairs, notes, size = state[kernel.ROWS :].tolist()
        indptr = np.zeros(rows + 1, INDPTR)
        output = self._output
        indptr[1:] = output.row_end[:rows]
        noted = FirstGrams(output.noted[:notes].copy(), output.note_end[:notes].copy(), output.note_text[:size].copy())
        return HashedDocuments(indptr, output.indices[:pairs].copy(), output.values[:pairs].copy(), noted)


def _new_output(pairs: int, seen: Array) -> kernel.Output:
    """Return arrays with room for `pairs` values; if these are more than the fewest, also for a note of each value."""
    notes, note_bytes = (_NOTES, _NOTE_BYTES) if pairs == _FEWEST_PAIRS else (pairs, kernel.NOTED_BYTES * pairs)
    if not len(seen):
        notes = note_bytes = 0
    return kernel.Output(
        np.empty(_FEWEST_ROWS, np.int64), np.empty(pairs, INDEX), np.empty(pairs, VALUE), seen,
        np.empty(notes, np.int32), np.empty(notes, np.int64), np.empty(note_bytes, np.uint8),
    )  # fmt: skip


class FirstWords:
    """Stores the first n-gram that was hashed to each feature. Call `add` in the order of the documents."""

    def __init__(self, n_features: int) -> None:
        self._has_word = np.zeros(n_features, bool)
        self._features: list[Array] = []
        self._signs: list[Array] = []
        self._words: list[list[bytes]] = []
        self._bytes = 0

    def add(self, notes: FirstGrams) -> None:
        """Store the n-grams in `notes` whose feature has no n-gram yet. Store none once MOST_BYTES are exceeded."""
        features = np.where(notes.noted < 0, ~notes.noted, notes.noted)
        new = np.flatnonzero(~self._has_word[features])
        if not len(new) or self._bytes > MOST_BYTES:
            return
        begin = np.concatenate([np.zeros(1, np.int64), notes.end[:-1]])
        text = notes.text.tobytes()
        words = [
            _shown(text[first:last]) for first, last in zip(begin[new].tolist(), notes.end[new].tolist(), strict=True)
        ]
        self.put(features[new], np.where(notes.noted[new] < 0, -1, 1), words)

    def in_order(self) -> FeatureWords:
        """Return all stored n-grams, sorted by feature."""
        if not self._features:
            return FeatureWords(np.zeros(0, np.int32), np.zeros(0, np.int32), [])
        features = np.concatenate(self._features).astype(np.int32)
        order = np.argsort(features)
        words = [word for batch in self._words for word in batch]
        signs = np.concatenate(self._signs).astype(np.int32)[order]
        return FeatureWords(features[order], signs, [words[place] for place in order.tolist()])

    def put(self, features: Array, signs: Array, words: list[bytes]) -> None:
        """Store an n-gram and its sign for each of these features (k,), which have none yet."""
        self._has_word[features] = True
        self._features.append(features)
        self._signs.append(signs)
        self._words.append(words)
        self._bytes += sum(map(len, words))


def _shown(word: bytes) -> bytes:
    """Return an n-gram; if the kernel cut it off, it ends between two characters, with an ellipsis."""
    if len(word) < NOTED_BYTES:
        return word
    return word[: NOTED_BYTES - 1].decode(errors="ignore").encode() + "\u2026".encode()
