"""Computes the objectives of all tasks at a fixed w, summed over rows, for certificates and screening."""

from collections.abc import Callable, Iterator

import numpy as np

from streamsvm.storage.features.visits import Visited
from streamsvm.storage.rows.csr import Array, add_rows, row_dots
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.lane_kernel import add_in_lanes, dots_of_lanes, squares_of_lanes
from streamsvm.trainer.problem.losses import crammer_singer, make_loss
from streamsvm.trainer.problem.losses.terms import RowTerms
from streamsvm.trainer.problem.tasks import Tasks

_AT_ONCE = 1 << 15  # values of a term that are computed at once: a few such arrays fit into the processor's cache


class Objective:
    """The primal and dual terms of n rows. m, alpha and `dots` are (n, width); sums over the rows are (n_figures,).

    Here tasks share nothing but their rows.

    tasks    the tasks whose objective this is
    resting  (n_kinds, width): the upper bound of alpha, at which a row may rest as it may at 0; in regression a row
             may also rest at minus this bound
    has_rest whether rows may rest at bounds; with logistic loss alpha is between its bounds at the optimum
    """

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.resting = tasks.table.U
        self._loss = make_loss(tasks.loss, tasks.epsilon)
        self.has_rest = self._loss.has_rest

    def m(self, terms: RowTerms, dots: Array) -> Array:
        """Return the argument of each loss (margin or residual) of rows whose <w, x_i> are `dots`."""
        return self._columns(terms, self._loss.m, dots)

    def coefficients(self, terms: RowTerms, alpha: Array) -> Array:
        """Return the coefficients (n, width) of x_i in w: alpha_i y_i, or alpha_i in regression."""
        return self._columns(terms, self._loss.coefficients, alpha)

    def projected(self, terms: RowTerms, alpha: Array) -> Array:
        """Return alpha moved inside its bounds, see `projected` of the losses."""
        return self._columns(terms, self._loss.projected, alpha)

    def losses(self, terms: RowTerms, m: Array) -> Array:
        """Return the sum over the rows of C_i loss_i(m_i), for each problem."""
        return np.concatenate([self._loss.losses(own, m[:, group]) for group, own in self._groups(terms)])

    def dual(self, terms: RowTerms, alpha: Array) -> Array:
        """Return the sum over the rows of the dual terms d_i(alpha_i), for each problem."""
        return np.concatenate([self._loss.dual(own, alpha[:, group]) for group, own in self._groups(terms)])

    def extremes(self, terms: RowTerms, m: Array, alpha: Array) -> tuple[Array, Array]:
        """Return M+ and M-, the largest and smallest projected gradient; -inf and inf if there are no rows."""
        PG = self._columns(terms, self._loss.projected_gradient, m, alpha)
        return PG.max(axis=0, initial=-np.inf), PG.min(axis=0, initial=np.inf)

    def _columns(self, terms: RowTerms, of_tasks: Callable[..., Array], *arrays: Array) -> Array:
        # Contiguous columns: where tasks are many, each value of a column of rows would be a cache miss.
        made, arrays = np.empty(arrays[0].shape, order="F"), tuple(map(np.asfortranarray, arrays))
        for group, own in self._groups(terms):
            made[:, group] = of_tasks(own, *(array[:, group] for array in arrays))
        return made

    def _groups(self, terms: RowTerms) -> Iterator[tuple[slice, RowTerms]]:
        """Yield tasks that are computed at once, as a slice of columns, and the terms of the rows in them."""
        size, target = max(1, _AT_ONCE // max(1, len(terms.C))), terms.target[:, np.newaxis]
        for begin in range(0, self.tasks.width, size):
            group = slice(begin, begin + size)
            yield group, terms._replace(sign=terms.sign[:, group], C=terms.C[:, group], target=target)


class _Joint(Objective):
    """The objective of all classes in one problem. m: a row's margin z_own - z_m over each class; inf for its own."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        # No row rests at an upper bound of alpha: a row rests at alpha = 0, if it is far enough from other classes.
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
        """Return the largest violation of the optimality condition over the rows, and 0.

        Their difference is what LIBLINEAR compares with its -e.
        """
        found = crammer_singer.violations(terms.class_code, self._C(terms), self._z(m), alpha[:, : self._n])
        if not len(found):
            return np.array([-np.inf]), np.array([np.inf])
        return np.array([max(found.max(), 0.0)]), np.array([min(found.min(), 0.0)])

    def _C(self, terms: RowTerms) -> Array:
        return np.ascontiguousarray(terms.C[:, 0])

    def _z(self, m: Array) -> Array:
        """Return decision values z less a constant for each row, which changes neither losses nor violations."""
        own = m[:, : self._n]
        return np.where(np.isinf(own), 0.0, -own)


def make_objective(tasks: Tasks) -> Objective:
    """Return the objective of these tasks."""
    return _Joint(tasks) if tasks.is_joint else Objective(tasks)


def dots_of(rows: Segment, w: Array) -> Array:
    """Return <w, x_i> of each row in each task, (n_rows, width). w is (features, width)."""
    dots = np.empty((len(rows), w.shape[1]))
    if w.shape[1] == 1:
        row_dots(*rows.csr, w.reshape(-1), dots.reshape(-1))
    else:
        dots_of_lanes(*rows.csr, w.reshape(-1), dots)
    return dots


def add_to_w(rows: Segment, coefficients: Array, w: Array) -> None:
    """Add sum_i coefficients[i] x_i to w (features, width) in each task, in place; coefficients is (n_rows, width)."""
    if w.shape[1] == 1:
        add_rows(coefficients.reshape(-1), *rows.csr, w.reshape(-1))
    else:
        add_in_lanes(np.ascontiguousarray(coefficients), *rows.csr, w.reshape(-1))


def mapped_dots(rows: Segment, w: Array, visited: Visited) -> Array:
    """Return <w, x_i> of each row after the maps of `visited`, (n_rows, width). w is (features, width)."""
    parts = [dots_of(part, w) for part in visited.all_batches(rows)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, w.shape[1])), *parts])


def add_mapped(rows: Segment, coefficients: Array, visited: Visited, w: Array) -> None:
    """Add sum_i coefficients[i] x_i to w in place, as `add_to_w`, where x_i is row i after the maps of `visited`."""
    begin = 0
    for batch in visited.all_batches(rows):
        add_to_w(batch, coefficients[begin : begin + len(batch)], w)
        begin += len(batch)


def sizes_of(rows: Segment, coefficients: Array) -> Array:
    """Return sum_i |coefficients_i| |x_i| of each task, (width,); coefficients is (n_rows, width)."""
    return np.sqrt(rows.Qii) @ np.abs(coefficients)


def half_squares(w: Array, n_figures: int) -> Array:
    """Return |w|^2 / 2 of each problem, (n_figures,). If n_figures is 1, all columns of w belong to one problem."""
    if n_figures == 1:
        flat = w.reshape(-1)
        return np.array([float(flat @ flat) / 2])
    squares = np.empty(n_figures)
    squares_of_lanes(w, squares)
    return squares / 2


def relative_gap(primal: float, dual: float) -> float:
    """Return (P - D) / P: an upper bound of the distance of P from the optimum, relative to P.

    Returns 0 if P is 0 (no row has a loss), or D is above P by rounding; nan if P or D is nan.
    """
    return max((primal - dual) / primal, 0.0) if primal else 0.0


def certificate_of(primal: float, dual: float, M_plus: float, M_minus: float, w_error: float) -> dict[str, float]:
    """Return the certificate in a task's result, from figures of all rows at one w."""
    return {
        "m_plus": M_plus,
        "m_minus": M_minus,
        "gap": M_plus - M_minus,
        "primal_objective": primal,
        "dual_objective": dual,
        "relative_duality_gap": relative_gap(primal, dual),
        "w_error": w_error,
    }
