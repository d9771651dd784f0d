"""Lines of a table, as places of their fields in the text."""

import numpy as np

from streamsvm.reader.parsers.tables import fields_kernel as kernel
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.csv_fields import is_text
from streamsvm.storage.rows.csr import Array

_MOST_FIELDS = 1 << 18  # in a batch


class MixedLines:
    """A batch of lines. Fields of lines that the kernel cannot split are copied behind the window's text.

    start, stop  (n, columns): places of the fields in `text`
    begins       row -> places in the window of the fields that were copied
    faults       of lines that are no rows: place in the window, code, message
    """

    def __init__(self, n_columns: int) -> None:
        n_rows = max(1, _MOST_FIELDS // n_columns)
        self.start, self.stop = np.empty((n_rows, n_columns), np.int32), np.empty((n_rows, n_columns), np.int32)
        self.clear()

    def clear(self) -> None:
        """Begin a new batch."""
        self.rows = 0
        self.begins: dict[int, list[int]] = {}
        self.faults: list[tuple[int, str, str]] = []
        self._further = bytearray()

    @property
    def full(self) -> bool:
        """Whether there is no room for a further line."""
        return self.rows == len(self.start)

    def add_odd(self, fields: list[tuple[int, bytes]], line: int, filled: int) -> None:
        """Copy the fields of a line that begins at `line` in the window, whose text ends at `filled`."""
        self.begins[self.rows] = [line + place for place, _ in fields]
        for column, (_, content) in enumerate(fields):
            self.start[self.rows, column] = filled + len(self._further)
            self.stop[self.rows, column] = filled + len(self._further) + len(content)
            self._further += content + b"\n"
        self.rows += 1

    def text(self, window: Array, filled: int) -> Array:
        """The window's text with the copied fields behind it: `start` and `stop` are places in it."""
        if not self._further:
            return window
        return np.concatenate((window[:filled], np.frombuffer(bytes(self._further), np.uint8)))

    def fields(self, text: Array, column: int) -> Fields:
        """The fields of a column; text: the result of `text`."""
        return Fields(text, self.start[: self.rows, column], self.stop[: self.rows, column])

    def field(self, text: Array, row: int, column: int) -> bytes:
        """A field; text: the result of `text`."""
        return text[self.start[row, column] : self.stop[row, column]].tobytes()

    def word_columns(self, text: Array, skipped: set[int]) -> set[int]:
        """Columns, but the skipped ones, that have a word: a field that is no number, and not missing."""
        columns = np.array([column for column in range(self.start.shape[1]) if column not in skipped], np.int64)
        values = np.empty((self.rows, len(columns)))
        kernel.read_table(text, self.start, self.stop, columns, values)
        is_hard = np.isnan(values)
        return {
            int(columns[k])
            for k in np.flatnonzero(is_hard.any(axis=0)).tolist()
            if any(is_text(self.field(text, row, columns[k])) for row in np.flatnonzero(is_hard[:, k]).tolist())
        }

    def place(self, row: int, column: int) -> int:
        """The place of a field in the window."""
        return self.begins[row][column] if row in self.begins else int(self.start[row, column])
