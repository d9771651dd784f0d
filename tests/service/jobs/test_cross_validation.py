"""Figures and probabilities of rows held out, from what lanes leave, against scikit-learn's on the same folds."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.svm import LinearSVC

from reader.certificate.folds import fold_of
from service.jobs.cross_validation import CrossValidation, cross_validation
from service.jobs.problem import JobPlan, plan_job
from service.jobs.spec import parse_spec
from storage import platt
from storage.probability import probabilities
from tests.service.jobs.test_problem import manifest

N_ROWS, FOLDS, VALUES = 400, 4, (0.01, 1.0)


def problem(n_classes):
    X, y = make_classification(N_ROWS, 10, n_informative=6, n_classes=n_classes, flip_y=0.2, random_state=2)
    return X, y.astype(float)


def machine(C):
    return LinearSVC(C=C, random_state=0, max_iter=100_000)


def split():
    return PredefinedSplit(fold_of(np.arange(N_ROWS), FOLDS, 0))


def left_by(job_dir: Path, X, y) -> JobPlan:
    """A job whose lanes have left scikit-learn's decision values behind."""
    labels, counts = np.unique(y, return_counts=True)
    spec = {"dataset": "d", "C": list(VALUES), "folds": FOLDS, "probability": "sigmoid", "select_by": "log_loss"}
    plan = plan_job(parse_spec(spec), manifest(dict(zip(labels.tolist(), counts.tolist(), strict=True))))
    fold = split().test_fold
    values = {C: cross_val_predict(machine(C), X, y, cv=split(), method="decision_function") for C in VALUES}
    for number, lane in enumerate(plan.lanes):
        if lane.fold is not None:
            ids = np.flatnonzero(fold == lane.fold)
            column = values[lane.C][ids].reshape(len(ids), -1)[:, int(lane.positive) if len(labels) > 2 else 0]
            directory = job_dir / "lanes" / f"{number:04d}"
            directory.mkdir(parents=True)
            target = np.where(y[ids] == lane.positive, 1, -1).astype(np.float32)
            np.savez(directory / "held_out.npz", ids=ids, target=target, decision_values=column)
    return plan


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_a_calibrated_classifier(tmp_path, n_classes):
    X, y = problem(n_classes)
    plan = left_by(tmp_path, X, y)
    found = CrossValidation(plan, tmp_path)
    for C, cv in zip(VALUES, found.figures, strict=True):
        theirs = CalibratedClassifierCV(machine(C), method="sigmoid", ensemble=False, cv=split()).fit(X, y)
        (calibrated,) = theirs.calibrated_classifiers_
        values = calibrated.estimator.decision_function(X)
        # Of two classes the first one is the larger label here.
        mine = probabilities(values, found.sigmoid(C))[:, :: -1 if n_classes == 2 else 1]
        np.testing.assert_allclose(mine, theirs.predict_proba(X), atol=1e-6)
        rows = cross_val_predict(machine(C), X, y, cv=split(), method="decision_function")
        order = slice(None, None, -1 if n_classes == 2 else 1)
        expected = log_loss(y, probabilities(rows, found.sigmoid(C))[:, order])
        assert cv["all"]["log_loss"] == pytest.approx(expected, rel=1e-12)
        assert cv["all"]["accuracy"] == np.mean(cross_val_predict(machine(C), X, y, cv=split()) == y)


def test_a_sigmoid_is_fitted_once(tmp_path, monkeypatch):
    """Whoever asks for it: the figures, the C that wins, the models."""
    plan, fitted = left_by(tmp_path, *problem(3)), []
    monkeypatch.setattr(
        "service.jobs.cross_validation.fit_sigmoid", lambda *given: fitted.append(given) or platt.fit_sigmoid(*given)
    )
    found = cross_validation(plan, tmp_path, len(plan.lanes))
    assert found.view["selected_C"] in VALUES
    assert all(found.sigmoid(C) is found.sigmoid(C) for C in VALUES)
    assert len(fitted) == 3 * len(VALUES)
