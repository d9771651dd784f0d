"""Lines of a table whose fields are left where they stand."""

import numpy as np

from storage.csr import Array

_MOST_FIELDS = 1 << 18  # of a batch


class MixedLines:
    """Rows of fields as they stand in the window; those of odd lines stand behind it.

    start, stop  (n, columns) places in `text`
    begins       of odd lines: row -> places of their fields in the window
    """

    def __init__(self, n_columns: int) -> None:
        n_rows = max(1, _MOST_FIELDS // n_columns)
        self.start, self.stop = np.empty((n_rows, n_columns), np.int32), np.empty((n_rows, n_columns), np.int32)
        self.clear()

    def clear(self) -> None:
        """None are left."""
        self.rows = 0
        self.begins: dict[int, list[int]] = {}
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
        """What `start` and `stop` are places in."""
        if not self._further:
            return window
        return np.concatenate((window[:filled], np.frombuffer(bytes(self._further), np.uint8)))

    def place(self, row: int, column: int) -> int:
        """Of a field in the window."""
        return self.begins[row][column] if row in self.begins else int(self.start[row, column])
