"""Figures and probabilities of rows held out, from what lanes leave, against scikit-learn's on the same folds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.svm import LinearSVC

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.outcome import (
    CrossValidation,
    HeldOutRows,
    cross_validation,
    is_past_best,
    number_metrics,
)
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.storage.blocks.manifest import WeightCounts
from streamsvm.storage.models.probability import fit_sigmoid, probabilities
from streamsvm.trainer.problem.row_encoder import fold_of
from tests.service.jobs.test_problem import manifest

N_ROWS, FOLDS, VALUES = 400, 4, (0.01, 1.0)


def problem(n_classes):
    X, y = make_classification(N_ROWS, 10, n_informative=6, n_classes=n_classes, flip_y=0.2, random_state=2)
    return X, y.astype(float)


def machine(C):
    return LinearSVC(C=C, random_state=0, max_iter=100_000)


def split():
    return PredefinedSplit(fold_of(np.arange(N_ROWS), FOLDS, 0))


def weights(n_rows=N_ROWS):
    return np.random.default_rng(6).choice([0.05, 0.3, 1.0, 4.0], n_rows)


def left_by(job_dir: Path, X, y, weight=None) -> JobPlan:
    """A job whose lanes have left scikit-learn's decision values behind; weight (n_rows,) of the rows, or None."""
    labels, counts = np.unique(y, return_counts=True)
    spec = {"dataset": "d", "C": list(VALUES), "folds": FOLDS, "probability": "sigmoid", "scoring": "neg_log_loss"}
    rows = manifest(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
    if weight is not None:
        rows = replace(rows, weights=WeightCounts.of(weight))
    plan = plan_job(parse_spec(spec), rows)
    fold = split().test_fold
    values = {C: out_of_fold(C, X, y, weight) for C in VALUES}
    for number, lane in enumerate(plan.lanes):
        if lane.fold is not None:
            ids = np.flatnonzero(fold == lane.fold)
            column = values[lane.C][ids].reshape(len(ids), -1)[:, int(lane.positive) if len(labels) > 2 else 0]
            directory = job_dir / "lanes" / f"{number:04d}"
            directory.mkdir(parents=True)
            target = np.where(y[ids] == lane.positive, 1, -1).astype(np.float32)
            of_rows = {} if weight is None else {"weight": weight[ids]}
            np.savez(directory / "held_out.npz", ids=ids, target=target, decision_values=column, **of_rows)
    return plan


def out_of_fold(C, X, y, weight):
    params = {} if weight is None else {"sample_weight": weight}
    return cross_val_predict(machine(C), X, y, cv=split(), method="decision_function", params=params)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_count_as_much_as_they_weigh(tmp_path, n_classes):
    (X, y), weight = problem(n_classes), weights()
    found = CrossValidation(left_by(tmp_path, X, y, weight), tmp_path)
    for C, cv in zip(VALUES, found.figures, strict=True):
        theirs = CalibratedClassifierCV(machine(C), method="sigmoid", ensemble=False, cv=split())
        (calibrated,) = theirs.fit(X, y, sample_weight=weight).calibrated_classifiers_
        order = slice(None, None, -1 if n_classes == 2 else 1)
        mine = probabilities(calibrated.estimator.decision_function(X), found.sigmoid(C))[:, order]
        np.testing.assert_allclose(mine, theirs.predict_proba(X), atol=1e-6)
        rows = out_of_fold(C, X, y, weight)
        predicted = (rows > 0).astype(float) if n_classes == 2 else rows.argmax(axis=1)
        said = probabilities(rows, found.sigmoid(C))[:, order]
        if found.selected_C == C:
            labels = [1, 0] if n_classes == 2 else [0, 1, 2]
            confused = confusion_matrix(y, predicted, labels=labels, sample_weight=weight)
            np.testing.assert_allclose(found.view["confusion"]["rows"], confused, rtol=1e-12)
            assert found.view["confusion"]["labels"] == labels
        parts = [split().test_fold == fold for fold in range(FOLDS)]
        for there, figures in zip([*parts, np.full(N_ROWS, True)], [*cv["folds"], cv["all"]], strict=True):
            own, w = y[there], {"sample_weight": weight[there]}
            expected = {
                "accuracy": accuracy_score(own, predicted[there], **w),
                "balanced_accuracy": balanced_accuracy_score(own, predicted[there], **w),
                "f1": f1_score(own, predicted[there], average="binary" if n_classes == 2 else "macro", **w),
                "log_loss": log_loss(own, said[there], **w),
                "f1_macro": f1_score(own, predicted[there], average="macro", **w),
            }
            if n_classes == 2:
                expected["auc"] = roc_auc_score(own, rows[there], **w)
                expected["average_precision"] = average_precision_score(own, rows[there], **w)
            assert figures == pytest.approx(expected, rel=1e-12)
            assert figures["accuracy"] != pytest.approx(accuracy_score(own, predicted[there]), rel=1e-9)
        assert cv["mean"]["accuracy"] == pytest.approx(np.mean([each["accuracy"] for each in cv["folds"]]))


def test_where_a_lane_of_an_older_version_left_no_weights_none_counts(tmp_path):
    (X, y), weight = problem(2), weights()
    plan = left_by(tmp_path, X, y, weight)
    path = tmp_path / "lanes" / "0002" / "held_out.npz"
    assert plan.lanes[2].fold is not None
    arrays = dict(np.load(path))
    del arrays["weight"]
    np.savez(path, **arrays)
    for C, cv in zip(VALUES, CrossValidation(plan, tmp_path).figures, strict=True):
        predicted = out_of_fold(C, X, y, weight) > 0
        assert cv["all"]["accuracy"] == pytest.approx(accuracy_score(y, predicted), rel=1e-12)


@pytest.mark.parametrize("weight", [None, weights()])
def test_numbers_are_judged_as_scikit_learn_does(weight):
    rng = np.random.default_rng(3)
    y = rng.normal(100.0, 1.0, N_ROWS)
    values = y + rng.normal(0.2, 0.5, N_ROWS)
    found = number_metrics(HeldOutRows(y, values, weight))
    covariance = np.cov(y, values, aweights=weight)
    assert found == pytest.approx(
        {
            "mse": mean_squared_error(y, values, sample_weight=weight),
            "mae": mean_absolute_error(y, values, sample_weight=weight),
            "r2": r2_score(y, values, sample_weight=weight),
            "squared_correlation": covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1]),
        },
        rel=1e-12,
    )


