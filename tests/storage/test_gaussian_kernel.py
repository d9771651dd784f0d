"""Compares kernel values of sparse rows and support vectors with scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from streamsvm.storage.models.gaussian_kernel import LANES, gaussian, inner_products
from streamsvm.storage.models.support_vectors import (
    KernelState,
    SupportVectors,
    joined,
    packed,
    published_machine,
    unpacked,
)
from tests.contracts.problems import random_problem

GAMMA = 0.7


def vectors_of(X, gamma=GAMMA) -> SupportVectors:
    return SupportVectors(gamma, X.shape[1], X.indptr.astype(np.int64), X.indices, X.data)


@pytest.fixture(scope="module")
def X():
    return random_problem(400, row_length=9)[0].sorted_indices()


def values_of(Z, X, gamma=GAMMA):
    """Kernel values (n_vectors, n_rows) as training computes them: Z transposed and padded to a multiple of LANES."""
    n_slots = -(-max(1, Z.shape[0]) // LANES) * LANES
    columns, norms, room = np.zeros((Z.shape[1], n_slots), np.float32), np.zeros(n_slots), np.empty(n_slots)
    columns[:, : Z.shape[0]] = Z.toarray().T
    norms[: Z.shape[0]] = squares(Z)
    products, actual = np.empty(n_slots, np.float32), np.empty((X.shape[0], n_slots))
    for i, norm in enumerate(squares(X)):
        inner_products(X.indices, X.data, X.indptr[i], X.indptr[i + 1], columns, products)
        gaussian(products, norms, norm, gamma, room, actual[i])
    return actual[:, : Z.shape[0]]


def squares(X):
    return np.asarray(X.astype(float).multiply(X.astype(float)).sum(axis=1)).ravel()


@pytest.mark.parametrize("n_vectors", [1, 15, 16, 37, 300])
def test_values_are_those_of_scikit_learn(X, n_vectors):
    assert values_of(X[:n_vectors], X) == pytest.approx(rbf_kernel(X, X[:n_vectors], GAMMA), abs=3e-7)


def test_the_exponential_is_precise():
    distances = np.concatenate([np.linspace(0, 700, 10_001), [800.0, 1e30]])
    out, room = np.empty(len(distances)), np.empty(len(distances))
    gaussian(np.zeros(len(distances), np.float32), distances, 0.0, 1.0, room, out)
    assert out == pytest.approx(np.exp(-np.minimum(distances, 700.0)), rel=1e-13, abs=0.0)


def test_equal_rows_have_distance_0_however_sums_are_rounded():
    """Rounding can make |x|^2 + |z|^2 - 2 <x, z> negative; the kernel takes 0 then."""
    X = sparse.csr_matrix(np.full((1, 7), 0.1, np.float32))
    assert values_of(X, X, 1e3)[0, 0] <= 1.0


def test_renumbered_features_are_in_order(X):
    place = np.random.default_rng(0).permutation(X.shape[1])
    vectors = vectors_of(X[:50])
    actual = vectors.renumbered(place[vectors.indices], X.shape[1])
    dense = np.zeros(X[:50].shape, np.float32)
    dense[:, place] = X[:50].toarray()
    again = sparse.csr_matrix((actual.values, actual.indices, actual.indptr), X[:50].shape)
    assert np.array_equal(again.toarray(), dense)
    assert again.has_sorted_indices


def test_files_return_the_vectors_that_were_written(X, tmp_path):
    vectors = joined([vectors_of(X[:3]), vectors_of(X[3:10])])
    beta = np.arange(10.0)
    KernelState(vectors, beta, 3, 0.5).publish(tmp_path)
    published = published_machine(tmp_path)
    for actual in (unpacked(packed(vectors)), published.vectors):
        assert (actual.gamma, actual.width, len(actual)) == (GAMMA, X.shape[1], 10)
        for name in ("indptr", "indices", "values"):
            assert np.array_equal(getattr(actual, name), getattr(vectors, name))
    assert np.array_equal(published.beta, beta)
    assert (published.merges, published.degradation) == (3, 0.5)
    assert np.array_equal(vectors.indices, X[:10].indices)
