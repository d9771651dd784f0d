"""Reads batches from another program: CSR matrices one after the other, each as a few numpy arrays.

A batch is `shape`, `y`, `indptr`, `indices`, `data` and `weight`, each written by `numpy.save`, with nothing between;
an empty `weight` says that rows have no weights. All batches have equally many columns, numbered from 0. An array of
column names may precede a batch; it applies to the batches up to the next such array. Columns are then matched by name,
in any order. One batch at a time is in memory; an array has at most 32 MiB.

    numpy.save(file, numpy.array(["income", "debt"]))  # optional
    for X, y in batches:
        for array in (X.shape, y, X.indptr, X.indices, X.data, ()):
            numpy.save(file, array)
"""

from collections.abc import Iterable, Iterator

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.matrices.matrix import BatchedParser, MatrixBatch
from streamsvm.reader.parsers.tables.to_predict import match_columns, named_numbers
from streamsvm.storage.files.arrays import read_header
from streamsvm.storage.rows.csr import INDEX, Array, Rows

MOST_BYTES = 32 << 20  # of an array


class BatchesParser(BatchedParser):
    """A `Parser` of batches. Columns have names in all of them or in none. An error's `line` is its row's number."""

    def __init__(self, options: InputOptions, limits: InputLimits) -> None:
        super().__init__(options, limits)

        self._n_columns: int | None = None
        self.input = options.like or None
        self._column: Array | None = None  # (n_columns,): number, in `input`, of each column of the batch's names
        self._places: Array | None = None  # (n_columns,): sort key within rows of each number; None: the number itself

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows, a batch at a time. Raises InputError at the first fault, unless faulty rows are skipped."""
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
            raise _bad(f"the arrays are not those of {n_rows} rows: y one number a row, indptr one more")
        if len(weight) not in (0, n_rows):
            raise _bad(f"weight has {len(weight)} entries, not one a row")
        if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            raise _bad("indptr does not rise from 0 to the number of values")
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
        """The sort keys of features within rows, see `MatrixParser`."""
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
            raise _bad("shape is not two integers from 0 on")
        n_rows, n_columns = shape.tolist()
        if self._n_columns is None:
            self._n_columns = n_columns
            if self.input is not None and n_columns != len(self.input["columns"]):
                raise InputError("column_count", f"a batch has {n_columns} columns, those before had others")
            self.set_features(n_columns)
        if self._column is not None and n_columns != len(self._column):
            raise _bad(f"a batch has {n_columns} columns, and names for {len(self._column)}")
        if n_columns != self._n_columns:
            raise _bad(f"a batch has {n_columns} columns, the first one {self._n_columns}")
        return n_rows, n_columns


class ArrayReader:
    """Reads bytes, and arrays written by `numpy.save`, from chunks of any size."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = bytearray()

    def is_at_end(self) -> bool:
        """Return whether all bytes have been read."""
        return not self._fill(1)

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes; return fewer only at the end of the input."""
        self._fill(size)
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def array(self, kinds: str) -> Array:
        """Read the next array. Raises InputError bad_batch unless it is a vector, empty or of a dtype.kind in kinds."""
        try:
            shape, _, dtype = read_header(self)
        except ValueError as error:
            raise _bad("there is no numpy array where one should be") from error
        if dtype.hasobject or len(shape) != 1 or (dtype.kind not in kinds and shape[0]):
            raise _bad("an array is no vector of numbers of the kind it should be")
        size = shape[0] * dtype.itemsize
        if size > MOST_BYTES:
            raise _bad(f"an array has {size} bytes; {MOST_BYTES} is the most: make smaller batches")
        data = self.read(size)
        if len(data) < size:
            raise _bad("the input ends inside an array")
        return np.frombuffer(data, dtype)

    def _fill(self, size: int) -> bool:
        """Buffer at least `size` bytes; return whether the input still has as many."""
        while len(self._held) < size and (chunk := next(self._chunks, None)) is not None:
            self._held += chunk
        return len(self._held) >= size


def _bad(message: str) -> InputError:
    return InputError("bad_batch", message)
