"""Probabilities of logistic models, held against scikit-learn's LogisticRegression on its own data."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from streamsvm import StreamSVC

SETS = {"iris": load_iris, "breast_cancer": load_breast_cancer, "digits": load_digits}


@pytest.fixture(scope="module", params=SETS)
def problem(request):
    """X, scaled and rounded to float32 as blocks hold it, and y."""
    X, y = SETS[request.param](return_X_y=True)
    return StandardScaler().fit_transform(X).astype(np.float32).astype(float), y


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_probabilities_are_those_of_logistic_regression(problem, C):
    """Both fit one class against the rest, and both penalise the weight of a constant feature."""
    X, y = problem
    mine = StreamSVC(C, loss="logistic", relative_gap=1e-9).fit(X, y).predict_proba(X)
    model = LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-8)
    with_constant = np.column_stack([X, np.ones(len(X))])
    theirs = OneVsRestClassifier(model).fit(with_constant, y).predict_proba(with_constant)
    assert np.abs(mine - theirs).max() < 1e-4
