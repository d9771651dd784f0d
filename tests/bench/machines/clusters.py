"""Rows of a given number of non-zeros, in clusters, each of one class but for labels turned over."""

from __future__ import annotations

import numpy as np
from scipy import sparse

WIDTH = 784
NON_ZEROS = 100
GAMMA = 2.0**-5  # k is 0.4 within a cluster, 0.1 between two
_CLUSTERS = 100
_FEATURES = 130  # of a cluster, of which a row has NON_ZEROS
_FLIPPED = 0.05


def clusters(n_rows: int, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    """(X (n_rows, WIDTH) CSR float32, y (n_rows,) of +1 and -1); other seeds, the same clusters."""
    landscape, rng = np.random.default_rng(7), np.random.default_rng((2, seed))
    features = np.array([landscape.choice(WIDTH, _FEATURES, replace=False) for _ in range(_CLUSTERS)])
    member = rng.integers(_CLUSTERS, size=n_rows)
    kept = np.argpartition(rng.random((n_rows, _FEATURES), np.float32), NON_ZEROS, axis=1)[:, :NON_ZEROS]
    indices = np.sort(np.take_along_axis(features[member], kept, axis=1), axis=1).astype(np.int32)
    values = rng.uniform(0.3, 1.0, indices.shape).round(3).astype(np.float32)
    indptr = np.arange(n_rows + 1) * NON_ZEROS
    y = np.where(member % 2 == 0, 1.0, -1.0)
    X = sparse.csr_matrix((values.ravel(), indices.ravel(), indptr), (n_rows, WIDTH))
    return X, np.where(rng.random(n_rows) < _FLIPPED, -y, y)
