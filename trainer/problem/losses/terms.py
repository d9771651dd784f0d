"""The terms of rows that losses take, and what losses share, those of the margin m = y <w, x> above all."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array


class RowTerms(NamedTuple):
    """Signs, C, targets and class codes of some rows.

    sign, C   (n, width): y, and C_i, 0 where the row is left out
    target    (n,) number to predict in regression; class_code (n,)
    """

    sign: Array
    C: Array
    target: Array
    class_code: Array

    def of_task(self, number: int) -> "RowTerms":
        """These terms in one task, as vectors (n,)."""
        sign, C = (np.ascontiguousarray(each[:, number]) for each in (self.sign, self.C))
        return self._replace(sign=sign, C=C)


class MarginLoss:
    """alpha is at least 0, and at most C_i if not said otherwise."""

    is_regression, has_probabilities, has_joint, has_rest = False, False, False, True

    def m(self, rows: RowTerms, dots: Array) -> Array:
        return dots * rows.sign

    def coefficients(self, rows: RowTerms, alpha: Array) -> Array:
        return alpha * rows.sign

    def projected(self, rows: RowTerms, alpha: Array) -> Array:
        return np.clip(alpha, 0.0, rows.C)


def projected_gradient(G: Array, is_lowest: Array, is_highest: Array) -> Array:
    """The gradient, 0 where it points out of the box."""
    return np.where((is_lowest & (G >= 0.0)) | (is_highest & (G <= 0.0)), 0.0, G)


def without_zeros(C: Array) -> Array:
    """C to divide by: 1 for rows that are left out, whose alpha is 0."""
    return np.where(C == 0.0, 1.0, C)


def proximal_curvature(C: Array, sigma: float) -> Array:
    """1 / (1 / (sigma C) + D) with the D = 1 / (2 C) of a squared loss; 0 where C is."""
    return 2.0 * C / (1.0 + 2.0 / sigma)
