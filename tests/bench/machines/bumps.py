"""Rows that no plane tells apart: 18 features of what 4 hidden ones make, labelled by bumps over these."""

from __future__ import annotations

import numpy as np
from scipy import sparse

FEATURES = 18  # as SUSY has
FLIPPED = 0.1  # of the labels: nobody is right more often than in 90% of the rows
_HIDDEN, _BUMPS = 4, 60
_WIDTH = 16.0  # gamma of a bump
_NOISE = 0.02  # of each feature
_STEPS = 1000  # values are multiples of 1 / _STEPS: their text is short
_PIECE = 1 << 14


def bumps(n_rows: int, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    """(X (n_rows, FEATURES) CSR of values in (0, 1], y (n_rows,) of +1 and -1); other seeds, the same bumps."""
    landscape, rng = np.random.default_rng(7), np.random.default_rng((1, seed))
    centres, signs = landscape.random((_BUMPS, _HIDDEN)), np.where(np.arange(_BUMPS) % 2, 1.0, -1.0)
    mixing = landscape.dirichlet(np.full(_HIDDEN, 0.3), FEATURES).T
    hidden = rng.random((n_rows, _HIDDEN))
    X = hidden @ mixing + rng.normal(0.0, _NOISE, (n_rows, FEATURES))
    X = np.clip(np.ceil(X * _STEPS), 1, _STEPS) / _STEPS
    y = np.concatenate([_side(hidden[k : k + _PIECE], centres, signs) for k in range(0, n_rows, _PIECE)])
    return sparse.csr_matrix(X), np.where(rng.random(n_rows) < FLIPPED, -y, y)


def _side(hidden: np.ndarray, centres: np.ndarray, signs: np.ndarray) -> np.ndarray:
    squares = ((hidden[:, None, :] - centres) ** 2).sum(axis=2)
    return np.where(np.exp(-_WIDTH * squares) @ signs > 0.0, 1.0, -1.0)
