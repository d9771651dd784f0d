"""Lines of a table whose fields are left where they stand."""

import numpy as np

from streamsvm.reader.parsers.tables import fields_kernel as kernel
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.csv_fields import is_text
from streamsvm.storage.rows.csr import Array

_MOST_FIELDS = 1 << 18  # of a batch


class MixedLines:
    """Rows of fields as they stand in the window; those of odd lines stand behind it.

    start, stop  (n, columns) places in `text`
    begins       of odd lines: row -> places of their fields in the window
    faults       of lines that are no rows: place in the window, code, message
    """

    def __init__(self, n_columns: int) -> None:
        n_rows = max(1, _MOST_FIELDS // n_columns)
        self.start, self.stop = np.empty((n_rows, n_columns), np.int32), np.empty((n_rows, n_columns), np.int32)
        self.clear()

    def clear(self) -> None:
        """None are left."""
        self.rows = 0
        self.begins: dict[int, list[int]] = {}
        self.faults: list[tuple[int, str, str]] = []
        self._further = bytearray()

    @property
    def full(self) -> bool:
        """Whether there is no room for a further one."""
        return self.rows == len(self.start)

    def add_odd(self, fields: list[tuple[int, bytes]], line: int, filled: int) -> None:
        """Fields of a line at this place, in a window of so many bytes."""
        self.begins[self.rows] = [line + place for place, _ in fields]
        for column, (_, content) in enumerate(fields):
            self.start[self.rows, column] = filled + len(self._further)
            self.stop[self.rows, column] = filled + len(self._further) + len(content)
            self._further += content + b"\n"
        self.rows += 1

    def text(self, window: Array, filled: int) -> Array:
        """The text that `start` and `stop` are places in."""
        if not self._further:
            return window
        return np.concatenate((window[:filled], np.frombuffer(bytes(self._further), np.uint8)))

    def fields(self, text: Array, column: int) -> Fields:
        """The fields of a column; text: as `text` gives it."""
        return Fields(text, self.start[: self.rows, column], self.stop[: self.rows, column])

    def field(self, text: Array, row: int, column: int) -> bytes:
        """One of them."""
        return text[self.start[row, column] : self.stop[row, column]].tobytes()

    def word_columns(self, text: Array, known: set[int]) -> set[int]:
        """Columns besides those known with a field that is no number, and not missing."""
        left = np.array([column for column in range(self.start.shape[1]) if column not in known], np.int64)
        values = np.empty((self.rows, len(left)))
        kernel.read_table(text, self.start, self.stop, left, values)
        is_hard = np.isnan(values)
        return {
            int(left[k])
            for k in np.flatnonzero(is_hard.any(axis=0)).tolist()
            if any(is_text(self.field(text, row, left[k])) for row in np.flatnonzero(is_hard[:, k]).tolist())
        }

    def place(self, row: int, column: int) -> int:
        """The place of a field in the window."""
        return self.begins[row][column] if row in self.begins else int(self.start[row, column])
