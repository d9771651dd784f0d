"""Kernel values of sparse rows, and the support vectors they are made with, against scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from storage.csr import Rows
from storage.gaussian_kernel import gaussian
from storage.support_vectors import Machine, SupportVectors, joined, packed, published_machine, unpacked
from tests.contracts.problems import random_problem

GAMMA = 0.7


def rows_of(X) -> Rows:
    return Rows(np.zeros(X.shape[0]), X.indptr.astype(np.int64), X.indices, X.data)


def vectors_of(X, gamma=GAMMA) -> SupportVectors:
    return SupportVectors(gamma, X.shape[1], X.indptr.astype(np.int64), X.indices, X.data)


@pytest.fixture(scope="module")
def X():
    return random_problem(400, row_length=9)[0].sorted_indices()


@pytest.mark.parametrize("n_vectors", [0, 1, 15, 16, 37, 300])
def test_values_are_those_of_scikit_learn(X, n_vectors):
    Z = X[:n_vectors]
    values = vectors_of(Z).against(X.shape[1]).values(rows_of(X))
    assert values.shape == (400, n_vectors)
    if n_vectors:
        assert values == pytest.approx(rbf_kernel(X, Z, GAMMA), abs=3e-7)


def test_the_exponential_has_all_its_digits():
    distances = np.concatenate([np.linspace(0, 700, 10_001), [800.0, 1e30]])
    out, room = np.empty(len(distances)), np.empty(len(distances))
    gaussian(np.zeros(len(distances), np.float32), distances, 0.0, 1.0, room, out)
    assert out == pytest.approx(np.exp(-np.minimum(distances, 700.0)), rel=1e-13, abs=0.0)


def test_rows_further_than_float32_can_say_are_near():
    """|x|^2 + |z|^2 - 2 <x, z> of equal rows may come out below 0: it is 0."""
    X = sparse.csr_matrix(np.full((1, 7), 0.1, np.float32))
    assert vectors_of(X, 1e3).against(7).values(rows_of(X))[0, 0] <= 1.0


def test_features_that_no_vector_has_count_in_the_distance(X):
    """Also those beyond the width: they are passed over in products alone."""
    narrow = vectors_of(X[:20, :100]).against(100)
    wide = vectors_of(sparse.csr_matrix((X[:20].data, X[:20].indices, X[:20].indptr), X[:20].shape)[:, :100])
    assert narrow.values(rows_of(X)) == pytest.approx(
        rbf_kernel(X[:, :100], X[:20, :100], GAMMA) * _beyond(X), abs=3e-7
    )
    assert len(wide) == 20


def _beyond(X):
    return np.exp(-GAMMA * np.asarray(X[:, 100:].multiply(X[:, 100:]).sum(axis=1)))


def test_decision_values_of_several_classes(X):
    vectors, beta = vectors_of(X[:50]), np.random.default_rng(0).standard_normal((3, 50))
    columns = vectors.against(X.shape[1])
    found = columns.decision_values(rows_of(X), beta)
    assert found == pytest.approx(columns.values(rows_of(X)) @ beta.T, rel=1e-12, abs=1e-14)
    assert columns.decision_values(rows_of(X), beta[0]) == pytest.approx(found[:, 0], rel=1e-12, abs=1e-14)


def test_the_norm_of_a_machine(X):
    vectors, beta = vectors_of(X[:50]), np.random.default_rng(0).standard_normal(50)
    assert vectors.squared_norm(beta) == pytest.approx(beta @ rbf_kernel(X[:50], gamma=GAMMA) @ beta, rel=1e-6)


def test_renumbered_features_are_in_order(X):
    place = np.random.default_rng(0).permutation(X.shape[1])
    found = vectors_of(X[:50]).renumbered(place)
    dense = np.zeros(X[:50].shape, np.float32)
    dense[:, place] = X[:50].toarray()
    again = sparse.csr_matrix((found.values, found.indices, found.indptr), X[:50].shape)
    assert np.array_equal(again.toarray(), dense)
    assert again.has_sorted_indices


def test_files_give_back_what_was_put_in(X, tmp_path):
    vectors = joined([vectors_of(X[:3]), vectors_of(X[3:10])])
    beta = np.arange(10.0)
    Machine(vectors, beta, 3, 0.5).publish(tmp_path)
    published = published_machine(tmp_path)
    for found in (unpacked(packed(vectors)), published.vectors):
        assert (found.gamma, found.width, len(found)) == (GAMMA, X.shape[1], 10)
        for name in ("indptr", "indices", "values"):
            assert np.array_equal(getattr(found, name), getattr(vectors, name))
    assert np.array_equal(published.beta, beta)
    assert (published.merges, published.degradation) == (3, 0.5)
    assert np.array_equal(vectors.indices, X[:10].indices)
