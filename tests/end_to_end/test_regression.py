"""Regression and logistic loss in LIBLINEAR's words, and figures of cross-validation; LIBLINEAR reads the models."""

import re

import numpy as np
import pytest
from liblinear import liblinearutil
from scipy import sparse
from sklearn.metrics import r2_score
from sklearn.svm import LinearSVR

from streamsvm.trainer.problem.row_encoder import fold_of
from tests.contracts.problems import libsvm_text, random_problem, stored_rows, weighted_text
from tests.end_to_end.conftest import weights
from tests.reference.liblinear import liblinear_predict

VALUES, FOLDS, SEED, EPSILON = (0.01, 1.0), 3, 3, 0.2
LOSS = "squared_epsilon_insensitive"
SPEC = {
    "solver": "dcd", "epsilon": EPSILON, "tolerance": None, "relative_gap": 1e-8, "max_passes": 100_000,
    "cache_bytes": 4 << 20, "seed": SEED, "folds": FOLDS,
}  # fmt: skip
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


def problem(n_rows=400, n_features=15):
    """Some labels are 0."""
    rng = np.random.default_rng(8)
    X = sparse.random(n_rows, n_features, 0.4, "csr", np.float32, rng)
    return X, np.round(X @ rng.normal(size=n_features) + rng.normal(0, 0.3, n_rows), 1).astype(np.float32).astype(float)


def machine(C):
    return LinearSVR(epsilon=EPSILON, C=C, loss=LOSS, fit_intercept=False, dual=True, tol=1e-10, max_iter=10**6)


def test_numbers_are_judged_by_rows_held_out_and_count_as_much_as_they_weigh(service):
    """As scikit-learn's machines say; other figures of the same values are tested beside them."""
    given = np.random.default_rng(9).choice([0.1, 1.0, 5.0], 400)
    before = set(service.data_dir.glob("datasets/ds_*"))
    service.upload("weighted", weighted_text(*problem(), given))
    (directory,) = set(service.data_dir.glob("datasets/ds_*")) - before
    rows, _ = stored_rows(directory)
    X, y = sparse.csr_matrix((rows.values, rows.indices - 1, rows.indptr), (400, 15)).astype(float), rows.label
    assert 0.0 in y
    ended = service.wait_until_ended(service.submit(dataset="weighted", loss=LOSS, C=VALUES, **SPEC))
    assert ended["state"] == "succeeded", ended["failure"]
    assert ended["spec"]["scoring"] == "neg_mean_squared_error"
    fold, values = fold_of(np.arange(len(y)), FOLDS, SEED), np.empty(len(y))
    parts = [fold == k for k in range(FOLDS)]
    for C, cv in zip(VALUES, ended["result"]["cv"], strict=True):
        for k in range(FOLDS):
            trained = machine(C).fit(X[fold != k], y[fold != k], rows.weight[fold != k])
            values[fold == k] = trained.predict(X[fold == k])
        for there, found in zip([*parts, fold >= 0], [*cv["folds"], cv["all"]], strict=True):
            own, weight = (y[there], values[there]), rows.weight[there]
            assert found["mse"] == pytest.approx(np.average((own[0] - own[1]) ** 2, weights=weight), rel=1e-4)
            assert found["r2"] == pytest.approx(r2_score(*own, sample_weight=weight), rel=1e-4)
    best = min(ended["result"]["cv"], key=lambda each: each["mean"]["mse"])["C"]
    assert ended["result"]["selected_C"] == best != VALUES[0]
    assert ended["result"]["models"] == [{"C": best, "model_id": ended["model_id"]}]
    assert {lane["fold"] for lane in ended["result"]["lanes"]} == {0, 1, 2, None}
    whole = machine(best).fit(X, y, rows.weight).coef_
    np.testing.assert_allclose(weights(service.model(ended)), whole, rtol=1e-3, atol=1e-4)


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
    spec = {"dataset": "constant", "loss": LOSS, "solver": "dcd", "folds": 2, "cache_bytes": 1 << 17}
    ended = service.wait_until_ended(service.submit(scoring="r2", **spec))
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "constant_fold")
    assert ended["failure"]["hint"]
