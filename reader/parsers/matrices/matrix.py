"""The base of the parsers whose features are columns: tables and matrices."""

from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm.fault import FLOAT32_OVERFLOW
from streamsvm.reader.parsers.rejected import Rejected
from streamsvm.storage.rows.csr import Array, Rows


class MatrixParser:
    """Counts the rows it gives out. Features are numbered from `base`, unless options.index_base has a number.

    index_base, rows, nnz, max_index, counters, rejected, input  see `Parser`
    feature_places  (d,) int32: values of feature f come at place feature_places[f] among the values of a row; None: in
                    the order of their numbers
    """

    input: dict[str, Any] | None = None
    feature_places: Array | None = None

    def __init__(self, options: InputOptions, limits: Limits, base: int) -> None:
        self.index_base = base if options.index_base == "auto" else options.index_base
        self.rows = self.nnz = 0
        self.max_index: int | None = None
        self.rejected = Rejected(options.on_bad_row == "skip")
        self._options = options
        self._limits = limits
        self._empty_rows = self._blank_lines = self._explicit_zeros = 0

    @property
    def counters(self) -> dict[str, int]:
        return {
            "explicit_zeros": self._explicit_zeros,
            "empty_rows": self._empty_rows,
            "blank_lines": self._blank_lines,
            "comment_lines": 0,
        }

    def set_features(self, count: int) -> None:
        """Set the number of features. InputError too_many_features."""
        if count > self._limits.max_features:
            raise InputError(
                "too_many_features", f"{count} columns are more than the limit of {self._limits.max_features}"
            )
        self.max_index = self.index_base + count - 1 if count else None

    def give(self, rows: Rows) -> Rows:
        """Count these rows, and return them."""
        self.rows += len(rows)
        self.nnz += rows.nnz
        self._empty_rows += int(np.count_nonzero(np.diff(rows.indptr) == 0))
        return rows

    def check_end(self) -> None:
        """InputError no_rows if there was none."""
        if self.rows == 0:
            raise InputError("no_rows", "the input has no row" + " that can be read" * bool(self.rejected.rows))


def fits(values: Array) -> Array:
    """(n,) bool: which values are finite as float32."""
    return np.abs(values) < FLOAT32_OVERFLOW


def are_exact(numbers: Array) -> Array:
    """(n,) bool: which numbers, of any type, float64 holds; floats are what they are."""
    exact = np.ones(len(numbers), bool)
    if numbers.dtype.kind in "iu":
        for row in np.flatnonzero(np.abs(numbers.astype(np.float64)) >= 2**53).tolist():
            exact[row] = int(numbers[row]) == float(numbers[row])
    return exact


def misfit(value: float) -> tuple[str, str]:
    """Code and message of the fault of a value that does not fit float32."""
    if np.isfinite(value):
        return "row_overflow", f"value {value:g} does not fit float32"
    return "value_not_finite", f"value {value:g} is not finite"


def weight_misfit(value: float) -> tuple[str, str]:
    """Code and message of the fault of a weight that is negative or does not fit float32."""
    if np.isfinite(value) and value < 0:
        return "negative_weight", f"weight {value:g} is below 0"
    return misfit(value)
