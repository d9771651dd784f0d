"""Makes rows and segments for the tests of storage."""

import itertools

import numpy as np

from streamsvm.storage.rows.csr import Rows
from streamsvm.storage.rows.segment import CODE, TARGET, Segment


def make_rows(lists, labels=None) -> Rows:
    """Rows from a list of {index: value}."""
    lengths = [len(row) for row in lists]
    return Rows(
        np.asarray(range(len(lists)) if labels is None else labels, float),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([index for row in lists for index in sorted(row)], np.int32),
        np.array([row[index] for row in lists for index in sorted(row)], np.float32),
    )


def random_rows(n_rows, seed=0, longest=8, largest=1000) -> Rows:
    """Rows of 0 to `longest` values."""
    rng = np.random.default_rng(seed)
    lists = []
    for length in rng.integers(0, longest + 1, n_rows):
        picked = rng.choice(largest, length, replace=False).tolist()
        lists.append(dict(zip(picked, rng.standard_normal(length).tolist(), strict=True)))
    return make_rows(lists, rng.choice([-1.0, 1.0], n_rows))


def as_segment(rows: Rows, first_row=0, weight=None) -> Segment:
    """The rows as a segment's columns, with ids from `first_row` on; with weights (n,), and targets, or without."""
    Qii = np.array([np.sum(rows.values[a:b].astype(float) ** 2) for a, b in itertools.pairwise(rows.indptr)])
    ids = np.arange(first_row, first_row + len(rows), dtype=np.int32)
    codes, no_fold = (rows.label <= 0).astype(CODE), np.zeros(len(rows), CODE)
    optional = {} if weight is None else {"weight": weight, "target": rows.label.astype(TARGET)}
    return Segment(
        ids, codes, no_fold, Qii.astype(float), rows.indptr.astype(np.int32), rows.indices, rows.values, **optional
    )


def assert_same_rows(actual: Rows, expected: Rows) -> None:
    """All arrays are equal to the bit and have the same dtypes."""
    for name in ("label", "indptr", "indices", "values", "weight", "group"):
        a, b = getattr(actual, name), getattr(expected, name)
        if a is None or b is None:
            assert a is b, name
            continue
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name
