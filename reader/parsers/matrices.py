"""Reads CSR matrices: a file npz, or batches of numpy arrays from another program.

An npz file has the arrays `data`, `indices`, `indptr`, `shape` and `y` (or `label`). Two arrays are optional: `weight`
(n,) of the rows, and `group` (n,), numbers or strings that say which belong together.

    numpy.savez("train.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)

`scipy.sparse.save_npz` writes the first four and `format`, which must be csr if it is there. The arrays are read side
by side, so that memory does not grow with them.

A batch is `shape`, `y`, `indptr`, `indices`, `data` and `weight`, each written by `numpy.save`, with nothing between;
an empty `weight` says that rows have no weights. All batches have equally many columns, numbered from 0. An array of
column names may precede a batch; it applies to the batches up to the next such array. Columns are then matched by name,
in any order. One batch at a time is in memory; an array has at most 32 MiB.

    numpy.save(file, numpy.array(["income", "debt"]))  # optional
    for X, y in batches:
        for array in (X.shape, y, X.indptr, X.indices, X.data, ()):
            numpy.save(file, array)
"""

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import IO

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.streams import ArrayReader, Scratch, bad_batch, spooled
from streamsvm.reader.parsers.tables.matching import match_columns, named_numbers
from streamsvm.reader.parsers.values import are_exact, fits, groups_of, misfit, weight_misfit
from streamsvm.storage.files.arrays import read_header
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows

_ROWS_AT_ONCE = 1 << 16
_VALUES_AT_ONCE = 1 << 20
_FAULTS = (ValueError, zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)


class BatchedParser(Parser):
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
        placed = columns
        if places is not None:  # columns out of range keep their numbers
            is_column = (columns >= 0) & (columns < n_columns)
            placed = np.where(is_column, places[np.where(is_column, columns, 0)], columns)
        order = np.lexsort((placed, self._row))
        self._columns, self._values = columns[order], values[order].astype(np.float64)
        self._n_columns = n_columns
        self._outside = (self._columns < 0) | (self._columns >= n_columns)
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


class StoredArray:
    """One array of an npz file. Raises InputError bad_npz if it is missing, has two dimensions, or not its stated size.

    shape, dtype  shape and dtype that the array's header states
    """

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._name = name
        try:
            info = archive.getinfo(f"{name}.npy")
            self._file: IO[bytes] = archive.open(info)
            self.shape, in_columns, self.dtype = read_header(self._file)
        except (*_FAULTS, KeyError) as error:
            raise _bad_npz(f"there is no array {name} that can be read") from error
        # Sizes are checked before anything is allocated.
        stated = self._file.tell() + self.dtype.itemsize * math.prod(self.shape)
        if self.dtype.hasobject or in_columns or len(self.shape) > 1 or stated != info.file_size:
            raise _bad_npz(f"{name} is no plain array of the size it states")

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 1

    def is_of(self, kinds: str) -> bool:
        """Return whether the array's dtype.kind is in `kinds`, such as "biuf" for numbers."""
        return self.dtype.kind in kinds

    def read(self, count: int) -> Array:
        """Read the next `count` entries, as an array (count,). Raises InputError bad_npz if the array is damaged."""
        size = count * self.dtype.itemsize
        data = self._read(size)
        if len(data) < size:
            raise _bad_npz(f"the array {self._name} ends early")
        return np.frombuffer(data, self.dtype)

    def check_end(self) -> None:
        """Read to the end, where the zip library compares the checksum. Raises InputError bad_npz if it differs."""
        self._read(1)

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except _FAULTS as error:
            raise _bad_npz(f"the array {self._name} is damaged") from error


