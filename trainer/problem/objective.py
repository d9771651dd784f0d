"""The objectives of all tasks at a fixed w, summed over rows: what certificates and screening need of a problem."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from streamsvm.storage.rows.csr import Array, add_rows, row_dots
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.lane_kernel import add_in_lanes, dots_of_lanes, squares_of_lanes
from streamsvm.trainer.problem.losses import crammer_singer, make_loss
from streamsvm.trainer.problem.losses.terms import RowTerms
from streamsvm.trainer.problem.tasks import Tasks


class Objective(Protocol):
    """The primal and dual terms of n rows. m, alpha and `dots` are (n, width), sums over the rows (n_figures,).

    tasks    the tasks whose objective this is
    resting  (n_kinds, width): the bound of alpha, beside 0, at which the sign of its gradient can keep a row; in
             regression its negative is another
    has_rest whether rows may rest at bounds; with logistic loss all are between them at the optimum
    """

    tasks: Tasks
    resting: Array
    has_rest: bool

    def m(self, terms: RowTerms, dots: Array) -> Array:
        """The argument of each loss (margin or residual), at the rows' <w, x_i>."""

    def coefficients(self, terms: RowTerms, alpha: Array) -> Array:
        """The factors of x_i in w: alpha_i y_i, or alpha_i in regression."""

    def projected(self, terms: RowTerms, alpha: Array) -> Array:
        """The alpha inside its bounds that is nearest to this one."""

    def losses(self, terms: RowTerms, m: Array) -> Array:
        """The sum over the rows of C_i loss_i(m_i), for each task."""

    def dual(self, terms: RowTerms, alpha: Array) -> Array:
        """The sum over the rows of the dual terms d_i(alpha_i), for each task."""

    def extremes(self, terms: RowTerms, m: Array, alpha: Array) -> tuple[Array, Array]:
        """M+ and M-: largest and smallest projected gradient; -inf and inf without rows."""


class _Separate:
    """Tasks that share nothing but their rows."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.resting = tasks.table.U
        self._loss = make_loss(tasks.loss, tasks.epsilon)
        self.has_rest = self._loss.has_rest

    def m(self, terms: RowTerms, dots: Array) -> Array:
        return self._columns(terms, self._loss.m, dots)

    def coefficients(self, terms: RowTerms, alpha: Array) -> Array:
        return self._columns(terms, self._loss.coefficients, alpha)

    def projected(self, terms: RowTerms, alpha: Array) -> Array:
        return self._columns(terms, self._loss.projected, alpha)

    def losses(self, terms: RowTerms, m: Array) -> Array:
        return np.array([self._loss.losses(own, m[:, k]) for k, own in self._each(terms)])

    def dual(self, terms: RowTerms, alpha: Array) -> Array:
        return np.array([self._loss.dual(own, alpha[:, k]) for k, own in self._each(terms)])

    def extremes(self, terms: RowTerms, m: Array, alpha: Array) -> tuple[Array, Array]:
        PG = self._columns(terms, self._loss.projected_gradient, m, alpha)
        return PG.max(axis=0, initial=-np.inf), PG.min(axis=0, initial=np.inf)

    def _columns(self, terms: RowTerms, of_task: Callable[..., Array], *arrays: Array) -> Array:
        made = np.empty(arrays[0].shape)
        for k, own in self._each(terms):
            made[:, k] = of_task(own, *(array[:, k] for array in arrays))
        return made

    def _each(self, terms: RowTerms) -> list[tuple[int, RowTerms]]:
        return [(k, terms.of_task(k)) for k in range(self.tasks.width)]


class _Joint:
    """One problem of all classes. m is a row's margin over each class, z_own - z_m, infinite over its own."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        # No alpha is at an upper bound: a row rests where it has none, and is far enough from all other classes.
        self.resting = np.where(tasks.table.U > 0.0, np.inf, 0.0)
        self.has_rest = True
        self._n = len(tasks.each)

    def m(self, terms: RowTerms, dots: Array) -> Array:
        rows, own = np.arange(len(dots)), terms.class_code
        margins = dots[rows, own][:, np.newaxis] - dots
        margins[rows, own] = np.inf
        return margins

    def coefficients(self, terms: RowTerms, alpha: Array) -> Array:
        return alpha

    def projected(self, terms: RowTerms, alpha: Array) -> Array:
        inside = alpha.copy()
        inside[:, : self._n] = crammer_singer.projected(terms.class_code, self._C(terms), alpha[:, : self._n])
        return inside

    def losses(self, terms: RowTerms, m: Array) -> Array:
        return np.array([crammer_singer.losses(terms.class_code, self._C(terms), self._z(m))])

    def dual(self, terms: RowTerms, alpha: Array) -> Array:
        return np.array([crammer_singer.dual(terms.class_code, alpha[:, : self._n])])

    def extremes(self, terms: RowTerms, m: Array, alpha: Array) -> tuple[Array, Array]:
        """The largest violation of a row, and 0: their difference is what LIBLINEAR's -e bounds."""
        found = crammer_singer.violations(terms.class_code, self._C(terms), self._z(m), alpha[:, : self._n])
        if not len(found):
            return np.array([-np.inf]), np.array([np.inf])
        return np.array([max(found.max(), 0.0)]), np.array([min(found.min(), 0.0)])

    def _C(self, terms: RowTerms) -> Array:
        return np.ascontiguousarray(terms.C[:, 0])

    def _z(self, m: Array) -> Array:
        """Decision values, up to a constant for each row, which leaves losses and violations as they are."""
        own = m[:, : self._n]
        return np.where(np.isinf(own), 0.0, -own)


