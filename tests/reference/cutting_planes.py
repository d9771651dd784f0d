"""CPA and OCAS in plain numpy, slow and clear: all rows in memory, the reduced problem left to scipy.

F(w) = 1/2 |w|^2 + C sum_i max(0, 1 - y_i <w, x_i>). Franc, Sonnenburg, "Optimized cutting plane algorithm for support
vector machines" (ICML 2008); reduced problem in the form with cut 0 = 0, so that the weights of the cuts add up to 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize


def reduced_problem(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """u (m,) that minimises 1/2 |A'u|^2 - b'u over the simplex; A (m, d) has a row for each cut, b (m,)."""
    H = A @ A.T
    scale = max(1.0, float(np.abs(H).max()))
    found = minimize(
        lambda u: (u @ H @ u / 2 - b @ u) / scale,
        np.full(len(b), 1 / len(b)),
        jac=lambda u: (H @ u - b) / scale,
        bounds=[(0, 1)] * len(b),
        constraints={"type": "eq", "fun": lambda u: u.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return np.clip(found.x, 0, None) / np.clip(found.x, 0, None).sum()


def line_search(c: np.ndarray, B: np.ndarray, inner: float, square: float) -> float:
    """Least k >= 0 of f(k) = inner k + square k^2 / 2 + sum max(0, c + k B), by walking over all breakpoints."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.where(B != 0, -c / B, np.nan)
    slope = inner + sum(b for b, k in zip(B, place, strict=True) if (b < 0 and k > 0) or (b > 0 and k <= 0))
    if slope >= 0:
        return 0.0
    at = 0.0
    for i in np.argsort(place):
        if not place[i] > 0:
            continue
        before = slope + square * (place[i] - at)
        if before >= 0:
            break
        slope, at = before + abs(B[i]), place[i]
        if slope >= 0:
            return float(at)
    return float(at - slope / square)


def cpa(X: np.ndarray, y: np.ndarray, C: float, iterations: int) -> Iterator[tuple[float, float]]:
    """(least objective so far, lower bound) after each iteration; X (n, d) dense."""
    w, best, A, b = np.zeros(X.shape[1]), np.inf, [np.zeros(X.shape[1])], [0.0]
    for _ in range(iterations):
        out = y * (X @ w)
        best = min(best, float(w @ w / 2 + C * np.maximum(0, 1 - out).sum()))
        w, lower = _add_cut(X, y, C, out <= 1, A, b)
        yield best, lower


def ocas(X: np.ndarray, y: np.ndarray, C: float, iterations: int, mu: float = 0.1) -> Iterator[tuple[float, float]]:
    """As `cpa`, for the best w of the line searches."""
    w_b, A, b = np.zeros(X.shape[1]), [np.zeros(X.shape[1])], [0.0]
    inside = np.ones(len(y), bool)
    for _ in range(iterations):
        w_t, lower = _add_cut(X, y, C, inside, A, b)
        d = w_t - w_b
        # The change along d from d itself: as a difference of two outputs it would be noise near the optimum.
        out_b, change = y * (X @ w_b), y * (X @ d)
        k = line_search(C * (1 - out_b), -C * change, float(w_b @ d), float(d @ d))
        inside = out_b + (k + mu * (1 - k)) * change <= 1
        w_b = w_b + k * d
        yield float(w_b @ w_b / 2 + C * np.maximum(0, 1 - y * (X @ w_b)).sum()), lower


def _add_cut(X, y, C, inside, A, b) -> tuple[np.ndarray, float]:
    """w_t and the lower bound of the reduced problem with the cut of the rows `inside` added."""
    A.append(C * (X[inside].T @ y[inside]))
    b.append(C * int(inside.sum()))
    planes, offsets = np.array(A), np.array(b)
    u = reduced_problem(planes, offsets)
    w = planes.T @ u
    return w, float(offsets @ u - w @ w / 2)
