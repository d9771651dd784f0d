"""Rows that no plane tells apart: dense, uniform, labelled by a sum of bumps, some labels turned over."""

from __future__ import annotations

import numpy as np
from scipy import sparse

FEATURES = 18  # as SUSY has
FLIPPED = 0.1  # of the labels: nobody is right more often than in 90% of the rows
_BUMPS = 200
_WIDTH = 1.0  # gamma of a bump
_STEPS = 1000  # values are multiples of 1 / _STEPS: their text is short
_PIECE = 1 << 14


def bumps(n_rows: int, seed: int = 0, features: int = FEATURES) -> tuple[sparse.csr_matrix, np.ndarray]:
    """(X (n_rows, features) CSR of values in (0, 1], y (n_rows,) of +1 and -1); other seeds, the same bumps."""
    centres, signs = _landscape(features)
    rng = np.random.default_rng((1, seed))
    X = rng.integers(1, _STEPS + 1, (n_rows, features)) / _STEPS
    level = np.median(_height(np.random.default_rng(0).random((4096, features)), centres, signs))
    y = np.concatenate([_height(X[k : k + _PIECE], centres, signs) for k in range(0, n_rows, _PIECE)])
    y = np.where(y > level, 1.0, -1.0)
    return sparse.csr_matrix(X), np.where(rng.random(n_rows) < FLIPPED, -y, y)


def _landscape(features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.random((_BUMPS, features)), np.where(rng.random(_BUMPS) < 0.5, -1.0, 1.0)


def _height(X: np.ndarray, centres: np.ndarray, signs: np.ndarray) -> np.ndarray:
    squares = (X * X).sum(axis=1)[:, None] + (centres * centres).sum(axis=1) - 2.0 * X @ centres.T
    return np.exp(-_WIDTH * squares) @ signs
