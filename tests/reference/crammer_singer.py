"""The machine of Crammer and Singer, spelled out: objectives, and one row's best step by bisection."""

from __future__ import annotations

import numpy as np


def bounds_of(own: int, C: float, n_classes: int) -> np.ndarray:
    """C_im, (n_classes,)."""
    return np.where(np.arange(n_classes) == own, C, 0.0)


def gradient(W: np.ndarray, x: np.ndarray, own: int) -> np.ndarray:
    """G_m = <w_m, x> + e_m, (n_classes,), of W (n_features, n_classes)."""
    return x @ W + (np.arange(W.shape[1]) != own)


def best_row(G: np.ndarray, A: float, alpha: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The alpha that minimises sum_m [A (alpha_m - old)^2 / 2 + G_m (alpha_m - old)] below its bounds, of sum 0.

    alpha_m = min(bound_m, old + (beta - G_m) / A), with beta found by bisection; A > 0.
    """
    low, high = G.min() - A * (bounds.max() + np.abs(alpha).max()), G.max() + A * (bounds.max() + np.abs(alpha).max())
    for _ in range(200):
        beta = (low + high) / 2
        found = np.minimum(bounds, alpha + (beta - G) / A)
        low, high = (beta, high) if found.sum() < 0 else (low, beta)
    return found


def primal(W: np.ndarray, X: np.ndarray, own: np.ndarray, C: np.ndarray) -> float:
    """P at W (n_features, n_classes); X (n, n_features) dense or sparse, own (n,) places of classes, C (n,) of rows."""
    Z = np.asarray(X @ W)
    each = np.arange(len(own))
    e = np.ones_like(Z)
    e[each, own] = 0
    return 0.5 * float(np.sum(W * W)) + float(C @ ((Z + e).max(axis=1) - Z[each, own]))


def dual(alpha: np.ndarray, X: np.ndarray, own: np.ndarray) -> tuple[float, np.ndarray]:
    """(D, the W of alpha) at alpha (n, n_classes) inside its bounds."""
    W = X.T @ alpha
    e = np.ones_like(alpha)
    e[np.arange(len(own)), own] = 0
    return -float(np.sum(e * alpha)) - 0.5 * float(np.sum(W * W)), W
