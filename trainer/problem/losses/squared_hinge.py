"""Squared hinge loss. Its step is in trainer.kernels.hinge and hinge_lanes."""

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.terms import (
    MarginLoss,
    RowTerms,
    products,
    projected_gradient,
    proximal_curvature,
    without_zeros,
)


class SquaredHinge(MarginLoss):
    """The loss max(0, 1 - m)^2 of the margin m, with the dual term d(a) = a - a^2 / (4 C), where alpha = a >= 0."""

    is_smooth, has_centre = True, True
    is_quadratic, has_curvature = True, True

    def projected(self, rows: RowTerms, alpha: Array) -> Array:
        return np.clip(alpha, 0.0, np.where(rows.C == 0.0, 0.0, np.inf))

    def losses(self, rows: RowTerms, m: Array) -> Array:
        return products(rows.C, np.maximum(0.0, 1.0 - m) ** 2)

    def projected_gradient(self, rows: RowTerms, m: Array, alpha: Array) -> Array:
        is_out = rows.C == 0.0
        PG = projected_gradient(m - 1.0 + alpha / (2.0 * without_zeros(rows.C)), alpha == 0.0, is_out)
        return np.where(is_out, 0.0, PG)

    def dual(self, rows: RowTerms, alpha: Array) -> Array:
        return alpha.sum(axis=0) - np.sum(alpha * alpha / (2.0 * (2.0 * without_zeros(rows.C))), axis=0)

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        gain, h = centre / (sigma * without_zeros(rows.C)) + 1.0 - m, proximal_curvature(rows.C, sigma)
        return h * np.maximum(0.0, gain), np.where(gain > 0.0, h, 0.0)
