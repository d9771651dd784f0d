"""Rows of a table as fields in a text: lines of CSV, or what else is written as such fields."""

from collections.abc import Callable

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables import tables_kernel as kernel
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.csv_fields import field_fault, is_missing, is_text
from streamsvm.storage.rows.csr import Array

_MOST_FIELDS = 1 << 18  # in a batch


def batch_rows(n_columns: int) -> int:
    """The most rows of a batch: categories are numbered batch by batch, so that all formats have the same."""
    return max(1, _MOST_FIELDS // n_columns)


class TextBatch:
    """A `Batch` of fields text[start:stop]; text (k,) uint8 with a byte behind each field, start, stop (n, columns)."""

    is_text = False

    def __init__(self, text: Array, start: Array, stop: Array) -> None:
        self.text, self.start, self.stop, self.rows = text, start, stop, len(start)
        self.bad_lines: list[tuple[int, Callable[[], InputError]]] = []

    def numbers(self, places: Array, exact: bool) -> tuple[Array, Array | None]:
        """See `Batch`."""
        start, stop = self.start[: self.rows], self.stop[: self.rows]
        values = np.empty((self.rows, len(places)))
        if exact:
            for k, place in enumerate(places.tolist()):
                kernel.read_doubles(self.text, start[:, place], stop[:, place], values[:, k])
        elif kernel.read_table(self.text, start, stop, places, values) == 0:
            return values, None
        missing = np.isnan(values)
        # The kernel reads neither long numbers nor words for gaps.
        for row, k in np.argwhere(missing & (stop > start)[:, places]).tolist():
            field = self.field(row, int(places[k]))
            if field_fault(field, "label") is None:
                values[row, k] = float(field)
            missing[row, k] = is_missing(field)
        return values, missing

    def words(self, place: int) -> Fields:
        """See `Batch`."""
        return Fields(self.text, self.start[: self.rows, place], self.stop[: self.rows, place])

    def field(self, row: int, column: int) -> bytes:
        """A field."""
        return self.text[self.start[row, column] : self.stop[row, column]].tobytes()

    def fault(self, row: int, column: int, kind: str) -> tuple[str, str]:
        """See `Batch`."""
        fault = field_fault(self.field(row, column), kind)
        assert fault is not None
        return fault

    def place(self, row: int, column: int) -> int:
        """See `Batch`."""
        return int(self.start[row, column])

    def word_columns(self, skipped: set[int]) -> set[int]:
        """Columns, but the skipped ones, that have a word: a field that is no number, and not missing."""
        columns = np.array([column for column in range(self.start.shape[1]) if column not in skipped], np.int64)
        values = np.empty((self.rows, len(columns)))
        kernel.read_table(self.text, self.start, self.stop, columns, values)
        is_hard = np.isnan(values)
        return {
            int(columns[k])
            for k in np.flatnonzero(is_hard.any(axis=0)).tolist()
            if any(is_text(self.field(row, columns[k])) for row in np.flatnonzero(is_hard[:, k]).tolist())
        }
