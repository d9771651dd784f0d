"""The terms of rows that losses take, and code that losses share, mostly losses of the margin m = y <w, x>."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array


class RowTerms(NamedTuple):
    """Signs, C, targets and class codes of some rows.

    sign, C   (n, width) of each row in each task: y, which is +1 or -1; and C_i, 0 where the task leaves the row out
    target    (n,) number to predict in regression, (n, 1) for losses of several tasks; class_code (n,) of the labels
    """

    sign: Array
    C: Array
    target: Array
    class_code: Array

    def of_task(self, number: int) -> "RowTerms":
        """Return these terms in the task of this number, with sign and C as vectors (n,)."""
        sign, C = (np.ascontiguousarray(each[:, number]) for each in (self.sign, self.C))
        return self._replace(sign=sign, C=C)


class MarginLoss:
    """Base of the losses of the margin m = y <w, x>: 0 <= alpha_i <= C_i, unless a loss has other bounds."""

    is_regression, has_probabilities, has_joint, has_rest = False, False, False, True

    def m(self, rows: RowTerms, dots: Array) -> Array:
        return dots * rows.sign

    def coefficients(self, rows: RowTerms, alpha: Array) -> Array:
        return alpha * rows.sign

    def projected(self, rows: RowTerms, alpha: Array) -> Array:
        return np.clip(alpha, 0.0, rows.C)


def products(a: Array, b: Array) -> Array:
    """Return the dot product of two vectors (n,), or those of the columns of two arrays, (n, k) each or (n, 1)."""
    return np.matmul(a.T[..., np.newaxis, :], b.T[..., np.newaxis])[..., 0, 0]


def projected_gradient(G: Array, is_lowest: Array, is_highest: Array) -> Array:
    """Return G, but 0 where alpha is at its lowest or highest value and a step along -G would leave the box."""
    return np.where((is_lowest & (G >= 0.0)) | (is_highest & (G <= 0.0)), 0.0, G)


def without_zeros(C: Array) -> Array:
    """Return C as a divisor: 1 instead of 0 for rows that are left out, whose alpha is 0."""
    return np.where(C == 0.0, 1.0, C)


def proximal_curvature(C: Array, sigma: float) -> Array:
    """Return h = 1 / (1 / (sigma C) + D) of a squared loss, where D = 1 / (2 C); h is 0 where C is 0."""
    return 2.0 * C / (1.0 + 2.0 / sigma)
