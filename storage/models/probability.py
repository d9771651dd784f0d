"""Turns decision values f into probabilities: P(f) = 1 / (1 + exp(A f + B)), with a pair (A, B) a decision value."""

import numpy as np

from streamsvm.storage.rows.csr import Array

Sigmoid = tuple[tuple[float, float], ...]
# The pair of logistic regression: P = 1 / (1 + exp(-f)).
LOGISTIC = (-1.0, 0.0)


def falling(z: Array) -> Array:
    """1 / (1 + exp(z)), precise for large |z| of either sign, and without overflow."""
    small = np.exp(-np.abs(z))
    return np.where(z > 0, small, 1.0) / (1.0 + small)


def probabilities(decision_values: Array, sigmoid: Sigmoid) -> Array:
    """The probabilities (n_rows, n_classes) of the classes; each row sums to 1.

    decision_values  (n_rows,) of two classes, > 0 for the first; else (n_rows, n_classes)
    sigmoid          one pair for two classes. Of more classes one pair each: probabilities are divided by their sum, as
                     scikit-learn and LIBLINEAR do; if all are 0, all classes are equally likely.
    """
    A, B = np.array(sigmoid).T
    if decision_values.ndim == 1:
        z = A[0] * decision_values + B[0]
        return np.stack([falling(z), falling(-z)], axis=1)
    shares = falling(A * decision_values + B)
    total = shares.sum(axis=1, keepdims=True)
    even = np.full_like(shares, 1.0 / shares.shape[1])
    return np.divide(shares, total, out=even, where=total > 0)
