"""Matrices as the text that the engine reads them in as, see reader.parsers.matrices.batches: some rows at a time."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 20


def batches(X: Any, y: Any, weight: Any = None) -> Iterator[bytes]:
    """Of X (n_rows, n_columns), an array or a CSR matrix, y (n_rows,) of numbers and weight (n_rows,) or None."""
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
    """Names of the columns of batches that follow."""
    file = io.BytesIO()
    np.save(file, np.array(names, str), allow_pickle=False)
    return file.getvalue()


def size_of(X: Any) -> int:
    """Bytes that the values of X take in the engine, about."""
    return 8 * (X.nnz if sparse.issparse(X) else X.size)


def _end(X: Any, begin: int) -> int:
    """Behind the last row of a batch that begins there: few enough rows, and values."""
    most = min(X.shape[0], begin + _MOST_ROWS)
    if sparse.issparse(X):
        last = int(np.searchsorted(X.indptr, int(X.indptr[begin]) + _MOST_VALUES, "right")) - 1
    else:
        last = begin + _MOST_VALUES // max(1, X.shape[1])
    return min(most, max(last, begin + 1))
