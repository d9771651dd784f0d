"""Methods that losses of the margin m = y <w, x> share."""

from typing import TYPE_CHECKING

import numpy as np

from streamsvm.storage.rows.csr import Array

if TYPE_CHECKING:
    from streamsvm.trainer.problem.tasks import RowTerms


class MarginLoss:
    """alpha is at least 0, and at most C_i if not said otherwise."""

    def m(self, rows: "RowTerms", dots: Array) -> Array:
        return dots * rows.sign

    def coefficients(self, rows: "RowTerms", alpha: Array) -> Array:
        return alpha * rows.sign

    def projected(self, rows: "RowTerms", alpha: Array) -> Array:
        return np.clip(alpha, 0.0, rows.C)


def projected_gradient(G: Array, is_lowest: Array, is_highest: Array) -> Array:
    """The gradient, 0 where it points out of the box."""
    return np.where((is_lowest & (G >= 0.0)) | (is_highest & (G <= 0.0)), 0.0, G)


def without_zeros(C: Array) -> Array:
    """C to divide by: 1 for rows that are left out, whose alpha is 0."""
    return np.where(C == 0.0, 1.0, C)


def proximal_curvature(C: Array, sigma: float) -> Array:
    """1 / (1 / sigma + D) with the D = 1 / (2 C) of a squared loss; 0 where C is."""
    return 2.0 * C / (1.0 + 2.0 * C / sigma)
