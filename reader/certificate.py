"""The certificate pass: once over all blocks at the final w, for the exact objectives."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from reader.certificate_kernel import dots_and_sums
from reader.folds import HeldOut
from storage.csr import Array
from storage.errors import RowsMissing
from storage.objective import Objective
from storage.segment import Segment

_PIECE = 1 << 16  # features


@dataclass(frozen=True)
class Certificate:
    """P(w), D(alpha) and the largest and smallest projected gradient, all at the final w and alpha.

    w_error is |w - v| / |w| with v the w of alpha. D is that of v and of the alpha inside its bounds nearest to the one
    given: P - D bounds the suboptimality of w whatever training has done to both.
    """

    primal_objective: float
    dual_objective: float
    M_plus: float
    M_minus: float
    w_error: float


class CertificatePass:
    """`add` every row once, in any order, then take the `result`.

    w (width,) and alpha (n_rows,) stay as they are. alpha is projected on its bounds before it is used.
    held_out: is told of the rows that have no part in training, if there are any.
    """

    def __init__(self, objective: Objective, w: Array, alpha: Array, held_out: HeldOut | None = None) -> None:
        self._held_out = held_out
        self._objective = objective
        self._pairs = np.zeros((len(w), 2))  # w and v
        self._pairs[:, 0] = w
        self._alpha = alpha
        self._rows = 0
        self._losses = self._dual = 0.0
        self._M_plus, self._M_minus = -np.inf, np.inf

    def add(self, rows: Segment) -> None:
        """Take these rows in."""
        own, dots = self._objective.projected(rows.y, self._alpha[rows.row_id]), np.empty(len(rows))
        coefficients = self._objective.coefficients(rows.y, own)
        dots_and_sums(coefficients, rows.indptr, rows.indices, rows.values, self._pairs.reshape(-1), dots)
        if self._held_out is not None:
            self._held_out.add(rows, dots)
        m = self._objective.m(rows.y, dots)
        PG = self._objective.projected_gradient(rows.y, m, own)
        self._rows += len(rows)
        self._losses += self._objective.losses(rows.y, m)
        self._dual += self._objective.dual(rows.y, own)
        self._M_plus, self._M_minus = float(PG.max(initial=self._M_plus)), float(PG.min(initial=self._M_minus))

    def result(self) -> Certificate:
        """The certificate of all rows. Raises RowsMissing if others than all have been added."""
        if self._rows != len(self._alpha):
            raise RowsMissing(f"{self._rows} rows came to be certified, there are {len(self._alpha)}")
        w_w, v_v, difference = self._squared_norms()
        return Certificate(
            primal_objective=w_w / 2 + self._losses,
            dual_objective=self._dual - v_v / 2,
            M_plus=self._M_plus,
            M_minus=self._M_minus,
            w_error=sqrt(difference) / max(sqrt(w_w), 1e-300),
        )

    def _squared_norms(self) -> tuple[float, float, float]:
        """Of w, v and w - v; in pieces, without copies of the whole."""
        total = np.zeros(3)
        for start in range(0, len(self._pairs), _PIECE):
            w, v = np.ascontiguousarray(self._pairs[start : start + _PIECE].T)
            total += w @ w, v @ v, (w - v) @ (w - v)
        w_w, v_v, difference = total.tolist()
        return w_w, v_v, difference
