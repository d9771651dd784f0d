"""Decision values of rows, and the classes that they predict."""

import numpy as np

from streamsvm.storage.machine.abandoned_work import check_wanted
from streamsvm.storage.rows.csr import Array, Rows, row_dots
from streamsvm.storage.rows.segment import Segment


def decision_values(rows: Rows | Segment, w: Array, intercept: float | Array) -> Array:
    """<w, x_i> + intercept: (n_rows,) for w (width,), (n_rows, n_classes) for w (n_classes, width).

    intercept   a float, or (n_classes,). Features >= width add nothing. Raises Unwanted, see `abandoned_work`.
    """
    # One class after the other: its weights are contiguous, and the rows are few enough to stay in the cache.
    products = np.empty((len(np.atleast_2d(w)), len(rows)))
    for weights, values in zip(np.atleast_2d(w), products, strict=True):
        check_wanted()
        row_dots(rows.indptr, rows.indices, rows.values, weights, values)
    return (products[0] if w.ndim == 1 else np.ascontiguousarray(products.T)) + intercept


def predicted_classes(decision_values: Array) -> Array:
    """Positions (n_rows,) int64 of the predicted classes in the model's labels, as LIBLINEAR has them.

    Of two classes (decision values (n_rows,)) a value > 0 predicts the first; of several (n_rows, n_classes) the
    largest value predicts its class, the first of equal ones.
    """
    if decision_values.ndim == 1:
        return (~(decision_values > 0)).astype(np.int64)
    return decision_values.argmax(axis=1)
