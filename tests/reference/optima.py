"""Primal optima of the real data sets: hinge loss, sum form, no bias; keys are (name of load_binary, C).

Each is the primal objective at a point whose relative duality gap, computed from scratch by ``dcd.certify``, is in
GAPS beside it: the optimum is lower by at most that share. ``python -m tests.reference.optima`` computes them again, by
dual coordinate descent, or by an interior point method where that is slow and features are few.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import linalg, sparse

from tests.reference.data import load_binary
from tests.reference.dcd import Solution, certify, dcd

NAMES = ("a9a", "mushrooms", "imdb.train", "mnist8")
FEW_FEATURES = 1000

OPTIMA: dict[tuple[str, float], float] = {}
GAPS: dict[tuple[str, float], float] = {}


def interior_point(X: sparse.csr_matrix, y: np.ndarray, C: float, tol: float = 1e-9, max_steps: int = 100) -> Solution:
    """Hinge loss by a primal-dual interior point method, for at most a thousand features or so.

    Ferris and Munson, Interior-point methods for massive support vector machines (SIAM J. Optim. 2002): the Newton
    system (diag + B B^T) d_alpha = r, B = diag(y) X, shrinks to one of n_features by the Woodbury identity. Predictor
    and corrector as in Mehrotra. Ends at relative gap ``tol`` or when steps no longer help; the best point is returned.
    """
    B = sparse.diags(y) @ X
    dense = B.toarray() if X.nnz > 0.05 * np.prod(X.shape) else B
    alpha = np.full(X.shape[0], 0.5 * C)
    G = B @ (B.T @ alpha) - 1.0
    scale = 1.0 + np.abs(G).mean()
    lower, upper = np.maximum(G, 0.0) + scale, np.maximum(-G, 0.0) + scale  # multipliers of alpha >= 0, alpha <= C
    best = certify(X, y, _snapped(alpha, lower, upper, C), C, "hinge")
    for step in range(1, max_steps + 1):
        G = B @ (B.T @ alpha) - 1.0
        room = C - alpha
        mu = (alpha @ lower + room @ upper) / (2 * alpha.size)
        theta = lower / alpha + upper / room
        weighted = dense.multiply(1.0 / theta[:, None]).tocsr() if sparse.issparse(dense) else dense / theta[:, None]
        normal = dense.T @ weighted
        normal = normal.toarray() if sparse.issparse(normal) else normal
        try:
            factor = linalg.cho_factor(normal + np.eye(X.shape[1]))
        except linalg.LinAlgError:  # theta spans too many decades: this is as far as rounding lets it come
            break

        def newton(low_target, high_target, residual=G, room=room, theta=theta, factor=factor):
            """Directions of (alpha, lower, upper) that bring both complementarity products to their targets."""
            r = -residual + low_target / alpha - high_target / room
            inner = linalg.cho_solve(factor, B.T @ (r / theta))
            d = (r - B @ inner) / theta
            return d, (low_target - lower * d) / alpha - lower, (high_target + upper * d) / room - upper

        d, d_lower, d_upper = newton(0.0, 0.0)
        t = _longest_step(alpha, d, room, lower, d_lower, upper, d_upper)
        ahead = (alpha + t * d) @ (lower + t * d_lower) + (room - t * d) @ (upper + t * d_upper)
        target = mu * (ahead / (2 * alpha.size * mu)) ** 3
        d, d_lower, d_upper = newton(target - d * d_lower, target + d * d_upper)
        t = min(1.0, 0.995 * _longest_step(alpha, d, room, lower, d_lower, upper, d_upper))
        alpha, lower, upper = alpha + t * d, lower + t * d_lower, upper + t * d_upper
        point = certify(X, y, _snapped(alpha, lower, upper, C), C, "hinge", step)
        best = min(best, point, key=lambda solution: solution.gap)
        if best.gap <= tol or t < 1e-8 or mu < 1e-15 * C:
            break
    return best


def _longest_step(alpha, d, room, lower, d_lower, upper, d_upper) -> float:
    """The largest t <= 1 that keeps all four positive."""
    pairs = ((alpha, d), (room, -d), (lower, d_lower), (upper, d_upper))
    return min([1.0] + [float(np.min(-v[dv < 0] / dv[dv < 0])) for v, dv in pairs if np.any(dv < 0)])


def _snapped(alpha: np.ndarray, lower: np.ndarray, upper: np.ndarray, C: float) -> np.ndarray:
    """``alpha`` with the rows put on the bound whose multiplier outweighs their distance from it."""
    tiny = 1e-6 * C
    snapped = np.where((alpha < tiny) & (alpha / C < lower), 0.0, np.clip(alpha, 0.0, C))
    return np.where((C - alpha < tiny) & ((C - alpha) / C < upper), C, snapped)


def reference(X: sparse.csr_matrix, y: np.ndarray, C: float, tol: float = 1e-8) -> Solution:
    """The most exact solution of the hinge problem that is to be had in minutes; look at its ``gap``."""
    if X.shape[1] > FEW_FEATURES:
        return dcd(X, y, C, tol=tol, max_sweeps=20_000)
    solution = dcd(X, y, C, tol=tol, max_sweeps=2000)
    if solution.gap <= tol:
        return solution
    return min(solution, interior_point(X, y, C, tol), key=lambda found: found.gap)


def main() -> None:
    for name in NAMES:
        X, y = load_binary(name)
        for C in (0.01, 1.0, 100.0):
            start = time.perf_counter()
            found = reference(X, y, C)
            seconds = time.perf_counter() - start
            print(
                f'("{name}", {C:g}): {found.primal:.12g},  # gap {found.gap:.1e}, {found.n_free} free, '
                f"{found.n_bound} at C, {seconds:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
