"""Checks a batch of rows of a CSR matrix of unknown origin."""

from functools import partial

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import groups_of
from streamsvm.reader.parsers.matrices.matrix import MatrixParser, are_exact, fits, misfit, weight_misfit
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows


class BatchedParser(MatrixParser):
    """A parser that reads a CSR matrix batch by batch; features are numbered from 0."""

    def __init__(self, options: InputOptions, limits: Limits) -> None:
        super().__init__(options, limits, base=0)
        self._rows_before = 0

    def give_batch(self, batch: "MatrixBatch") -> Rows:
        """Count the rows of a batch that can be read, and return them; reject the others."""
        for row in batch.bad_rows():
            self.rejected.add(partial(batch.fault, row, self._rows_before + row + 1))
        self._rows_before += batch.n_rows
        rows = batch.rows(self.index_base)
        self._explicit_zeros += batch.good_values - rows.nnz
        return self.give(rows)


class MatrixBatch:
    """A batch of n rows.

    label (n,), ends (n + 1,) from 0, columns and values (ends[n],): numbers of any type; columns are below n_columns
    weight (n,) numbers and group (n,) numbers or strings, or None
    places (n_columns,): the place of each column's values within a row, or None: columns come in their order

    n_rows       n
    good_values  number of values in rows that can be read, zeros included
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
        """Numbers of the rows that cannot be read."""
        return np.flatnonzero(~self._good).tolist()

    def fault(self, row: int, number: int) -> InputError:
        """The error for a bad row, which has this number in the input."""
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
        """The rows that can be read, without zeros; features are numbered from `base`."""
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
    """The places of columns; those out of range keep their numbers."""
    if places is None:
        return columns
    is_outside = _is_outside(columns, n_columns)
    return np.where(is_outside, columns, places[np.where(is_outside, 0, columns)])
