"""Reference optima of small problems of all five losses, by methods that share nothing with trainer.newton.

Hinge losses and those of regression: an interior point method on the dual, a quadratic program in a box (Mehrotra 1992,
without his corrector). Logistic loss: Newton's method on the primal, which is smooth. Rows are dense.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

MARGIN = ("hinge", "squared_hinge", "logistic")


class Problem(NamedTuple):
    """X (n, d); y (n,) of +1 and -1, or numbers in regression; C (n,) of each row."""

    loss: str
    X: np.ndarray
    y: np.ndarray
    C: np.ndarray
    epsilon: float = 0.1


def primal(problem: Problem, w: np.ndarray) -> float:
    """P(w)."""
    m = problem.X @ w
    m = problem.y * m if problem.loss in MARGIN else m - problem.y
    slack, excess = np.maximum(0.0, 1.0 - m), np.maximum(0.0, np.abs(m) - problem.epsilon)
    each = {
        "hinge": slack, "squared_hinge": slack**2, "logistic": np.logaddexp(0.0, -m),
        "epsilon_insensitive": excess, "squared_epsilon_insensitive": excess**2,
    }  # fmt: skip
    return float(w @ w / 2.0 + problem.C @ each[problem.loss])


def w_of(problem: Problem, alpha: np.ndarray) -> np.ndarray:
    """The weights that belong to alpha (n,)."""
    return problem.X.T @ (alpha * problem.y if problem.loss in MARGIN else alpha)


def dual(problem: Problem, alpha: np.ndarray) -> float:
    """D(alpha), with the w of alpha."""
    w, y = w_of(problem, alpha), problem.y
    rows = problem.C > 0.0
    C, a = problem.C[rows], alpha[rows]
    if problem.loss == "logistic":
        value = float(np.sum(C * (_entropy(a / C) + _entropy(1.0 - a / C))))
    else:
        value = float(a.sum() if problem.loss in MARGIN else y[rows] @ a - problem.epsilon * np.abs(a).sum())
    if problem.loss.startswith("squared"):
        value -= float(np.sum(a * a / (4.0 * C)))
    return value - float(w @ w) / 2.0


def is_in_box(problem: Problem, alpha: np.ndarray) -> bool:
    """Whether alpha (n,) is in its box."""
    U = np.where(problem.C > 0.0, np.inf, 0.0) if problem.loss.startswith("squared") else problem.C
    low = np.zeros_like(U) if problem.loss in MARGIN else -U
    return bool(np.all(alpha >= low) and np.all(alpha <= U))


def bracket(problem: Problem) -> tuple[float, float]:
    """Two bounds of the least P, mostly within 1e-10 of each other."""
    rows = problem.C > 0.0
    inside = problem._replace(X=problem.X[rows], y=problem.y[rows], C=problem.C[rows])
    if not rows.any():
        return 0.0, 0.0
    return _by_newton(inside) if problem.loss == "logistic" else _by_interior_points(inside)


def _entropy(share: np.ndarray) -> np.ndarray:
    return -share * np.log(np.where(share > 0.0, share, 1.0))


def _by_newton(problem: Problem) -> tuple[float, float]:
    A, C = problem.X * problem.y[:, np.newaxis], problem.C
    w = np.zeros(A.shape[1])
    best = primal(problem, w)
    for _ in range(500):
        share = expit(-(A @ w))
        g = w - A.T @ (C * share)
        d = -np.linalg.solve(np.eye(len(w)) + (A.T * (C * share * (1.0 - share))) @ A, g)
        t = 1.0
        while (now := primal(problem, w + t * d)) > best + 1e-4 * t * (g @ d) and t > 1e-12:
            t /= 2.0
        w, before, best = w + t * d, best, min(best, now)
        if before - best <= 1e-13 * best:
            break
    return dual(problem, C * expit(-(A @ w))), best


def _by_interior_points(problem: Problem) -> tuple[float, float]:
    """Minimises b'Qb / 2 - c'b over 0 <= b <= U; regression has two variables a row, of both signs."""
    sign, c = problem.y, np.ones(len(problem.y))
    X, C = problem.X, problem.C
    if problem.loss not in MARGIN:
        sign = np.repeat([1.0, -1.0], len(C))
        X, C = np.vstack([X, X]), np.concatenate([C, C])
        c = sign * np.concatenate([problem.y, problem.y]) - problem.epsilon
    A = X * sign[:, np.newaxis]
    squares = problem.loss.startswith("squared")
    D = 1.0 / (2.0 * C) if squares else np.zeros(len(C))
    # A squared loss has no bound: one so far away that no optimum reaches it.
    U = np.full(len(C), 10.0 * float(np.max(2.0 * C * np.abs(c).max() + 1.0))) if squares else C
    b = np.minimum(U, C) / 2.0
    low = high = np.full(len(b), max(1.0, float(np.abs(A @ (A.T @ b) + D * b - c).max())))
    lower, upper, room = 0.0, np.inf, U - b
    for _ in range(100):
        w = A.T @ b
        upper = min(upper, primal(problem, w))
        lower = max(lower, dual(problem, _inside(problem, np.minimum(b, U))))
        mu = float(b @ low + room @ high) / (2.0 * len(b))
        if upper - lower <= 1e-11 * upper or mu <= 1e-16 * upper / len(b):
            break
        target = 0.1 * mu
        g = A @ w + D * b - c
        scale = 1.0 / np.sqrt((A * A).sum(axis=1) + D + low / b + high / room)
        H = (A * scale[:, np.newaxis]) @ (A * scale[:, np.newaxis]).T + np.diag(
            (D + low / b + high / room) * scale**2 + 1e-14
        )
        step = -scale * np.linalg.solve(H, scale * (g - target / b + target / room))
        dlow, dhigh = target / b - low - low * step / b, target / room - high + high * step / room
        shares = ((b, step), (room, -step), (low, dlow), (high, dhigh))
        t = min(1.0, *(0.99 * _room(values, change) for values, change in shares))
        b, room, low, high = b + t * step, room - t * step, low + t * dlow, high + t * dhigh
    return lower, upper


def _inside(problem: Problem, b: np.ndarray) -> np.ndarray:
    """alpha of these variables."""
    return b if problem.loss in MARGIN else b[: len(b) // 2] - b[len(b) // 2 :]


def _room(values: np.ndarray, change: np.ndarray) -> float:
    falls = change < 0.0
    return float(np.min(-values[falls] / change[falls], initial=np.inf))
