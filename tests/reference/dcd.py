"""Reference solver: dual coordinate descent on data in memory, run until the duality gap says that it has converged.

Problem (sum form, no bias; add a constant column to have one), with xi_i = max(0, 1 - y_i <w, x_i>):

    hinge          P(w) = 1/2 |w|^2 + C sum xi_i       D(a) = sum a_i - 1/2 |w|^2                     0 <= a_i <= C
    squared hinge  P(w) = 1/2 |w|^2 + C sum xi_i^2     D(a) = sum a_i - 1/2 |w|^2 - sum a_i^2 / (4C)  0 <= a_i

where w = sum a_i y_i x_i. A loss is two numbers (U, D): the upper bound and what is added to Q_ii. Hsieh et al., A dual
coordinate descent method for large-scale linear SVM (ICML 2008), algorithm 3: shrinking with the bounds M_plus and
M_minus of the projected gradient in the sweep before, and a restart on all rows when the active ones have converged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse

LOSSES = ("hinge", "squared_hinge")


@dataclass(frozen=True)
class Solution:
    """What a reference solver found; ``primal``, ``dual`` and ``gap`` are computed from ``alpha`` alone."""

    alpha: np.ndarray  # (n_rows,)
    w: np.ndarray  # (n_features,), sum of alpha_i y_i x_i
    primal: float
    dual: float
    gap: float  # (primal - dual) / primal
    n_free: int  # rows with 0 < alpha < U
    n_bound: int  # rows at the upper bound
    sweeps: int


def box(loss: str, C: float) -> tuple[float, float]:
    """(U, D) of a loss."""
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}, must be one of {LOSSES}")
    return (C, 0.0) if loss == "hinge" else (np.inf, 0.5 / C)


def primal_objective(X: sparse.csr_matrix, y: np.ndarray, w: np.ndarray, C: float, loss: str = "hinge") -> float:
    """P(w); ``X`` (n_rows, n_features), ``y`` (n_rows,) of +1 and -1."""
    xi = np.maximum(0.0, 1.0 - y * (X @ w))
    return float(0.5 * w @ w + C * np.sum(xi if loss == "hinge" else xi * xi))


def dual_objective(alpha: np.ndarray, w: np.ndarray, C: float, loss: str = "hinge") -> float:
    """D(alpha), ``w`` being the weights of that alpha."""
    _, D = box(loss, C)
    return float(alpha.sum() - 0.5 * w @ w - 0.5 * D * (alpha @ alpha))


def certify(X: sparse.csr_matrix, y: np.ndarray, alpha: np.ndarray, C: float, loss: str, sweeps: int = 0) -> Solution:
    """The certificate of a feasible ``alpha``, from scratch: w, both objectives, the gap, the count of free rows."""
    U, _ = box(loss, C)
    if alpha.min() < 0.0 or alpha.max() > U:
        raise ValueError("alpha is outside its box")
    w = X.T @ (alpha * y)
    primal, dual = primal_objective(X, y, w, C, loss), dual_objective(alpha, w, C, loss)
    n_bound = int(np.sum(alpha == U))
    return Solution(alpha, w, primal, dual, (primal - dual) / primal, int(np.sum(alpha > 0)) - n_bound, n_bound, sweeps)


@njit(cache=True)
def sweep(indptr, indices, data, y, Qii, U, D, alpha, w, order, M_plus, M_minus):
    """Visit the rows in ``order`` once, changing ``alpha`` and ``w``; rows to keep come first in ``order`` afterwards.

    Returns (number of rows kept, M_plus, M_minus), the bounds being the largest and smallest projected gradient met.
    """
    kept = 0
    next_plus, next_minus = -np.inf, np.inf
    for s in range(order.shape[0]):
        i = order[s]
        margin = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            margin += w[indices[k]] * data[k]
        G = y[i] * margin - 1.0 + D * alpha[i]
        PG = G
        if alpha[i] == 0.0:
            if M_plus < G:
                continue
            PG = min(G, 0.0)
        elif alpha[i] == U:
            if M_minus > G:
                continue
            PG = max(G, 0.0)
        order[kept] = i
        kept += 1
        next_plus, next_minus = max(next_plus, PG), min(next_minus, PG)
        if abs(PG) > 1e-14:
            new = min(max(alpha[i] - G / (Qii[i] + D), 0.0), U)
            step = (new - alpha[i]) * y[i]
            alpha[i] = new
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k]] += step * data[k]
    return kept, next_plus, next_minus


def dcd(
    X: sparse.csr_matrix,
    y: np.ndarray,
    C: float,
    loss: str = "hinge",
    tol: float = 1e-8,
    max_sweeps: int = 1_000_000,
    seed: int = 0,
    alpha: np.ndarray | None = None,
) -> Solution:
    """Solve to a relative duality gap (P - D) / P of at most ``tol``, or stop after ``max_sweeps`` (check ``gap``).

    ``X`` (n_rows, n_features) CSR, ``y`` (n_rows,) of +1 and -1; ``alpha`` (n_rows,) is where to start, zero if left
    out, and is not changed. Sweeps over shrunk rows count as one each.
    """
    y = np.asarray(y, float)
    U, D = box(loss, C)
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    alpha = np.zeros(X.shape[0]) if alpha is None else alpha.copy()
    if D == 0.0:
        alpha[Qii == 0.0] = U  # an empty row has loss 1 whatever w is
    rows = np.flatnonzero(Qii + D > 0.0)
    data = X.indptr, X.indices, X.data.astype(float, copy=False), y, Qii, U, D, alpha
    rng = np.random.default_rng(seed)
    solution = certify(X, y, alpha, C, loss)
    eps = 0.1
    while solution.gap > tol and solution.sweeps < max_sweeps:
        budget = min(max_sweeps - solution.sweeps, 2000)
        sweeps = _until_violation(data, rows, solution.w, eps, budget, rng)
        solution = certify(X, y, alpha, C, loss, solution.sweeps + sweeps)
        eps = max(eps / 3.0, 1e-13)
    return solution


def _until_violation(data, rows, w, eps, max_sweeps, rng) -> int:
    """Sweep, shrinking, until the active rows' projected gradients lie within ``eps``; returns the sweeps done."""
    order, M_plus, M_minus = rows.copy(), np.inf, -np.inf
    for done in range(1, max_sweeps + 1):
        rng.shuffle(order)
        kept, M_plus, M_minus = sweep(*data, w, order, M_plus, M_minus)
        if kept == 0 or M_plus - M_minus <= eps:
            return done
        order = order[:kept]
        M_plus = M_plus if M_plus > 0.0 else np.inf
        M_minus = M_minus if M_minus < 0.0 else -np.inf
    return max_sweeps


def naive_dcd(X, y: np.ndarray, C: float, loss: str = "hinge", sweeps: int = 2000, seed: int = 0) -> Solution:
    """The same without shrinking, CSR or compiled code, for problems of a few dozen rows; ``X`` sparse or dense."""
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X, float)
    U, D = box(loss, C)
    H = (dense * dense).sum(axis=1) + D
    alpha, w = np.where(H > 0.0, 0.0, U), np.zeros(dense.shape[1])
    rng = np.random.default_rng(seed)
    for _ in range(sweeps):
        for i in rng.permutation(np.flatnonzero(H > 0.0)):
            G = y[i] * (dense[i] @ w) - 1.0 + D * alpha[i]
            new = min(max(alpha[i] - G / H[i], 0.0), U)
            w += (new - alpha[i]) * y[i] * dense[i]
            alpha[i] = new
    return certify(sparse.csr_matrix(dense), y, alpha, C, loss, sweeps)
