"""Hinge loss. Its step is in trainer.kernels.hinge and hinge_lanes."""

from typing import TYPE_CHECKING

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.margin import MarginLoss, projected_gradient

if TYPE_CHECKING:
    from streamsvm.trainer.problem.tasks import RowTerms


class Hinge(MarginLoss):
    """max(0, 1 - m);  d(a) = a,  0 <= a <= C."""

    is_smooth, has_centre = False, True

    def losses(self, rows: "RowTerms", m: Array) -> float:
        return float(np.dot(rows.C, np.maximum(0.0, 1.0 - m)))

    def projected_gradient(self, rows: "RowTerms", m: Array, alpha: Array) -> Array:
        return projected_gradient(m - 1.0, alpha == 0.0, alpha == rows.C)

    def dual(self, rows: "RowTerms", alpha: Array) -> float:
        return float(alpha.sum())

    def proximal(self, rows: "RowTerms", centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        free = centre + sigma * (1.0 - m)
        alpha = np.clip(free, 0.0, rows.C)
        return alpha, np.where((free > 0.0) & (free < rows.C), sigma, 0.0)
