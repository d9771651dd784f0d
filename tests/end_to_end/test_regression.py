"""Regression in LIBLINEAR's words, with its figures of cross-validation; LIBLINEAR reads the models."""

import re

import numpy as np
import pytest
from liblinear import liblinearutil
from scipy import sparse

from tests.contracts.problems import libsvm_text
from tests.reference.liblinear import liblinear_predict

EPSILON = 0.2
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


def problem(n_rows=400, n_features=15):
    """Some labels are 0."""
    rng = np.random.default_rng(8)
    X = sparse.random(n_rows, n_features, 0.4, "csr", np.float32, rng)
    return X, np.round(X @ rng.normal(size=n_features) + rng.normal(0, 0.3, n_rows), 1).astype(np.float32).astype(float)


def test_the_command_says_what_liblinear_does(run_here, tmp_path):
    X, y = problem()
    (tmp_path / "rows").write_bytes(libsvm_text(X, y))
    for number in (11, 12, 13):
        options = ("-s", number, "-v", 3, "-p", EPSILON, "-c", 1, "-e", 1e-4, "--max-passes", 10_000)
        done = run_here("train", tmp_path / "rows", *options)
        assert done.returncode == 0, done.stderr
        (error,) = re.findall(r"^Cross Validation Mean squared error = ([\d.e-]+)$", done.stderr, re.M)
        (correlation,) = re.findall(
            r"^Cross Validation Squared correlation coefficient = ([\d.e-]+)$", done.stderr, re.M
        )
        # On other folds, and which they are depends on who drew random numbers in this process before.
        theirs = liblinearutil.train(y, X.astype(float), f"-s {number} -v 3 -p {EPSILON} -c 1 -q")
        assert float(error) == pytest.approx(theirs, rel=0.3)
        assert 1 - float(correlation) == pytest.approx(theirs / np.var(y), rel=0.3)
    assert not (tmp_path / "rows.model").exists()


def test_labels_of_a_fold_that_are_all_the_same_have_no_r2(service):
    text = "".join(f"{1 if k % 2 else 1.0} 1:{k}\n" for k in range(1, 30))
    service.upload("constant", text.encode())
    spec = {"dataset": "constant", "loss": "squared_epsilon_insensitive", "solver": "dcd", "scoring": "r2"}
    ended = service.wait_until_ended(service.submit(folds=2, cache_bytes=1 << 17, **spec))
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "constant_fold")
    assert ended["failure"]["hint"]
