"""The certificate pass: once over all blocks at the final w, for the exact objectives."""

from dataclasses import dataclass

import numpy as np

from reader.objective import Objective, margins
from reader.stream import Examples
from storage.csr import Array, add_rows


@dataclass(frozen=True)
class Certificate:
    """P(w), D(alpha) and the largest and smallest projected gradient, all at the final w and alpha.

    w_error is |w - v| / |w| with v = sum_i alpha_i y_i x_i; D uses v, so P - D is a bound whatever w has gathered.
    """

    primal_objective: float
    dual_objective: float
    M_plus: float
    M_minus: float
    w_error: float


def certify(examples: Examples, objective: Objective, w: Array, alpha: Array) -> Certificate:
    """Compute the certificate of w (width,) and alpha (n_rows,)."""
    v = np.zeros_like(w)
    losses = curvature = 0.0
    M_plus, M_minus = -np.inf, np.inf
    for streamed in examples.stream(seed=0, pass_=0):
        rows = streamed.rows
        own = alpha[rows.row_id]
        m = margins(rows, w)
        PG = objective.projected_gradient(rows.y, m, own)
        losses += objective.losses(rows.y, m)
        curvature += objective.dual_curvature(rows.y, own)
        M_plus, M_minus = max(M_plus, float(PG.max())), min(M_minus, float(PG.min()))
        add_rows(own * rows.y, rows.indptr, rows.indices, rows.values, v)
    return Certificate(
        primal_objective=float(w @ w) / 2 + losses,
        dual_objective=float(alpha.sum() - v @ v / 2 - curvature),
        M_plus=float(M_plus),
        M_minus=float(M_minus),
        w_error=float(np.linalg.norm(w - v) / max(float(np.linalg.norm(w)), 1e-300)),
    )
