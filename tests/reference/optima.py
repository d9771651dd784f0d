"""Primal optima of the real data sets: hinge loss, sum form, no bias; keys are (name of load_binary, C).

Each is the primal objective at a point whose relative duality gap, computed from scratch by ``dcd.certify``, is in
GAPS beside it: the optimum is lower by at most that share. ``python -m tests.reference.optima`` computes them again, by
dual coordinate descent; where that is slow and features are few, by an interior point method polished with it.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import linalg, sparse

from tests.reference.data import load_binary
from tests.reference.dcd import Solution, certify, dcd

NAMES = ("a9a", "mushrooms", "imdb.train", "mnist8")
FEW_FEATURES = 1000

OPTIMA: dict[tuple[str, float], float] = {
    ("a9a", 0.01): 118.49171192,
    ("a9a", 1.0): 11433.8077896,
    ("a9a", 100.0): 1142271.59333,
    ("mushrooms", 0.01): 4.57319717775,
    ("mushrooms", 1.0): 7.57391065931,
    ("mushrooms", 100.0): 7.57391068026,
    ("imdb.train", 0.01): 235.049111452,
    ("imdb.train", 1.0): 4915.28856893,
    ("imdb.train", 100.0): 5365.24101117,
    ("mnist8", 0.01): 90.0364017946,
    ("mnist8", 1.0): 8178.06136417,
    ("mnist8", 100.0): 809602.238904,
}
GAPS: dict[tuple[str, float], float] = {
    ("a9a", 0.01): 5.2e-09,
    ("a9a", 1.0): 8.1e-09,
    ("a9a", 100.0): 5.1e-09,
    ("mushrooms", 0.01): 1.7e-09,
    ("mushrooms", 1.0): 7.0e-09,
    ("mushrooms", 100.0): 9.8e-09,
    ("imdb.train", 0.01): 1.2e-16,
    ("imdb.train", 1.0): 9.4e-09,
    ("imdb.train", 100.0): 2.4e-09,
    ("mnist8", 0.01): 5.9e-09,
    ("mnist8", 1.0): 1.9e-09,
    ("mnist8", 100.0): 7.1e-09,
}


def interior_point(X: sparse.csr_matrix, y: np.ndarray, C: float, tol: float = 1e-9, max_steps: int = 100) -> Solution:
    """Hinge loss by a primal-dual interior point method, for at most a thousand features or so.

    Ferris and Munson, Interior-point methods for massive support vector machines (SIAM J. Optim. 2002): the Newton
    system (diag + B B^T) d_alpha = r, B = diag(y) X, shrinks to one of n_features by the Woodbury identity. Predictor
    and corrector as in Mehrotra. Ends at relative gap ``tol`` or when steps no longer help; the best point is returned.
    """
    B = sparse.diags(y) @ X
    table = B.toarray() if X.nnz > 0.05 * np.prod(X.shape) else B
    alpha = np.full(X.shape[0], 0.5 * C)
    room = C - alpha  # carried along: close to C the difference would have no digits left
    G = B @ (B.T @ alpha) - 1.0
    scale = 1.0 + np.abs(G).mean()
    lower, upper = np.maximum(G, 0.0) + scale, np.maximum(-G, 0.0) + scale  # multipliers of alpha >= 0, alpha <= C
    best = certify(X, y, _snapped(alpha, room, lower, upper, C), C, "hinge")
    for step in range(1, max_steps + 1):
        gap = alpha @ lower + room @ upper
        system = _newton_system(B, table, alpha, room, lower, upper)
        if system is None or gap < 1e-15 * C * alpha.size:
            break
        d, d_lower, d_upper = system(0.0, 0.0)
        t = _longest_step(alpha, d, room, lower, d_lower, upper, d_upper)
        ahead = (alpha + t * d) @ (lower + t * d_lower) + (room - t * d) @ (upper + t * d_upper)
        target = gap / (2 * alpha.size) * (ahead / gap) ** 3
        d, d_lower, d_upper = system(target - d * d_lower, target + d * d_upper)
        t = 0.995 * _longest_step(alpha, d, room, lower, d_lower, upper, d_upper)
        alpha, room, lower, upper = alpha + t * d, room - t * d, lower + t * d_lower, upper + t * d_upper
        point = certify(X, y, _snapped(alpha, room, lower, upper, C), C, "hinge", step)
        best = min(best, point, key=lambda solution: solution.gap)
        if best.gap <= tol or t < 1e-8:
            break
    return best


def _newton_system(B, table, alpha, room, lower, upper):
    """A function of the targets of both complementarity products that returns the step of (alpha, lower, upper).

    None where theta spans so many decades that rounding leaves no positive definite matrix. ``table`` is B, dense if
    that multiplies faster.
    """
    G = B @ (B.T @ alpha) - 1.0
    theta = lower / alpha + upper / room
    weighted = table.multiply(1.0 / theta[:, None]).tocsr() if sparse.issparse(table) else table / theta[:, None]
    normal = table.T @ weighted
    normal = normal.toarray() if sparse.issparse(normal) else normal
    try:
        factor = linalg.cho_factor(normal + np.eye(B.shape[1]))
    except linalg.LinAlgError:
        return None

    def solve(low_target, high_target):
        r = -G + low_target / alpha - high_target / room
        d = (r - B @ linalg.cho_solve(factor, B.T @ (r / theta))) / theta
        return d, (low_target - lower * d) / alpha - lower, (high_target + upper * d) / room - upper

    return solve


def _longest_step(alpha, d, room, lower, d_lower, upper, d_upper) -> float:
    """The largest t <= 1 that keeps all four positive."""
    pairs = ((alpha, d), (room, -d), (lower, d_lower), (upper, d_upper))
    return min([1.0] + [float(np.min(-v[dv < 0] / dv[dv < 0])) for v, dv in pairs if np.any(dv < 0)])


def _snapped(alpha, room, lower, upper, C: float) -> np.ndarray:
    """``alpha`` with the rows put on the bound whose multiplier outweighs their distance from it."""
    tiny = 1e-6 * C
    snapped = np.where((alpha < tiny) & (alpha / C < lower), 0.0, np.clip(alpha, 0.0, C))
    return np.where((room < tiny) & (room / C < upper), C, snapped)


def reference(X: sparse.csr_matrix, y: np.ndarray, C: float, tol: float = 1e-8) -> Solution:
    """The most exact solution of the hinge problem that is to be had in minutes; look at its ``gap``."""
    if X.shape[1] > FEW_FEATURES:
        return dcd(X, y, C, tol=tol, max_sweeps=20_000)
    solution = dcd(X, y, C, tol=tol, max_sweeps=2000)
    if solution.gap <= tol:
        return solution
    start = interior_point(X, y, C, tol)  # has the right rows on the bounds, even where rounding stops it early
    if start.gap > tol:
        start = dcd(X, y, C, tol=tol, max_sweeps=20_000, alpha=start.alpha)
    return min(solution, start, key=lambda found: found.gap)


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
