"""Matrices of a hundred million columns, most of them empty."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import streamsvm

WIDTH = 1 << 27


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(WIDTH, 30, replace=False))[rng.integers(0, 30, (200, 5))]
    parts = rng.standard_normal(1000), (np.repeat(np.arange(200), 5), columns.ravel())
    X = sparse.csr_matrix(parts, (200, WIDTH))
    return X, np.sign(X.sum(axis=1).A1)


def test_coefficients_are_sparse(problem, tmp_path):
    X, y = problem
    model = streamsvm.StreamSVC().fit(X, y)
    assert model.score(X, y) > 0.9
    assert sparse.issparse(model.coef_) and model.coef_.shape == (1, WIDTH) and model.coef_.nnz <= 30
    values = model.decision_function(X)
    assert values == pytest.approx((X @ model.coef_.T).toarray()[:, 0] + model.intercept_)
    assert len(pickle.dumps(model)) < 1 << 16
    model.save(tmp_path / "a.npz")
    assert streamsvm.load(tmp_path / "a.npz").decision_function(X) == pytest.approx(values)
    # What is done to them holds.
    model.coef_ = model.coef_ * 2.0
    assert model.decision_function(X) - model.intercept_ == pytest.approx(2.0 * (values - model.intercept_))


def test_numbers_are_predicted(problem):
    X, _ = problem
    t = X.sum(axis=1).A1
    model = streamsvm.StreamSVR(tolerance=0.1).fit(X, t)
    assert model.score(X, t) > 0.9
    assert model.coef_.shape == (1, WIDTH)