@pytest.mark.parametrize("weight", [None, weights(11)])
def test_of_labels_that_are_all_one_nothing_is_explained(weight):
    found = number_metrics(HeldOutRows(np.full(11, 0.1), np.arange(11.0), weight))
    assert found["r2"] is None and found["squared_correlation"] is None


def test_a_sigmoid_is_fitted_once(tmp_path, monkeypatch):
    """Whoever asks for it: the figures, the C that wins, the models."""
    plan, fitted = left_by(tmp_path, *problem(3)), []
    monkeypatch.setattr(
        "streamsvm.service.jobs.lanes.outcome.fit_sigmoid", lambda *given: fitted.append(given) or fit_sigmoid(*given)
    )
    found = cross_validation(plan, tmp_path, len(plan.lanes))
    assert found.view["selected_C"] in VALUES
    assert all(found.sigmoid(C) is found.sigmoid(C) for C in VALUES)
    assert len(fitted) == 3 * len(VALUES)


@pytest.mark.parametrize(
    ("values", "error", "ends"),
    [
        ([0.5, 0.6, 0.8, 0.7, 0.7], 0.01, True),  # a clear fall
        ([0.5, 0.6, 0.7, 0.8, 0.79, 0.79], 0.01, False),  # may be chance
        ([0.5, 0.8, 0.79, 0.79, 0.79], 0.01, True),
        ([0.5, 0.8, 0.7, 0.7], None, False),  # one fold tells no error
        ([0.5, 0.8, 0.7, 0.7, 0.7], None, True),
        ([0.5, 0.6, 0.8, 0.7], 0.01, False),  # too few since
        ([0.5, 0.8, 0.801, 0.79, 0.802], 0.01, True),  # a level that only chance moves
        ([0.5, 0.8, 0.802, 0.804, 0.806], 0.01, False),  # a slow rise
        ([0.5, 0.8, 0.801, 0.79, 0.802], None, False),
        ([0.5] * 20, 0.01, False),  # nothing is learned yet
        ([0.5, 0.504, 0.5, 0.496, 0.5, 0.5], 0.01, False),  # nor here
        ([0.5, 0.512, 0.5, 0.5, 0.5], 0.01, True),  # little, but on all folds
        ([0.8] + [0.7] * 3, 0.01, True),
        ([-0.9, -0.5, -0.2, -0.3, -0.3], 0.01, True),  # an error, negated
    ],
)
def test_a_search_ends_past_the_best_value(values, error, ends):
    assert is_past_best(values, error, error_of_rise=0.001) == ends
    assert not is_past_best(values, error, error_of_rise=max(values) - min(values))  # on some folds alone


@pytest.mark.parametrize(("C", "selected"), [("auto", 4.0), ("auto-1se", 2.0)])
def test_the_smallest_C_within_one_standard_error_of_the_best(monkeypatch, C, selected):
    """The best mean is 0.9, its standard error 0.05 / sqrt(4)."""
    means = {1.0: 0.86, 2.0: 0.88, 4.0: 0.9, 8.0: 0.89}
    figures = [
        {"C": C, "folds": [{}] * FOLDS, "mean": {"accuracy": mean}, "std": {"accuracy": 0.05}}
        for C, mean in means.items()
    ]
    monkeypatch.setattr(CrossValidation, "figures", figures)
    plan = plan_job(parse_spec({"dataset": "d", "C": C, "folds": FOLDS}), manifest({0.0: 9, 1.0: 9}))
    assert CrossValidation(plan, Path()).selected_C == selected
