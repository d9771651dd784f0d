"""Reads a scipy CSR matrix and its labels from an npz file: `data`, `indices`, `indptr`, `shape` and `y` (or `label`).

Two arrays are optional: `weight` (n,) of the rows, and `group` (n,), equal numbers or strings for rows of one group.

    numpy.savez("train.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)

`scipy.sparse.save_npz` writes the first four and `format`; if the file has `format`, it must be csr. A part of each
array is read at a time, so that memory does not grow with the arrays.
"""

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.matrices.matrix import BatchedParser, MatrixBatch
from streamsvm.reader.parsers.spool import Scratch, size_of, spooled
from streamsvm.storage.files.arrays import read_header
from streamsvm.storage.rows.csr import Array, Rows

_ROWS_AT_ONCE = 1 << 16
_VALUES_AT_ONCE = 1 << 20
_FAULTS = (ValueError, zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)


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
        try:
            data = self._file.read(size)
        except _FAULTS as error:
            raise _bad_npz(f"the array {self._name} is damaged") from error
        if len(data) < size:
            raise _bad_npz(f"the array {self._name} ends early")
        return np.frombuffer(data, self.dtype)

    def check_end(self) -> None:
        """Read to the end, where the zip library compares the checksum. Raises InputError bad_npz if it differs."""
        try:
            self._file.read(1)
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
        """Yield the rows in batches. Raises InputError at the first fault, unless faulty rows are skipped."""
        with spooled(chunks, self._scratch) as file, _open_archive(file) as archive:
            self._limits.check_size(sum(info.file_size for info in archive.infolist()), size_of(file))
            n_rows = self._read_shape(archive)
            name = "y" if "y.npy" in archive.namelist() else "label"
            y = StoredArray(archive, name) if self._labelled else _optional(archive, name)
            indptr, indices, data = (StoredArray(archive, name) for name in ("indptr", "indices", "data"))
            weight, group = (_optional(archive, name) for name in ("weight", "group"))
            _check(n_rows, y, indptr, indices, data, weight, group)
            for label, ends in _row_ends(n_rows, y, indptr):
                optional = [None if array is None else array.read(len(label)) for array in (weight, group)]
                count = int(ends[-1] - ends[0])
                columns, values = indices.read(count), data.read(count)
                rows = self.give_batch(MatrixBatch(label, ends - ends[0], columns, values, self._n_columns, *optional))
                if y is None:
                    rows = replace(rows, label=np.full(len(rows), np.nan))
                if len(rows):
                    yield rows
            for array in (y, indptr, indices, data, weight, group):
                if array is not None:
                    array.check_end()
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


def _check(
    n_rows: int,
    y: StoredArray | None,
    indptr: StoredArray,
    indices: StoredArray,
    data: StoredArray,
    weight: StoredArray | None,
    group: StoredArray | None,
) -> None:
    if not (indptr.is_of("iu") and indices.is_of("iu") and data.is_of("biuf") and (y is None or y.is_of("biuf"))):
        raise _bad_npz("indptr and indices must be integers, data and y real numbers")
    if (y is not None and len(y) != n_rows) or len(indptr) != n_rows + 1 or len(indices) != len(data):
        raise _bad_npz(f"the arrays are not those of {n_rows} rows: y one number a row, indptr one more")
    if not (weight is None or weight.is_of("biuf")) or not (group is None or group.is_of("biufSU")):
        raise _bad_npz("weight must be real numbers, group numbers or strings")
    if {len(array) for array in (weight, group) if array is not None} - {n_rows}:
        raise _bad_npz(f"weight and group must have {n_rows} entries, one a row")


def _optional(archive: zipfile.ZipFile, name: str) -> StoredArray | None:
    return StoredArray(archive, name) if f"{name}.npy" in archive.namelist() else None


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


def _open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Open an npz file. Raises InputError bad_npz if it is no whole zip archive."""
    try:
        return zipfile.ZipFile(file)
    except _FAULTS as error:
        raise _bad_npz("this is no whole npz file") from error


def _bad_npz(message: str) -> InputError:
    """Return the error for an npz file that is damaged, or whose arrays are not those of a CSR matrix."""
    return InputError("bad_npz", message)
