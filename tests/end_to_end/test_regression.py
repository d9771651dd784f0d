"""Regression and logistic loss on the command line, asked for in LIBLINEAR's words; LIBLINEAR reads the models."""

import numpy as np
import pytest
from scipy import sparse

from tests.contracts.problems import libsvm_text, random_problem
from tests.reference.liblinear import liblinear_predict

N_ROWS, N_FEATURES = 300, 20


@pytest.fixture
def regression():
    """(X, y): a linear function of the rows, off by 0.1 or so."""
    rng = np.random.default_rng(0)
    X = sparse.random(N_ROWS, N_FEATURES, 0.5, "csr", np.float32, rng)
    return X, np.round(X @ rng.standard_normal(N_FEATURES) + 0.1 * rng.standard_normal(N_ROWS) + 7.0, 3)


@pytest.mark.parametrize(("number", "name"), [(12, "L2R_L2LOSS_SVR_DUAL"), (13, "L2R_L1LOSS_SVR_DUAL")])
def test_a_model_of_regression_is_trained_and_predicts_what_liblinear_does(
    run_here, regression, tmp_path, number, name
):
    X, y = regression
    file, model = tmp_path / "train.svm", tmp_path / "a.model"
    file.write_bytes(libsvm_text(X, y))
    options = ("-s", number, "-p", 0.05, "-c", 10, "-B", 1, "-e", 0.01, "--max-passes", 20_000)
    done = run_here("train", file, *options, "-o", model)
    assert done.returncode == 0, done.stderr
    assert model.read_text().startswith(f"solver_type {name}\n")
    done = run_here("predict", model, file)
    found = np.array(done.stdout.split(), float)
    np.testing.assert_allclose(found, liblinear_predict(model, X)[0], rtol=1e-12)
    error = np.mean((found - y) ** 2)
    assert error < 0.1 * np.var(y)
    assert f"mean squared error {error:.6g}" in done.stderr


def test_labels_that_all_lie_in_the_tube_cost_nothing(run_here, tmp_path):
    (tmp_path / "rows").write_bytes(b"0.05 1:1\n0.01 1:2\n-0.02 1:3\n")
    for rule in ((), ("-e", "none", "--relative-gap", "1e-3")):
        options = ("-s", 13, "-p", 0.1, "--cache", "128KiB", *rule)
        done = run_here("train", tmp_path / "rows", *options, "-o", tmp_path / "model")
        assert done.returncode == 0, done.stderr
        assert "objective 0, relative duality gap 0" in done.stderr


def test_a_logistic_model_is_liblinears(run_here, tmp_path):
    X, y = random_problem()
    file, model = tmp_path / "train.svm", tmp_path / "a.model"
    file.write_bytes(libsvm_text(X, y))
    done = run_here("train", file, "-s", 7, "-o", model)
    assert done.returncode == 0, done.stderr
    assert model.read_text().startswith("solver_type L2R_LR_DUAL\n")
    done = run_here("predict", model, file)
    np.testing.assert_array_equal(np.array(done.stdout.split(), float), liblinear_predict(model, X)[0])