class NpzParser(BatchedParser):
    """A `Parser` of npz files, which it first stores in `scratch`. An error's `line` is the number of its row.

    labelled  False: the file may lack labels; all labels are NaN then
    """

    def __init__(self, options: InputOptions, limits: InputLimits, scratch: Scratch, *, labelled: bool = True) -> None:
        super().__init__(options, limits)
        self._scratch = scratch
        self._labelled = labelled
        self._n_columns = 0

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        with spooled(chunks, self._scratch) as (file, size):
            try:
                archive = zipfile.ZipFile(file)
            except _FAULTS as error:
                raise _bad_npz("this is no whole npz file") from error
            self._limits.check_size(sum(info.file_size for info in archive.infolist()), size)
            n_rows = self._read_shape(archive)
            members = archive.namelist()
            label_name = "y" if "y.npy" in members else "label"
            optional_names = {"weight", "group"} if self._labelled else {"weight", "group", label_name}
            arrays = {
                name: StoredArray(archive, name)
                for name in (label_name, "indptr", "indices", "data", "weight", "group")
                if f"{name}.npy" in members or name not in optional_names
            }
            y, weight, group = (arrays.get(name) for name in (label_name, "weight", "group"))
            indptr, indices, data = (arrays[name] for name in ("indptr", "indices", "data"))
            _check(n_rows, arrays, y)
            for label, ends in _row_ends(n_rows, y, indptr):
                optional = [None if array is None else array.read(len(label)) for array in (weight, group)]
                count = int(ends[-1] - ends[0])
                columns, values = indices.read(count), data.read(count)
                rows = self.give_batch(MatrixBatch(label, ends - ends[0], columns, values, self._n_columns, *optional))
                if y is None:
                    rows = replace(rows, label=np.full(len(rows), np.nan))
                if len(rows):
                    yield rows
            for each in arrays.values():
                each.check_end()
        self.check_end()

    def _read_shape(self, archive: zipfile.ZipFile) -> int:
        if "format.npy" in archive.namelist():
            kind = StoredArray(archive, "format")
            if not (kind.is_of("SU") and kind.read(1)[0] in (b"csr", "csr")):
                raise _bad_npz("the matrix is not in the format csr: store X.tocsr()")
        shape = StoredArray(archive, "shape")
        if not (shape.is_of("iu") and len(shape) == 2):
            raise _bad_npz("shape is not two integers")
        n_rows, self._n_columns = shape.read(2).tolist()
        if n_rows < 0 or self._n_columns < 0:
            raise _bad_npz("shape has a negative number")
        self.set_features(self._n_columns)
        return int(n_rows)


def _check(n_rows: int, arrays: dict[str, StoredArray], y: StoredArray | None) -> None:
    indptr, indices, data = (arrays[name] for name in ("indptr", "indices", "data"))
    weight, group = arrays.get("weight"), arrays.get("group")
    if not (indptr.is_of("iu") and indices.is_of("iu") and data.is_of("biuf") and (y is None or y.is_of("biuf"))):
        raise _bad_npz("indptr and indices must be integers, data and y real numbers")
    if (y is not None and len(y) != n_rows) or len(indptr) != n_rows + 1 or len(indices) != len(data):
        raise _bad_npz(f"the arrays are not those of {n_rows} rows: y one number a row, indptr one more")
    if not (weight is None or weight.is_of("biuf")) or not (group is None or group.is_of("biufSU")):
        raise _bad_npz("weight must be real numbers, group numbers or strings")
    if {len(array) for array in (weight, group) if array is not None} - {n_rows}:
        raise _bad_npz(f"weight and group must have {n_rows} entries, one a row")


def _row_ends(n_rows: int, y: StoredArray | None, indptr: StoredArray) -> Iterator[tuple[Array, Array]]:
    """Yield labels (n,), 0 without `y`, and indptr (n + 1,) of batches: _VALUES_AT_ONCE values at most, or one row."""
    before = indptr.read(1).astype(np.int64)
    if before[0] != 0:
        raise _bad_npz("indptr does not begin with 0")
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, n_rows - start)
        ends = np.concatenate([before, indptr.read(count).astype(np.int64)])
        label = np.zeros(count) if y is None else y.read(count)
        if (np.diff(ends) < 0).any():
            raise _bad_npz("indptr goes down")
        done = 0
        while done < count:
            last = int(np.searchsorted(ends, ends[done] + _VALUES_AT_ONCE, "right")) - 1
            last = min(max(last, done + 1), count)
            yield label[done:last], ends[done : last + 1]
            done = last
        before = ends[-1:]


