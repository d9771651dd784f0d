"""The certificate pass: once over all blocks at the final w, for the exact objectives."""

from dataclasses import dataclass
from threading import Lock, local

import numpy as np

from streamsvm.reader.certificate.certificate_kernel import dots_and_sums
from streamsvm.reader.certificate.folds import HeldOut
from streamsvm.storage.errors import RowsMissing
from streamsvm.storage.models.kernel_machine import KernelMachine, squared_norm
from streamsvm.storage.models.support_vectors import Machine
from streamsvm.storage.rows.axis import zeros
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.objective import Objective, add_to_w, dots_of

_PIECE = 1 << 16  # features


@dataclass(frozen=True)
class Certificate:
    """P(w), D(alpha) and the largest and smallest projected gradient at the final w and alpha, (n_figures,) each.

    w_error is |w - v| / |w| with v the w of alpha. D is that of v and of the alpha inside its bounds nearest to the one
    given: P - D bounds the suboptimality of w whatever training has done to both.
    """

    primal_objective: Array
    dual_objective: Array
    M_plus: Array
    M_minus: Array
    w_error: Array


class CertificatePass:
    """`add` every row once, in any order, then take the `result`. Sums depend on the order, by their rounding.

    w (features, width) and alpha (n_rows, width) stay as they are; alpha is projected on its bounds before it is used.
    held_out: is told of the rows that tasks leave out, if there are any.
    machine: stands in place of w; then nothing but P is known.
    is_shared: several threads add rows at once.
    """

    def __init__(
        self,
        objective: Objective,
        w: Array,
        alpha: Array,
        held_out: HeldOut | None = None,
        machine: Machine | None = None,
        is_shared: bool = False,
    ) -> None:
        self._lock = Lock()
        self._held_out = held_out
        self._objective = objective
        n_figures = objective.tasks.n_figures
        self._sums = _Expansion(machine) if machine else _make_sums(w, n_figures, is_shared)
        self._alpha = alpha
        self._rows = 0
        self._losses, self._dual = np.zeros((2, n_figures))
        self._M_plus, self._M_minus = np.full(n_figures, -np.inf), np.full(n_figures, np.inf)

    def add(self, rows: Segment) -> None:
        """Take these rows in."""
        objective = self._objective
        terms = objective.tasks.terms(rows)
        own = objective.projected(terms, self._alpha[rows.row_id])
        dots = self._sums.add(objective.coefficients(terms, own), rows, self._lock)
        m = objective.m(terms, dots)
        M_plus, M_minus = objective.extremes(terms, m, own)
        losses, dual = objective.losses(terms, m), objective.dual(terms, own)
        with self._lock:
            if self._held_out is not None:
                predicted = terms.target[:, np.newaxis] if objective.tasks.is_regression else terms.sign
                self._held_out.add(rows.row_id, objective.tasks.left_out(rows), predicted, dots, rows.weight)
            self._rows += len(rows)
            self._losses += losses
            self._dual += dual
            self._M_plus, self._M_minus = np.maximum(self._M_plus, M_plus), np.minimum(self._M_minus, M_minus)

    def result(self) -> Certificate:
        """The certificate of all rows. Raises RowsMissing if others than all have been added."""
        if self._rows != len(self._alpha):
            raise RowsMissing(f"{self._rows} rows came to be certified, there are {len(self._alpha)}")
        w_w, v_v, difference = self._sums.squared_norms()
        return Certificate(
            primal_objective=w_w / 2 + self._losses,
            dual_objective=self._dual - v_v / 2,
            M_plus=self._M_plus,
            M_minus=self._M_minus,
            w_error=np.sqrt(difference) / np.maximum(np.sqrt(w_w), 1e-300),
        )

    @property
    def w_of_alpha(self) -> Array:
        """sum_i alpha_i y_i x_i of the rows so far, with the shape of w; of a kernel machine there is none."""
        assert not isinstance(self._sums, _Expansion)
        return self._sums.v


class _Sums:
    """w and v, the w that alpha makes, both (features, width)."""

    def __init__(self, w: Array, n_figures: int) -> None:
        self._w, self._n_figures = w, n_figures
        self.v = zeros(*w.shape)

    def add(self, coefficients: Array, rows: Segment, lock: Lock) -> Array:
        """<w, x_i> of the rows, (n, width); these coefficients (n, width) times them are added to v."""
        dots = dots_of(rows, self._w)
        with lock:
            add_to_w(rows, coefficients, self.v)
        return dots

    def squared_norms(self) -> Array:
        """Squares of w, v and w - v, (3, n_figures), summed piece by piece, without copies of the whole."""
        total = np.zeros((3, self._w.shape[1]))
        for start in range(0, len(self._w), _PIECE):
            w, v = self._w[start : start + _PIECE], self.v[start : start + _PIECE]
            for number, part in enumerate((w, v, w - v)):
                total[number] += np.einsum("fl,fl->l", part, part)
        return total if self._n_figures > 1 else total.sum(axis=1, keepdims=True)


class _Pairs:
    """The sums of one task: w and v side by side in memory. Threads that share them have a copy each.

    One pass over a row then makes its product with w and adds it to v.
    """

    def __init__(self, w: Array, is_shared: bool) -> None:
        self._w, self._own = w, local() if is_shared else _OfOneThread()
        self._every: list[Array] = []

    @property
    def v(self) -> Array:
        return self._whole()[:, 1:]

    def add(self, coefficients: Array, rows: Segment, lock: Lock) -> Array:
        if not hasattr(self._own, "pairs"):
            self._own.pairs = self._make_pairs()
            with lock:
                self._every.append(self._own.pairs)
        dots, pairs = np.empty((len(rows), 1)), self._own.pairs.reshape(-1)
        place = rows.indptr, rows.indices, rows.values
        dots_and_sums(coefficients.reshape(-1), *place, pairs, dots.reshape(-1))
        return dots

    def squared_norms(self) -> Array:
        total, pairs = np.zeros((3, 1)), self._whole()
        for start in range(0, len(pairs), _PIECE):
            w, v = np.ascontiguousarray(pairs[start : start + _PIECE].T)
            total[:, 0] += w @ w, v @ v, (w - v) @ (w - v)
        return total

    def _whole(self) -> Array:
        """All rows are there: what the threads have, in one."""
        whole, *others = self._every or [self._make_pairs()]
        while others:
            whole[:, 1] += others.pop()[:, 1]
        self._every = [whole]
        return whole

    def _make_pairs(self) -> Array:
        pairs = np.zeros((len(self._w), 2))
        pairs[:, :1] = self._w
        return pairs


class _OfOneThread:
    """Stands for the storage of a thread where there is one."""

    pairs: Array


def _make_sums(w: Array, n_figures: int, is_shared: bool) -> _Sums | _Pairs:
    return _Pairs(w, is_shared) if w.shape[1] == 1 else _Sums(w, n_figures)


class _Expansion:
    """A kernel machine, f(x) in place of <w, x>; there is no v."""

    def __init__(self, machine: Machine) -> None:
        self._machine = KernelMachine(machine.vectors, machine.beta)
        self._squared_norm = squared_norm(machine.vectors, machine.beta)

    def add(self, _coefficients: Array, rows: Segment, _lock: Lock) -> Array:
        """f(x_i) of the rows, (n, 1)."""
        return self._machine.decision_values(rows)[:, np.newaxis]

    def squared_norms(self) -> Array:
        """|f|^2; of v nothing is known."""
        return np.array([[self._squared_norm], [np.nan], [np.nan]])
