"""The losses: for each its primal and dual terms, projected gradient and proximal step; `box_of` gives the bounds.

Methods take the terms of rows in one task, as vectors (n,): see `terms.RowTerms`. The step of dual
coordinate descent is a kernel, which the docstring of the loss's module names.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.epsilon_insensitive import EpsilonInsensitive, SquaredEpsilonInsensitive
from streamsvm.trainer.problem.losses.hinge import Hinge
from streamsvm.trainer.problem.losses.logistic import Logistic
from streamsvm.trainer.problem.losses.squared_hinge import SquaredHinge
from streamsvm.trainer.problem.losses.terms import RowTerms


class Loss(Protocol):
    """A loss. alpha (n,) are dual variables, `dots` (n,) are <w, x_i>.

    m (n,) is the argument of the loss: the margin y_i <w, x_i>, or the residual <w, x_i> - y_i of regression.

    is_smooth     the loss has a derivative everywhere: alpha is a function of m, and `proximal` allows sigma = inf
    has_centre    `proximal` heeds centre and sigma
    is_quadratic  D is a parabola along each line within the box
    has_curvature  d has the term -a^2 / (4 C), and the box has no upper end (Hsieh et al. 2008, equation 4)
    has_rest      rows come to rest at an end of the box
    has_joint     all classes may be in one problem, that of Crammer and Singer
    is_regression  it predicts a number; has_probabilities: decision values are log odds
    """

    is_smooth: bool
    has_centre: bool
    is_quadratic: bool
    has_curvature: bool
    has_rest: bool
    has_joint: bool
    is_regression: bool
    has_probabilities: bool

    def m(self, rows: RowTerms, dots: Array) -> Array: ...

    def coefficients(self, rows: RowTerms, alpha: Array) -> Array:
        """The factors of x_i in w: alpha_i y_i, or alpha_i in regression."""

    def projected(self, rows: RowTerms, alpha: Array) -> Array:
        """The alpha inside the bounds that is nearest to this one."""

    def losses(self, rows: RowTerms, m: Array) -> float:
        """The sum over the rows of C_i loss_i(m_i)."""

    def projected_gradient(self, rows: RowTerms, m: Array, alpha: Array) -> Array:
        """Gradient of -D, 0 where it points out of the bounds."""

    def dual(self, rows: RowTerms, alpha: Array) -> float:
        """The sum over the rows of the dual terms d_i(alpha_i)."""

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        """The alpha (n,) that maximises d_i(alpha_i) - m_i alpha_i - (alpha_i - centre_i)^2 / (2 sigma C_i).

        Returns that alpha, and h (n,) >= 0: how fast it falls as m rises. sigma may be infinite for a smooth loss. It
        counts in C_i so that a row of weight 2 moves as two equal rows do together. (See trainer.newton.)
        """


KINDS: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}
LOSSES = tuple(KINDS)
SVM_LOSSES = tuple(name for name, kind in KINDS.items() if kind.is_quadratic)
REGRESSION = tuple(name for name, kind in KINDS.items() if kind.is_regression)


def make_loss(name: str, epsilon: float) -> Loss:
    """The loss of this name; epsilon is half the width of regression's tube."""
    kind: Callable[..., Loss] = KINDS[name]
    return kind(epsilon) if KINDS[name].is_regression else kind()


def box_of(name: str, C: Array) -> tuple[Array, Array]:
    """The upper bounds U of alpha (of |alpha| in regression) and the curvatures D of d, for these C.

    They are (C, 0), or (inf, 1 / (2 C)) for a loss with curvature. Both are 0 where C is 0.
    """
    if not KINDS[name].has_curvature:
        return C.copy(), np.zeros_like(C)
    is_in = C > 0.0
    return np.where(is_in, np.inf, 0.0), np.divide(1.0, 2.0 * C, out=np.zeros_like(C), where=is_in)
