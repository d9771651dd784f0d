"""The losses: each with its primal and dual terms, projected gradient and proximal step; `box_of` has the bounds.

Methods take the terms of rows in one task, as vectors (n,), or in k tasks, as arrays (n, k): see `terms.RowTerms`. The
docstring of a loss's module names the kernel that makes its steps of dual coordinate descent.
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
    """A loss function of n rows. alpha (n,) are the dual variables, `dots` (n,) the products <w, x_i>.

    m (n,) is the argument of the loss: the margin y_i <w, x_i>, or the residual <w, x_i> - y_i of regression.

    is_smooth     the loss has a derivative everywhere: alpha is a function of m, and `proximal` allows sigma = inf
    has_centre    `proximal` needs the centre and sigma of its proximal term; else it ignores both
    is_quadratic  the dual objective D is a parabola along each line within the box of alpha
    has_curvature  the dual term d has the summand -a^2 / (4 C); alpha has no upper bound (Hsieh et al. 2008, eq. 4)
    has_rest      rows may rest: their alpha stays at a bound
    has_joint     all classes may be in one problem, that of Crammer and Singer
    is_regression  predictions are numbers; has_probabilities: decision values are log odds
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
        """Return the coefficients (n,) of x_i in w: alpha_i y_i, or alpha_i in regression."""

    def projected(self, rows: RowTerms, alpha: Array) -> Array:
        """Return the values (n,) within the bounds of alpha that are nearest to `alpha`."""

    def losses(self, rows: RowTerms, m: Array) -> Array:
        """Return the sum over the rows of C_i loss_i(m_i), a number or (k,)."""

    def projected_gradient(self, rows: RowTerms, m: Array, alpha: Array) -> Array:
        """Return the gradient (n,) of -D, but 0 where alpha_i is at a bound and a descent step would leave the box."""

    def dual(self, rows: RowTerms, alpha: Array) -> Array:
        """Return the sum over the rows of the dual terms d_i(alpha_i), a number or (k,)."""

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        """Return the alpha (n,) that maximises d_i(alpha_i) - m_i alpha_i - (alpha_i - centre_i)^2 / (2 sigma C_i).

        Also returns h (n,) >= 0: how fast this alpha falls as m rises. sigma may be infinite for a smooth loss. C_i is
        in the last term so that a row of weight 2 moves as two equal rows do together. (See trainer.newton.)
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
    """Return the loss of this name. `epsilon` is half the width of the tube in regression; other losses ignore it."""
    kind: Callable[..., Loss] = KINDS[name]
    return kind(epsilon) if KINDS[name].is_regression else kind()


def box_of(name: str, C: Array) -> tuple[Array, Array]:
    """Return the upper bounds U of alpha (of |alpha| in regression) and the curvatures D of the dual term d for each C.

    U and D are (C, 0), or (inf, 1 / (2 C)) for a loss with curvature. Both are 0 where C is 0.
    """
    if not KINDS[name].has_curvature:
        return C.copy(), np.zeros_like(C)
    is_in = C > 0.0
    return np.where(is_in, np.inf, 0.0), np.divide(1.0, 2.0 * C, out=np.zeros_like(C), where=is_in)
