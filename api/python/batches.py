"""Writes matrices in the format of `reader.parsers.matrices.batches`, some rows at a time, for the engine to read."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 20


def batches(X: Any, y: Any, weight: Any = None) -> Iterator[bytes]:
    """Yield batches of bytes.

    X       (n_rows, n_columns), an array or a CSR matrix
    y       (n_rows,) numbers
    weight  (n_rows,) numbers, or None
    """
    begin = 0
    while begin < X.shape[0]:
        end = _end(X, begin)
        part = sparse.csr_matrix(X[begin:end])
        part.sum_duplicates()
        file = io.BytesIO()
        weights = () if weight is None else weight[begin:end]
        for array in (part.shape, y[begin:end], part.indptr, part.indices, part.data, weights):
            np.save(file, np.asarray(array), allow_pickle=False)
        yield file.getvalue()
        begin = end


def name_array(names: Sequence[str]) -> bytes:
    """Write the column names of the batches that follow."""
    file = io.BytesIO()
    np.save(file, np.array(names, str), allow_pickle=False)
    return file.getvalue()


def size_of(X: Any) -> int:
    """Estimate the bytes that the values of X take in the engine."""
    return 8 * (X.nnz if sparse.issparse(X) else X.size)


def _end(X: Any, begin: int) -> int:
    """Return the end of the batch that begins at this row, so that it has at most _MOST_ROWS and _MOST_VALUES."""
    most = min(X.shape[0], begin + _MOST_ROWS)
    if sparse.issparse(X):
        last = int(np.searchsorted(X.indptr, int(X.indptr[begin]) + _MOST_VALUES, "right")) - 1
    else:
        last = begin + _MOST_VALUES // max(1, X.shape[1])
    return min(most, max(last, begin + 1))
