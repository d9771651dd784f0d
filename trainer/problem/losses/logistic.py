"""Logistic loss. Its step is in trainer.kernels.logistic_and_regression."""

import numpy as np
from scipy.special import expit

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.terms import MarginLoss, RowTerms, products, projected_gradient, without_zeros

# alpha / C counts as 0 up to the first share, and as 1 from the second on: see its kernel.
LEAST_SHARE, MOST_SHARE = 2.0**-100, 1.0 - 2.0**-33


class Logistic(MarginLoss):
    """The loss log(1 + exp(-m)). Dual term: C log C - a log a - (C - a) log(C - a); 0 < a < C at the optimum."""

    is_smooth, has_centre = True, False
    is_quadratic, has_curvature, has_rest, has_probabilities = False, False, False, True

    def losses(self, rows: RowTerms, m: Array) -> Array:
        return products(rows.C, np.logaddexp(0.0, -m))

    def projected_gradient(self, rows: RowTerms, m: Array, alpha: Array) -> Array:
        share = np.clip(alpha / without_zeros(rows.C), LEAST_SHARE, MOST_SHARE)
        G = m + np.log(share / (1.0 - share))
        return np.where(rows.C == 0.0, 0.0, projected_gradient(G, share == LEAST_SHARE, share == MOST_SHARE))

    def dual(self, rows: RowTerms, alpha: Array) -> Array:
        share = alpha / without_zeros(rows.C)
        return products(rows.C, _entropy(share) + _entropy(1.0 - share))

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        share = expit(-m)
        return rows.C * share, rows.C * share * expit(m)


def _entropy(share: Array) -> Array:
    """Return -s log s for each share s; 0 where s is 0."""
    return -share * np.log(np.where(share > 0.0, share, 1.0))
