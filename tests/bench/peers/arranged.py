"""Rows and features in the order in which StreamSVM has them on disk, for peers that take what order they are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tests.bench.prepared import Prepared


@dataclass(frozen=True)
class Arranged:
    """
    X       (n_rows, n_features) float32, rows at random, features numbered by how frequent they are
    y       (n_rows,) float64
    places  (n_features,) feature f of the data is places[f] in X
    """

    X: sparse.csr_matrix
    y: np.ndarray
    places: np.ndarray

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Weights (n_features,) of X as weights of the data, float64."""
        return np.asarray(w, float).ravel()[self.places]


def arrange(data: Prepared, seed: int = 0) -> Arranged:
    """All of the data in memory, arranged."""
    X, y = data.load()
    by_frequency = np.argsort(-np.bincount(X.indices, minlength=data.n_features), kind="stable")
    places = np.empty(data.n_features, np.int32)
    places[by_frequency] = np.arange(data.n_features, dtype=np.int32)
    rows = np.random.default_rng(seed).permutation(data.n_rows)
    X = sparse.csr_matrix((X.data, places[X.indices], X.indptr), X.shape)[rows]
    X.sort_indices()
    return Arranged(X, y[rows], places)
