"""Hashes documents in memory to rows: the work of one thread of a parser of documents."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streamsvm.reader.parsers.text import words_kernel as kernel
from streamsvm.reader.parsers.text.characters import ASCII, characters
from streamsvm.reader.parsers.text.grams_kernel import KEY, NOTED_AT_ONCE, Grams, Table
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

_FEWEST_SLOTS, _FEWEST_PAIRS, _FEWEST_ROWS = 1 << 12, 1 << 18, 1 << 14
_NOTES, _NOTE_BYTES = 1 << 15, 1 << 19


class Notes(NamedTuple):
    """First n-grams of features, see `kernel.Output`: noted (k,), end (k,), text (b,)."""

    noted: Array
    end: Array
    text: Array


class Hashed(NamedTuple):
    """Rows of the documents from number `first` on: indptr (n + 1,), indices and values (nnz,); and their notes."""

    first: int
    indptr: Array
    indices: Array
    values: Array
    notes: Notes


class TextHasher:
    """Reads batches of documents, on any thread. Memory grows with the longest document.

    notes  whether the first n-gram of each feature is given out, once
    """

    def __init__(self, grams: Grams, notes: bool) -> None:
        self._grams = grams
        seen = np.zeros(grams.n_features + 7 >> 3 if notes else 0, np.uint8)
        self._table = self._new_table(_FEWEST_SLOTS, 0)
        self._output = _new_output(_FEWEST_PAIRS, seen)

    def documents(self, text: Array, begin: Array, end: Array, is_ascii: bool = False) -> Iterator[Hashed]:
        """Yield rows of the documents text[begin[k]:end[k]], valid UTF-8 without hard characters (see `characters`).

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
                yield self._give(first, state)
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

    def _give(self, first: int, state: Array) -> Hashed:
        rows, pairs, notes, size = state[kernel.ROWS :].tolist()
        indptr = np.zeros(rows + 1, INDPTR)
        output = self._output
        indptr[1:] = output.row_end[:rows]
        noted = Notes(output.noted[:notes].copy(), output.note_end[:notes].copy(), output.note_text[:size].copy())
        return Hashed(first, indptr, output.indices[:pairs].copy(), output.values[:pairs].copy(), noted)


def _new_output(pairs: int, seen: Array) -> kernel.Output:
    """An output with room for `pairs` values; a larger one than the first also has room for all their notes."""
    notes, note_bytes = (_NOTES, _NOTE_BYTES) if pairs == _FEWEST_PAIRS else (pairs, kernel.NOTED_BYTES * pairs)
    if not len(seen):
        notes = note_bytes = 0
    return kernel.Output(
        np.empty(_FEWEST_ROWS, np.int64), np.empty(pairs, INDEX), np.empty(pairs, VALUE), seen,
        np.empty(notes, np.int32), np.empty(notes, np.int64), np.empty(note_bytes, np.uint8),
    )  # fmt: skip
