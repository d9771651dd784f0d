"""Hinge loss. Its step is in trainer.kernels.hinge and hinge_lanes."""

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.terms import MarginLoss, RowTerms, products, projected_gradient


class Hinge(MarginLoss):
    """The loss max(0, 1 - m) of the margin m, with the dual term d(a) = a, where 0 <= alpha = a <= C."""

    is_smooth, has_centre = False, True
    is_quadratic, has_curvature, has_joint = True, False, True

    def losses(self, rows: RowTerms, m: Array) -> Array:
        return products(rows.C, np.maximum(0.0, 1.0 - m))

    def projected_gradient(self, rows: RowTerms, m: Array, alpha: Array) -> Array:
        return projected_gradient(m - 1.0, alpha == 0.0, alpha == rows.C)

    def dual(self, rows: RowTerms, alpha: Array) -> Array:
        return alpha.sum(axis=0)

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        reach = sigma * rows.C
        free = centre + reach * (1.0 - m)
        alpha = np.clip(free, 0.0, rows.C)
        return alpha, np.where((free > 0.0) & (free < rows.C), reach, 0.0)
