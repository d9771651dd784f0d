"""Joins equal rows of little data, and sorts them by what they are.

A row that is given twice is a row of weight 2, in whichever order rows come: training then does the same, to the byte.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamsvm.storage.rows.csr import VALUE, Array

_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 20  # 25 ms for the most
_WORD = np.uint64


class WeighedRows(NamedTuple):
    """X (n_rows, n_columns), an array or CSR; y (n_rows,) numbers; weight (n_rows,), None: each row has weight 1."""

    X: Any
    y: Array
    weight: Array | None


def are_few(X: Any) -> bool:
    """Tell whether the rows of X are so few that `joined` takes 25 ms at most."""
    return X.shape[0] <= _MOST_ROWS and (X.nnz if sparse.issparse(X) else X.size) <= _MOST_VALUES


def joined(given: WeighedRows, keeps_labels: bool) -> WeighedRows:
    """Join rows that are equal as float32 and have the same y, adding up weights; leave out rows of weight 0.

    keeps_labels  return all rows unchanged where a y would be lost

    Rows that the engine refuses are returned unchanged, too: it says why.
    """
    X = sparse.csr_matrix(given.X, copy=sparse.issparse(given.X))
    X.sum_duplicates()
    X.eliminate_zeros()
    with np.errstate(over="ignore"):
        X.data = X.data.astype(VALUE, copy=False)
    y = given.y + 0.0
    weight = np.ones(len(y)) if given.weight is None else given.weight
    is_sound = all(np.isfinite(each).all() for each in (X.data, y, weight)) and weight.min(initial=0.0) >= 0.0
    counts = weight > 0.0
    if not is_sound or not counts.any() or (keeps_labels and not np.isin(y, y[counts]).all()):
        return given
    hashes = _hashes(X, y)
    order = np.lexsort((weight, hashes))  # sums of weights are rounded alike in any order of rows
    order = order[counts[order]]
    X, y, weight, hashes = X[order], y[order], weight[order], hashes[order]
    twice = np.flatnonzero(hashes[1:] == hashes[:-1])
    twice = twice[((X[twice + 1] != X[twice]).getnnz(axis=1) == 0) & (y[twice + 1] == y[twice])]
    is_first = np.ones(len(y), bool)
    is_first[twice + 1] = False
    first = np.flatnonzero(is_first)
    weight = np.add.reduceat(weight, first)
    return WeighedRows(X[first], y[first], None if (weight == 1.0).all() else weight)


def _hashes(X: sparse.csr_matrix, y: Array) -> Array:
    """A number for each row (n,) that follows from its values, their columns and y alone."""
    values = X.data.view(np.uint32).astype(_WORD) | X.indices.astype(_WORD) << _WORD(32)
    sums = np.concatenate([np.zeros(1, _WORD), np.cumsum(_mixed(values), dtype=_WORD)])
    return _mixed(sums[X.indptr[1:]] - sums[X.indptr[:-1]] + _mixed(y.view(_WORD)))


def _mixed(words: Array) -> Array:
    """Words (n,) uint64 whose bits depend on all bits of these (Steele, Lea, Flood 2014, "splitmix64")."""
    words = (words ^ (words >> _WORD(30))) * _WORD(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> _WORD(27))) * _WORD(0x94D049BB133111EB)
    return words ^ (words >> _WORD(31))
