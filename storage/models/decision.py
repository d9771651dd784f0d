"""Decision values of rows, and the class that they say."""

import numpy as np

from streamsvm.storage.machine.abandoned_work import check_wanted
from streamsvm.storage.rows.csr import Array, Rows, row_dots
from streamsvm.storage.rows.segment import Segment


def decision_values(rows: Rows | Segment, w: Array, intercept: float | Array) -> Array:
    """<w, x_i> + intercept: (n_rows,) for w (width,), (n_rows, n_classes) for w (n_classes, width).

    intercept   a float, or (n_classes,). Features from `width` on add nothing.
    """
    # A class after the other: its weights lie together, and the rows are few enough to stay near.
    found = np.empty((len(np.atleast_2d(w)), len(rows)))
    for weights, values in zip(np.atleast_2d(w), found, strict=True):
        check_wanted()
        row_dots(rows.indptr, rows.indices, rows.values, weights, values)
    return (found[0] if w.ndim == 1 else np.ascontiguousarray(found.T)) + intercept


def predicted_classes(decision_values: Array) -> Array:
    """(n_rows,) int64: places in the model's labels. As in LIBLINEAR a single value says the first only above 0, and of
    several classes the first of the largest wins."""
    if decision_values.ndim == 1:
        return (~(decision_values > 0)).astype(np.int64)
    return decision_values.argmax(axis=1)
