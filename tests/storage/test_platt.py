"""Compares Platt's sigmoid with scikit-learn's and with scipy's minimum, and tests degenerate data."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC

from streamsvm.storage.models.probability import LOGISTIC, falling, fit_sigmoid, probabilities


def overlapping(n_rows: int = 500, scale: float = 1.0, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Decision values of two classes that overlap, and the mask of the rows of the first class."""
    rng = np.random.default_rng(0)
    positive = rng.random(n_rows) < share
    return scale * (rng.standard_normal(n_rows) + np.where(positive, 1.0, -0.5)), positive


def objective(AB: np.ndarray, f: np.ndarray, positive: np.ndarray) -> float:
    n = np.count_nonzero(positive)
    t = np.where(positive, (n + 1) / (n + 2), 1 / (len(f) - n + 2))
    z = AB[0] * f + AB[1]
    return float(np.sum(t * np.logaddexp(0, z) + (1 - t) * np.logaddexp(0, -z)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_the_sigmoid_is_the_minimum_whatever_the_scale(scale, share):
    f, positive = overlapping(scale=scale, share=share)
    A, B = fit_sigmoid(f, positive)
    best = minimize(objective, [A * scale, B], (f / scale, positive), method="BFGS", options={"gtol": 1e-7})
    assert [A * scale, B] == pytest.approx(best.x.tolist(), rel=1e-6)
    assert objective([A, B], f, positive) <= best.fun * (1 + 1e-14)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_probabilities_are_scikit_learns(n_classes):
    X, y = make_classification(600, 8, n_informative=5, n_classes=n_classes, flip_y=0.2, random_state=1)
    svm = LinearSVC(random_state=0, max_iter=100_000).fit(X[:300], y[:300])
    expected = CalibratedClassifierCV(FrozenEstimator(svm), method="sigmoid", ensemble=False).fit(X[300:], y[300:])
    f = svm.decision_function(X[300:])
    if n_classes == 2:
        # scikit-learn's decision values are those of the last class, ours those of the first.
        actual = probabilities(f, (fit_sigmoid(f, y[300:] == 1),))[:, ::-1]
    else:
        actual = probabilities(f, tuple(fit_sigmoid(f[:, c], y[300:] == c) for c in range(n_classes)))
    np.testing.assert_allclose(actual, expected.predict_proba(X[300:]), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator")  # weights are for the calibration alone, as is wanted
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_rows_count_as_in_scikit_learn(n_classes):
    X, y = make_classification(600, 8, n_informative=5, n_classes=n_classes, flip_y=0.2, random_state=1)
    weight = np.random.default_rng(4).choice([0.01, 0.3, 1.0, 7.0], 300)
    svm = LinearSVC(random_state=0, max_iter=100_000).fit(X[:300], y[:300])
    calibrated = CalibratedClassifierCV(FrozenEstimator(svm), method="sigmoid", ensemble=False)
    expected = calibrated.fit(X[300:], y[300:], sample_weight=weight).predict_proba(X[300:])
    f = svm.decision_function(X[300:])
    columns = [(f, 1)] if n_classes == 2 else [(f[:, place], place) for place in range(n_classes)]
    actual, plain = (
        probabilities(f, tuple(fit_sigmoid(column, y[300:] == place, each) for column, place in columns))
        for each in (weight, None)
    )
    order = slice(None, None, -1 if n_classes == 2 else 1)
    np.testing.assert_allclose(actual[:, order], expected, atol=1e-6)
    assert np.abs(plain[:, order] - expected).max() > 0.01


def test_a_row_of_weight_three_is_three_rows():
    f, positive = overlapping()
    times = np.random.default_rng(5).integers(0, 4, len(f))
    repeated = fit_sigmoid(np.repeat(f, times), np.repeat(positive, times))
    assert fit_sigmoid(f, positive, times.astype(float)) == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize("gap", [0.0, 1.0, 1e3])
def test_classes_that_do_not_overlap_have_a_finite_sigmoid(gap):
    f = np.concatenate([np.linspace(gap + 1, gap + 2, 50), -np.linspace(gap + 1, gap + 2, 80)])
    A, B = fit_sigmoid(f, f > 0)
    assert A < 0 and np.isfinite([A, B]).all()
    assert falling(A * f + B)[:50].min() > 0.9 and falling(A * f + B)[50:].max() < 0.1


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-9])
def test_equal_decision_values_give_the_share_of_the_class(value):
    positive = np.arange(100_000) < 25_000
    A, B = fit_sigmoid(np.full(100_000, value), positive)
    assert falling(A * value + B) == pytest.approx(0.25, abs=1e-4)


@pytest.mark.parametrize("positive", [True, False])
def test_rows_of_one_class(positive):
    A, B = fit_sigmoid(np.linspace(-1, 1, 50), np.full(50, positive))
    assert (falling(A * np.linspace(-1, 1, 50) + B) > 0.5).all() == positive


def test_the_sigmoid_is_exact_at_both_ends():
    z = np.array([-1e4, -800.0, -40.0, -1e-9, 0.0, 1e-9, 40.0, 700.0, 1e4])
    np.testing.assert_allclose(falling(z), expit(-z), rtol=1e-15)


def test_two_classes_have_the_probabilities_of_logistic_regression():
    f = np.array([-3.0, 0.0, 800.0])
    np.testing.assert_allclose(probabilities(f, (LOGISTIC,)), np.stack([expit(f), expit(-f)], 1), rtol=1e-15)


def test_classes_of_probability_0_are_equally_likely():
    actual = probabilities(np.array([[-1e4, -2e4, -3e4], [0.0, 0.0, -1e4]]), (LOGISTIC,) * 3)
    assert actual.tolist() == [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]]