def _bad_npz(message: str) -> InputError:
    """Return the error for an npz file that is damaged, or whose arrays are not those of a CSR matrix."""
    return InputError("bad_npz", message)


class BatchesParser(BatchedParser):
    """A `Parser` of batches. Columns have names in all of them or in none. An error's `line` is its row's number."""

    def __init__(self, options: InputOptions, limits: InputLimits) -> None:
        super().__init__(options, limits)

        self._n_columns: int | None = None
        self.input = options.like or None
        self._column: Array | None = None  # (n_columns,): number, in `input`, of each column of the batch's names
        self._places: Array | None = None  # (n_columns,): sort key within rows of each number; None: the number itself

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        source = ArrayReader(chunks)
        while not source.is_at_end():
            rows = self._batch(source)
            if len(rows):
                yield rows
        self.check_end()

    def _batch(self, source: "ArrayReader") -> Rows:
        first = source.array("iuU")
        if first.dtype.kind == "U":
            self._take_names(first.tolist())
            first = source.array("iu")
        n_rows, n_columns = self._shape(first)
        y, indptr, indices, data, weight = (source.array(kinds) for kinds in ("biuf", "iu", "iu", "biuf", "biuf"))
        if len(y) != n_rows or len(indptr) != n_rows + 1 or len(indices) != len(data):
            raise bad_batch(f"the arrays are not those of {n_rows} rows: y one number a row, indptr one more")
        if len(weight) not in (0, n_rows):
            raise bad_batch(f"weight has {len(weight)} entries, not one a row")
        if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            raise bad_batch("indptr does not rise from 0 to the number of values")
        ends, label = indptr.astype(np.int64), y.astype(np.float64)
        columns = indices if self._column is None else self._in_order(indices)
        weights, places = weight if len(weight) else None, self._places
        return self.give_batch(MatrixBatch(label, ends, columns, data, n_columns, weights, places=places))

    def _take_names(self, names: list[str]) -> None:
        """Match the names of a batch's columns with the names in `input`; the first names become `input`.

        Raises InputError duplicate_column, column_missing, column_count, input_mismatch.
        """
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        if self.input is None and self._options.like is None and self.rows == 0:
            self.input = {"format": "batches", **named_numbers(names)}
        elif not (self.input or {}).get("has_names"):
            raise InputError("input_mismatch", "the columns have names, those before had none")
        assert self.input is not None
        match = match_columns(self.input, names, len(names), [])
        if match.unknown:
            raise InputError("column_count", f"the dataset has no column {match.unknown[0][:40]!r}")
        self._column = np.empty(len(names), np.int64)
        self._column[match.columns.places] = np.arange(len(names))
        features = match.columns.number_features
        self._places = None if features is None else features.argsort()

    @property
    def feature_places(self) -> Array | None:  # type: ignore[override]
        base = self.index_base
        return None if self._places is None else np.concatenate((np.arange(base), self._places + base)).astype(INDEX)

    def _in_order(self, indices: Array) -> Array:
        """Return the column indices of a batch as column numbers of `input`; indices out of range are unchanged."""
        assert self._column is not None
        places = indices.astype(np.int64)
        is_column = (places >= 0) & (places < len(self._column))
        places[is_column] = self._column[places[is_column]]
        return places

    def _shape(self, shape: Array) -> tuple[int, int]:
        if len(shape) != 2 or (shape < 0).any():
            raise bad_batch("shape is not two integers from 0 on")
        n_rows, n_columns = shape.tolist()
        if self._n_columns is None:
            self._n_columns = n_columns
            if self.input is not None and n_columns != len(self.input["columns"]):
                raise InputError("column_count", f"a batch has {n_columns} columns, those before had others")
            self.set_features(n_columns)
        if self._column is not None and n_columns != len(self._column):
            raise bad_batch(f"a batch has {n_columns} columns, and names for {len(self._column)}")
        if n_columns != self._n_columns:
            raise bad_batch(f"a batch has {n_columns} columns, the first one {self._n_columns}")
        return n_rows, n_columns
