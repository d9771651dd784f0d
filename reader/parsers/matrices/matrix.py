"""Base classes: `MatrixParser` of all parsers but that of LIBSVM text, `BatchedParser` of parsers of CSR matrices."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError, Rejected
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import groups_of
from streamsvm.reader.parsers.libsvm.fault import FLOAT32_OVERFLOW
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows


class MatrixParser:
    """Reads one input. The attributes are final when `parse_chunks` has yielded all rows.

    base  number of the first feature if options.index_base is "auto"

    index_base  0 or 1: the number of the first feature
    rows, nnz   numbers of rows and of stored values yielded so far
    max_index   the largest feature number, None if there is no feature
    counters    name -> count of oddities that are no faults: blank_lines, explicit_zeros ...
    rejected    counts the rows that were left out for a fault, and has their first errors
    input       `Manifest.input`: describes the features, so that later rows get them too; None: they have numbers only
    feature_places  (d,) int32: the values of a row are sorted by feature_places[feature]; None: by feature number
    """

    input: dict[str, Any] | None = None
    feature_places: Array | None = None

    def __init__(self, options: InputOptions, limits: InputLimits, base: int) -> None:
        self.index_base = base if options.index_base == "auto" else options.index_base
        self.rows = self.nnz = 0
        self.max_index: int | None = None
        self.rejected = Rejected(options.on_bad_row == "skip")
        self._options = options
        self._limits = limits
        self._empty_rows = self._blank_lines = self._explicit_zeros = 0

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows of an input whose decompressed bytes are `chunks`. Raises InputError at the first fault."""
        raise NotImplementedError

    @property
    def counters(self) -> dict[str, int]:
        return {
            "explicit_zeros": self._explicit_zeros,
            "empty_rows": self._empty_rows,
            "blank_lines": self._blank_lines,
            "comment_lines": 0,
        }

    def set_features(self, count: int) -> None:
        """Set `max_index` for `count` features. Raises InputError too_many_features above the limit."""
        if count > self._limits.max_features:
            raise InputError(
                "too_many_features", f"{count} columns are more than the limit of {self._limits.max_features}"
            )
        self.max_index = self.index_base + count - 1 if count else None

    def give(self, rows: Rows) -> Rows:
        """Add `rows` to the numbers of rows, values and empty rows; return `rows`."""
        self.rows += len(rows)
        self.nnz += rows.nnz
        self._empty_rows += int(np.count_nonzero(np.diff(rows.indptr) == 0))
        return rows

    def check_end(self) -> None:
        """Raise InputError no_rows if no row of the input could be read."""
        if self.rows == 0:
            raise InputError("no_rows", "the input has no row" + " that can be read" * bool(self.rejected.rows))


def fits(values: Array) -> Array:
    """Return (n,) bool: whether each value is finite when it is rounded to float32."""
    return np.abs(values) < FLOAT32_OVERFLOW


def are_exact(numbers: Array) -> Array:
    """Return (n,) bool: whether float64 holds each number exactly; only integers from 2^53 on may be inexact."""
    exact = np.ones(len(numbers), bool)
    if numbers.dtype.kind in "iu":
        for row in np.flatnonzero(np.abs(numbers.astype(np.float64)) >= 2**53).tolist():
            exact[row] = int(numbers[row]) == float(numbers[row])
    return exact


def misfit(value: float) -> tuple[str, str]:
    """Return code and message of the fault of a value that is too large for float32, infinite or NaN."""
    if np.isfinite(value):
        return "row_overflow", f"value {value:g} does not fit float32"
    return "value_not_finite", f"value {value:g} is not finite"


def weight_misfit(value: float) -> tuple[str, str]:
    """Return code and message of the fault of a weight that is negative, too large for float32, infinite or NaN."""
    if np.isfinite(value) and value < 0:
        return "negative_weight", f"weight {value:g} is below 0"
    return misfit(value)


class BatchedParser(MatrixParser):
    """A parser that reads a CSR matrix batch by batch; features are numbered from 0 by default."""

    def __init__(self, options: InputOptions, limits: InputLimits) -> None:
        super().__init__(options, limits, base=0)
        self._rows_before = 0

    def give_batch(self, batch: "MatrixBatch") -> Rows:
        """Reject the rows of a batch that have a fault; count and return the other rows."""
        for row in batch.bad_rows():
            self.rejected.add(partial(batch.fault, row, self._rows_before + row + 1))
        self._rows_before += batch.n_rows
        rows = batch.rows(self.index_base)
        self._explicit_zeros += batch.good_values - rows.nnz
        return self.give(rows)


