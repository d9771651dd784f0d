"""The losses: for each its primal and dual terms, projected gradient and proximal step; `box_of` gives the bounds.

Methods take the terms of rows in one task, as vectors (n,): see trainer.problem.tasks.RowTerms. The step of dual
coordinate descent is a kernel, which the docstring of the loss's module names.
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.epsilon_insensitive import EpsilonInsensitive, SquaredEpsilonInsensitive
from streamsvm.trainer.problem.losses.hinge import Hinge
from streamsvm.trainer.problem.losses.logistic import Logistic
from streamsvm.trainer.problem.losses.squared_hinge import SquaredHinge

if TYPE_CHECKING:
    from streamsvm.trainer.problem.tasks import RowTerms


class Loss(Protocol):
    """A loss. alpha (n,) are dual variables, `dots` (n,) are <w, x_i>.

    m (n,) is the argument of the loss: the margin y_i <w, x_i>, or the residual <w, x_i> - y_i of regression.

    is_smooth   the loss has a derivative everywhere: alpha is a function of m, and `proximal` allows sigma = inf
    has_centre  `proximal` heeds centre and sigma
    """

    is_smooth: bool
    has_centre: bool

    def m(self, rows: "RowTerms", dots: Array) -> Array: ...

    def coefficients(self, rows: "RowTerms", alpha: Array) -> Array:
        """The factors of x_i in w: alpha_i y_i, or alpha_i in regression."""

    def projected(self, rows: "RowTerms", alpha: Array) -> Array:
        """The alpha inside the bounds that is nearest to this one."""

    def losses(self, rows: "RowTerms", m: Array) -> float:
        """The sum over the rows of C_i loss_i(m_i)."""

    def projected_gradient(self, rows: "RowTerms", m: Array, alpha: Array) -> Array:
        """Gradient of -D, 0 where it points out of the bounds."""

    def dual(self, rows: "RowTerms", alpha: Array) -> float:
        """The sum over the rows of the dual terms d_i(alpha_i)."""

    def proximal(self, rows: "RowTerms", centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        """The alpha (n,) that maximises d_i(alpha_i) - m_i alpha_i - (alpha_i - centre_i)^2 / (2 sigma) for each row.

        Returns that alpha, and h (n,) >= 0: how fast it falls as m rises. sigma may be infinite for a smooth loss. (See
        trainer.newton.)
        """


SVM_LOSSES = ("hinge", "squared_hinge")
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive")  # they predict a number
LOSSES = (*SVM_LOSSES, "logistic", *REGRESSION)


def make_loss(name: str, epsilon: float) -> Loss:
    """The loss of this name; epsilon is half the width of regression's tube."""
    if name in REGRESSION:
        return (EpsilonInsensitive if name == "epsilon_insensitive" else SquaredEpsilonInsensitive)(epsilon)
    margin_losses: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "logistic": Logistic()}
    return margin_losses[name]


def box_of(name: str, C: Array) -> tuple[Array, Array]:
    """The upper bounds U of alpha (of |alpha| in regression) and the curvatures D of d, for these C.

    They are (C, 0), or (inf, 1 / (2 C)) for a loss whose name begins with "squared" (Hsieh et al. 2008, equation 4).
    Both are 0 where C is 0.
    """
    if not name.startswith("squared"):
        return C.copy(), np.zeros_like(C)
    is_in = C > 0.0
    return np.where(is_in, np.inf, 0.0), np.divide(1.0, 2.0 * C, out=np.zeros_like(C), where=is_in)