def make_objective(tasks: Tasks) -> Objective:
    """The objective of these tasks."""
    return _Joint(tasks) if tasks.is_joint else _Separate(tasks)


def dots_of(rows: Segment, w: Array) -> Array:
    """<w, x_i> in each task, (n_rows, width), at w (features, width)."""
    dots = np.empty((len(rows), w.shape[1]))
    if w.shape[1] == 1:
        row_dots(*rows.csr, w.reshape(-1), dots.reshape(-1))
    else:
        dots_of_lanes(*rows.csr, w.reshape(-1), dots)
    return dots


def add_to_w(rows: Segment, coefficients: Array, w: Array) -> None:
    """w += sum_i coefficients[i] x_i in each task, in place; coefficients (n_rows, width)."""
    if w.shape[1] == 1:
        add_rows(coefficients.reshape(-1), *rows.csr, w.reshape(-1))
    else:
        add_in_lanes(coefficients, *rows.csr, w.reshape(-1))


def sizes_of(rows: Segment, coefficients: Array) -> Array:
    """sum_i |coefficients_i| |x_i| of each task, (width,); coefficients (n_rows, width)."""
    return np.sqrt(rows.Qii) @ np.abs(coefficients)


def half_squares(w: Array, n_figures: int) -> Array:
    """|w|^2 / 2 of each problem, (n_figures,). If n_figures is 1, all columns of w belong to one problem."""
    if n_figures == 1:
        flat = w.reshape(-1)
        return np.array([float(flat @ flat) / 2])
    squares = np.empty(n_figures)
    squares_of_lanes(w, squares)
    return squares / 2


def relative_gap(primal: float, dual: float) -> float:
    """(P - D) / P: a bound on how far P is from the optimum, relative to P. 0 where P is 0: no row costs anything.

    0, too, where D is above P by rounding; nan if one of them is.
    """
    return max((primal - dual) / primal, 0.0) if primal else 0.0


def certificate_of(primal: float, dual: float, M_plus: float, M_minus: float, w_error: float) -> dict[str, float]:
    """A certificate of all rows at one w, as a task's result has it."""
    return {
        "m_plus": M_plus,
        "m_minus": M_minus,
        "gap": M_plus - M_minus,
        "primal_objective": primal,
        "dual_objective": dual,
        "relative_duality_gap": relative_gap(primal, dual),
        "w_error": w_error,
    }
