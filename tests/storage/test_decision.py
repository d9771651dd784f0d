"""Compares decision values with scipy's products, and tests the classes that they predict."""

import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.models.decision import decision_values, predicted_classes
from streamsvm.storage.rows.csr import Rows


def random_rows(n_rows: int, width: int) -> tuple[Rows, sparse.csr_matrix]:
    X = sparse.random(n_rows, width, 0.3, "csr", np.float32, random_state=0)
    X.sort_indices()
    return Rows(np.zeros(n_rows), X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data), X


@pytest.mark.parametrize("n_classes", [None, 1, 3, 7])
@pytest.mark.parametrize("n_weights", [20, 12], ids=["all features", "some"])
def test_decision_values_are_products_plus_an_intercept(n_classes, n_weights):
    rows, X = random_rows(50, 20)
    rng = np.random.default_rng(1)
    w = rng.standard_normal(n_weights if n_classes is None else (n_classes, n_weights))
    intercept = 0.5 if n_classes is None else rng.standard_normal(n_classes)
    values = decision_values(rows, w, intercept)
    np.testing.assert_allclose(values, X[:, :n_weights].astype(float) @ w.T + intercept, rtol=1e-12, atol=1e-12)
    assert values.flags.c_contiguous


def test_no_rows_have_no_values():
    rows, _ = random_rows(0, 5)
    assert decision_values(rows, np.ones((3, 5)), np.zeros(3)).shape == (0, 3)
    assert predicted_classes(np.empty((0, 3))).shape == (0,)


def test_0_predicts_the_second_class_and_of_equal_values_the_first_wins():
    assert predicted_classes(np.array([-1.0, 0.0, -0.0, 5e-324, np.inf, np.nan])).tolist() == [1, 1, 1, 0, 0, 1]
    assert predicted_classes(np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0], [-3.0, -2.0, -1.0]])).tolist() == [1, 0, 2]
