"""The reference solvers agree with one another, with LIBLINEAR, and with a value known from outside."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from tests.reference import data, liblinear
from tests.reference.dcd import LOSSES, certify, dcd, dual_objective, naive_dcd, primal_objective
from tests.reference.optima import GAPS, OPTIMA, interior_point


@pytest.fixture(scope="module")
def problem():
    """(X (80, 60), y (80,)), one row empty; easy enough for LIBLINEAR to converge within its 300 passes."""
    rng = np.random.default_rng(5)
    X = sparse.random(80, 60, 0.3, "csr", random_state=rng, data_rvs=rng.standard_normal)
    y = np.where(X @ rng.standard_normal(60) + 0.8 * rng.standard_normal(80) > 0, 1.0, -1.0)
    X.data[X.indptr[7] : X.indptr[8]] = 0.0
    X.eliminate_zeros()
    return X, y


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_dcd_agrees_with_liblinear_and_the_naive_version(problem, C, loss):
    X, y = problem
    found = dcd(X, y, C, loss, tol=1e-9)
    assert -1e-14 <= found.gap <= 1e-9
    naive = naive_dcd(X, y, C, loss, sweeps=1000)
    assert found.dual == pytest.approx(naive.dual, rel=1e-6)
    assert found.dual <= naive.primal * (1 + 1e-12)
    real = liblinear.train(X, y, C, eps=1e-8, loss=loss)
    assert found.dual <= real.primal * (1 + 1e-12)
    assert real.primal == pytest.approx(found.primal, rel=1e-6)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_interior_point_agrees_with_dcd(problem, C):
    X, y = problem
    assert interior_point(X, y, C).dual == pytest.approx(dcd(X, y, C).dual, rel=1e-7)


def test_certificate_is_computed_from_alpha_alone(problem):
    X, y = problem
    alpha = np.random.default_rng(0).uniform(0, 2, 80)
    alpha[:5], alpha[5:9] = 0.0, 2.0
    point = certify(X, y, alpha, 2.0, "hinge")
    dense = X.toarray()
    w = sum(alpha[i] * y[i] * dense[i] for i in range(80))
    assert point.w == pytest.approx(w)
    assert point.primal == pytest.approx(0.5 * w @ w + 2.0 * sum(max(0, 1 - y[i] * (dense[i] @ w)) for i in range(80)))
    assert point.dual == pytest.approx(alpha.sum() - 0.5 * w @ w)
    assert (point.n_free, point.n_bound) == (71, 4)
    with pytest.raises(ValueError, match="box"):
        certify(X, y, alpha, 1.0, "hinge")


@pytest.mark.parametrize("loss", LOSSES)
def test_weak_duality(problem, loss):
    X, y = problem
    rng = np.random.default_rng(1)
    for _ in range(50):
        alpha, w = rng.uniform(0, 1, 80), rng.standard_normal(60)
        dual = dual_objective(alpha, X.T @ (alpha * y), 1.0, loss)
        assert primal_objective(X, y, w, 1.0, loss) >= dual


def test_a9a_at_the_known_optimum():
    data.require("a9a")
    X, y = data.load_binary("a9a")
    found = dcd(X, y, 1.0, tol=1e-7)
    assert found.primal == pytest.approx(11433.8077, rel=1e-6)
    assert OPTIMA["a9a", 1.0] == pytest.approx(found.primal, rel=1e-7)


def test_table_of_optima_is_exact_enough():
    assert OPTIMA.keys() == GAPS.keys()
    assert all(0.0 <= gap <= 1e-7 for gap in GAPS.values())


@pytest.mark.parametrize("labels", [(1, -1), (-1, 1), (2, 1)])
@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_liblinear_reads_a_model_file(problem, tmp_path, labels, bias):
    X, y = problem
    w = liblinear.train(X, y, 1.0, bias=bias).w
    lines = ["solver_type L2R_L1LOSS_SVC_DUAL", "nr_class 2", f"label {labels[0]} {labels[1]}", "nr_feature 60"]
    path = tmp_path / "a.model"
    path.write_text("\n".join([*lines, f"bias {bias:g}", "w", *(f"{v:.17g} " for v in w), ""]))
    predicted, values = liblinear.liblinear_predict(path, X, y)
    expected = X @ w[:60] + (bias * w[60] if bias > 0 else 0.0)
    assert values == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(predicted, np.where(expected > 0, *labels))


def test_liblinear_orients_towards_the_larger_label(problem):
    X, y = problem
    w = liblinear.train(X, y, 1.0).w
    assert np.mean(np.sign(X @ w) == y) > 0.7
    order = np.argsort(-y, kind="stable")  # the other label first
    assert liblinear.train(X[order], y[order], 1.0, eps=1e-6).w == pytest.approx(w, abs=0.1)


def test_written_text_reads_back(tmp_path):
    rng = np.random.default_rng(2)
    X = sparse.random(5000, 40, 0.1, "csr", random_state=rng, dtype=np.float32)
    y = rng.choice([-1.0, 1.0], 5000)
    data.write_libsvm(tmp_path / "a", X, y)
    back, labels = load_svmlight_file(tmp_path / "a", n_features=40, zero_based=False)
    assert np.array_equal(labels, y)
    assert (back.astype(np.float32) != X).nnz == 0
