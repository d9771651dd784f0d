"""Kernel machines for tests: Model objects of random support vectors, and numpy's own decision values of them."""

from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import Array, Rows

PAIRS = ((-1.5, 0.25), (-0.5, -1e-3), (-2.0, 1 / 3))


def random_matrix(n_rows: int, n_features: int, density: float = 0.3, seed: int = 0) -> sparse.csr_matrix:
    """Of float32, features ascending."""
    X = sparse.random(n_rows, n_features, density, "csr", np.float32, random_state=seed)
    X.data[:] = np.random.default_rng(seed).standard_normal(len(X.data))
    X.sort_indices()
    return X


def machine_of(Z: sparse.csr_matrix, w: Array, labels: Any = (1.0, -1.0), base: int = 1, **changes: Any) -> Model:
    """Of the support vectors Z (n_vectors, n_features)."""
    gamma = changes.pop("gamma", 0.3)
    indptr, indices = Z.indptr.astype(np.int64), (Z.indices + base).astype(np.int32)
    vectors = SupportVectors(gamma, Z.shape[1] + base, indptr, indices, Z.data.astype(np.float32))
    fields = {"about": {"loss": "hinge", "C": 0.5, "spec": {"kernel": "rbf"}}, **changes}
    return Model(np.asarray(w, np.float64), labels, base, vectors=vectors, **fields)


def random_machine(
    n_vectors: int = 19, n_features: int = 12, labels: Any = (3.0, -2.0), base: int = 1, **changes: Any
) -> Model:
    """Of two classes, of several, or, without labels, of regression."""
    shape = (len(labels), n_vectors) if len(labels) > 2 else n_vectors
    w = np.random.default_rng(n_vectors).standard_normal(shape)
    return machine_of(random_matrix(n_vectors, n_features, seed=1), w, labels, base, **changes)


def vectors_of(model: Model) -> Array:
    """The support vectors, (n_vectors, n_features) float64."""
    vectors = model.vectors
    assert vectors is not None
    parts = vectors.values.astype(float), vectors.indices - model.index_base, vectors.indptr
    return sparse.csr_matrix(parts, (len(vectors), model.n_features)).toarray()


def kernel(X: Array, Z: Array, gamma: float) -> Array:
    """k(x_i, z_s), difference by difference."""
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def numpys_values(model: Model, X: Any) -> Array:
    """Decision values of X (n_rows, at least n_features), dense or sparse; of columns beyond, vectors have none."""
    X = np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64)
    Z = np.pad(vectors_of(model), ((0, 0), (0, X.shape[1] - model.n_features)))
    assert model.vectors is not None
    return kernel(X, Z, model.vectors.gamma) @ model.w.T + model.intercept


def rows_of(X: sparse.csr_matrix, base: int = 1) -> Rows:
    """X as rows of the input."""
    return Rows(np.zeros(X.shape[0]), X.indptr.astype(np.int64), (X.indices + base).astype(np.int32), X.data)
