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
from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.class_losses import ClassObjective
from streamsvm.trainer.problem.lane_kernel import add_in_lanes, dots_of_lanes
from streamsvm.trainer.problem.objective import Objective

_PIECE = 1 << 16  # features


@dataclass(frozen=True)
class Certificate:
    """P(w), D(alpha) and the largest and smallest projected gradient, all at the final w and alpha.

    w_error is |w - v| / |w| with v the w of alpha. D is that of v and of the alpha inside its bounds nearest to the one
    given: P - D bounds the suboptimality of w whatever training has done to both. Of several lanes each is (lanes,).
    """

    primal_objective: Figure
    dual_objective: Figure
    M_plus: Figure
    M_minus: Figure
    w_error: Figure


class CertificatePass:
    """`add` every row once, in any order, then take the `result`. Sums depend on the order, by their rounding.

    w (width,) and alpha (n_rows,) stay as they are; of several lanes, or classes, both have an axis of them. alpha is
    projected on its bounds before it is used.
    held_out: is told of the rows that have no part in training, if there are any.
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
        self._weights = _Expansion(machine) if machine else _weights_of(objective, w, is_shared)
        self._alpha = alpha
        self._rows = 0
        self._losses: Figure = 0.0
        self._dual: Figure = 0.0
        self._M_plus: Figure = -np.inf
        self._M_minus: Figure = np.inf

    def add(self, rows: Segment) -> None:
        """Take these rows in."""
        y = self._objective.targets(rows)
        own = self._objective.projected(y, self._alpha[rows.row_id])
        dots = self._weights.add(self._objective.coefficients(y, own), rows, self._lock)
        m = self._objective.m(y, dots)
        PG = self._objective.projected_gradient(y, m, own)
        losses, dual = self._objective.losses(y, m), self._objective.dual(y, own)
        with self._lock:
            if self._held_out is not None:
                is_out, target = (
                    (y == 0, np.copysign(1.0, y)) if rows.target is None else (rows.y != rows.target, rows.target)
                )
                self._held_out.add(rows.row_id, is_out, target, dots, rows.weight)
            self._rows += len(rows)
            self._losses = self._losses + losses
            self._dual = self._dual + dual
            self._M_plus = np.maximum(self._M_plus, PG.max(axis=0, initial=-np.inf))
            self._M_minus = np.minimum(self._M_minus, PG.min(axis=0, initial=np.inf))

    def result(self) -> Certificate:
        """The certificate of all rows. Raises RowsMissing if others than all have been added."""
        if self._rows != len(self._alpha):
            raise RowsMissing(f"{self._rows} rows came to be certified, there are {len(self._alpha)}")
        w_w, v_v, difference = self._weights.squared_norms()
        return Certificate(
            primal_objective=w_w / 2 + self._losses,
            dual_objective=self._dual - v_v / 2,
            M_plus=self._M_plus,
            M_minus=self._M_minus,
            w_error=np.sqrt(difference) / np.maximum(np.sqrt(w_w), 1e-300),
        )

    @property
    def w_of_alpha(self) -> Array:
        """sum_i alpha_i y_i x_i of the rows so far, as long as w; of a kernel machine there is none."""
        assert not isinstance(self._weights, _Expansion)
        return self._weights.v


def _weights_of(objective: Objective, w: Array, is_shared: bool) -> "_Pairs | _PairsOfThreads | _Lanes":
    if w.ndim == 1:
        return _PairsOfThreads(w) if is_shared else _Pairs(w)
    return _Classes(w) if isinstance(objective, ClassObjective) else _Lanes(w)


class _Pairs:
    """w (width,) and v, the w that alpha makes, side by side, for one thread."""

    def __init__(self, w: Array) -> None:
        self._pairs = np.zeros((len(w), 2))
        self._pairs[:, 0] = w

    @property
    def v(self) -> Array:
        return self._pairs[:, 1]

    def add(self, coefficients: Array, rows: Segment, _lock: Lock) -> Array:
        """<w, x_i> of the rows (n,); these coefficients (n,) times them are added to v."""
        dots = np.empty(len(rows))
        dots_and_sums(coefficients, rows.indptr, rows.indices, rows.values, self._pairs.reshape(-1), dots)
        return dots

    def add_sum(self, other: "_Pairs") -> None:
        """Another part of v."""
        self._pairs[:, 1] += other._pairs[:, 1]

    def squared_norms(self) -> Array:
        """Of w, v and w - v; in pieces, without copies of the whole."""
        total = np.zeros(3)
        for start in range(0, len(self._pairs), _PIECE):
            w, v = np.ascontiguousarray(self._pairs[start : start + _PIECE].T)
            total += w @ w, v @ v, (w - v) @ (w - v)
        return total


class _PairsOfThreads:
    """The same for several threads, each of which has a copy of w and a v of its own."""

    def __init__(self, w: Array) -> None:
        self._w = w
        self._own = local()
        self._every: list[_Pairs] = []

    @property
    def v(self) -> Array:
        return self._whole().v

    def add(self, coefficients: Array, rows: Segment, lock: Lock) -> Array:
        if not hasattr(self._own, "pairs"):
            self._own.pairs = _Pairs(self._w)
            with lock:
                self._every.append(self._own.pairs)
        return self._own.pairs.add(coefficients, rows, lock)

    def squared_norms(self) -> Array:
        """(3,)."""
        return self._whole().squared_norms()

    def _whole(self) -> _Pairs:
        """All rows are there: what the threads have, in one."""
        whole, *others = self._every or [_Pairs(self._w)]
        while others:
            whole.add_sum(others.pop())
        self._every = [whole]
        return whole


class _Expansion:
    """A kernel machine, f(x) in place of <w, x>; there is no v."""

    def __init__(self, machine: Machine) -> None:
        self._machine = KernelMachine(machine.vectors, machine.beta)
        self._squared_norm = squared_norm(machine.vectors, machine.beta)

    def add(self, _coefficients: Array, rows: Segment, _lock: Lock) -> Array:
        """f(x_i) of the rows (n,)."""
        return self._machine.decision_values(rows)

    def squared_norms(self) -> Array:
        """|f|^2; of v nothing is known."""
        return np.array([self._squared_norm, np.nan, np.nan])


class _Lanes:
    """The same of several lanes, w (width, lanes)."""

    def __init__(self, w: Array) -> None:
        self._w, self._v = w, zeros(*w.shape)

    @property
    def v(self) -> Array:
        return self._v

    def add(self, coefficients: Array, rows: Segment, lock: Lock) -> Array:
        dots = np.empty(coefficients.shape)
        place = rows.indptr, rows.indices, rows.values
        dots_of_lanes(*place, self._w.reshape(-1), dots)
        with lock:
            add_in_lanes(coefficients, *place, self._v.reshape(-1))
        return dots

    def squared_norms(self) -> Array:
        """(3, lanes)."""
        total = np.zeros((3, self._w.shape[1]))
        for start in range(0, len(self._w), _PIECE):
            w, v = self._w[start : start + _PIECE], self._v[start : start + _PIECE]
            for number, part in enumerate((w, v, w - v)):
                total[number] += np.einsum("fl,fl->l", part, part)
        return total


class _Classes(_Lanes):
    """Of the classes of one problem."""

    def squared_norms(self) -> Array:
        """(3,)."""
        return super().squared_norms().sum(axis=1)