class MatrixBatch:
    """A batch of n rows of a CSR matrix; it finds the rows that have a fault.

    label (n,) numbers; weight (n,) numbers or None; group (n,) numbers or strings, or None; all of any dtype
    ends (n + 1,): row i has the entries from ends[i] to ends[i + 1] - 1 of columns (ends[n],) and values (ends[n],);
    ends[0] is 0. A row with a column outside 0 to n_columns - 1 has a fault
    places (n_columns,): the values of a row are sorted by places[column]; None: they are sorted by column

    n_rows       n
    good_values  number of values in rows without a fault, zeros included
    """

    def __init__(
        self,
        label: Array,
        ends: Array,
        columns: Array,
        values: Array,
        n_columns: int,
        weight: Array | None = None,
        group: Array | None = None,
        places: Array | None = None,
    ) -> None:
        self.n_rows = len(label)
        self._label = label
        self._ends = ends
        self._row = np.repeat(np.arange(len(label)), np.diff(ends))
        order = np.lexsort((_placed(columns, n_columns, places), self._row))
        self._columns, self._values = columns[order], values[order].astype(np.float64)
        self._n_columns = n_columns
        self._outside = _is_outside(self._columns, n_columns)
        self._twice = np.zeros(len(columns), bool)
        self._twice[1:] = (self._columns[1:] == self._columns[:-1]) & (self._row[1:] == self._row[:-1])
        self._fits = fits(self._values)
        self._weight = np.ones(len(label)) if weight is None else weight.astype(WEIGHT)
        self._has_weight, self._group = weight is not None, group
        self._exact = are_exact(label)
        self._good = np.isfinite(label) & self._exact & fits(self._weight) & (self._weight >= 0)
        self._good[self._row[self._outside | self._twice | ~self._fits]] = False
        self.good_values = int(np.count_nonzero(self._good[self._row]))

    def bad_rows(self) -> list[int]:
        """Return the indices, from 0, of the rows that have a fault."""
        return np.flatnonzero(~self._good).tolist()

    def fault(self, row: int, number: int) -> InputError:
        """Return the error for the faulty row at index `row`; `number` is its number in the input, from 1."""
        here = slice(int(self._ends[row]), int(self._ends[row + 1]))
        if not np.isfinite(self._label[row]):
            code, message = "value_not_finite", f"label {self._label[row]:g} is not finite"
        elif not self._exact[row]:
            code, message = "label_not_exact", f"float64 does not hold {self._label[row]}"
        elif not fits(self._weight[row]) or self._weight[row] < 0:
            code, message = weight_misfit(float(self._weight[row]))
        elif self._outside[here].any():
            code, message = "bad_index", f"an index is not between 0 and {self._n_columns - 1}"
        elif self._twice[here].any():
            code, message = "index_duplicate", "an index stands twice"
        else:
            code, message = misfit(float(self._values[here][~self._fits[here]][0]))
        return InputError(code, f"row {number}: {message}", line=number)

    def rows(self, base: int) -> Rows:
        """Return the rows without a fault, without their zeros; column 0 becomes feature `base`."""
        values = np.where(self._fits, self._values, 0).astype(VALUE)
        is_stored = self._good[self._row] & (values != 0)
        lengths = np.bincount(self._row[is_stored], minlength=len(self._label))[self._good]
        indptr = np.zeros(len(lengths) + 1, INDPTR)
        np.cumsum(lengths, out=indptr[1:])
        columns = (self._columns[is_stored].astype(np.int64) + base).astype(INDEX)
        weight = self._weight[self._good] if self._has_weight else None
        group = None if self._group is None else groups_of(self._group[self._good].tolist())
        return Rows(self._label[self._good].astype(LABEL), indptr, columns, values[is_stored], weight, group)


def _is_outside(columns: Array, n_columns: int) -> Array:
    return (columns < 0) | (columns >= n_columns)


def _placed(columns: Array, n_columns: int, places: Array | None) -> Array:
    """Return the sort key of each column: places[column], or the column itself if it is out of range."""
    if places is None:
        return columns
    is_outside = _is_outside(columns, n_columns)
    return np.where(is_outside, columns, places[np.where(is_outside, 0, columns)])
