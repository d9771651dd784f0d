"""Evaluation of rows that have weights, against scikit-learn's metrics with `sample_weight`."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_squared_error,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
)

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.models.model_file import Model
from tests.contracts.problems import libsvm_text, random_problem, weighted_text
from tests.service.models.test_evaluation_classes import check_reliability

N_ROWS, N_FEATURES = 600, 40
LABELS = (5.0, -1.0, 2.0, 7.0)


def some_weights(seed=0):
    """Weights of very different sizes, some of them 0."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(N_ROWS) < 0.15, 0.0, rng.lognormal(0.0, 2.0, N_ROWS))


def close(expected):
    return pytest.approx(expected, rel=1e-9)


def stored(directory, X, y, weight) -> Dataset:
    ingest([weighted_text(X, y, weight)], directory, InputOptions())
    return Dataset(directory)


def test_two_classes(tmp_path):
    X, y = random_problem(N_ROWS, N_FEATURES)
    X.data = np.round(X.data, 1)  # so that scores tie
    weight, w = some_weights(), np.random.default_rng(1).integers(-2, 3, N_FEATURES).astype(float)
    about = {"loss": "hinge", "C": 0.5, "spec": {"class_weight": {"1": 3.0}}}
    model = Model(w, (1.0, -1.0), 1, about=about, sigmoid=((-0.7, 0.2),))
    found = evaluate(model, stored(tmp_path / "data", X, y, weight))
    decision = X.astype(float) @ w
    predicted = np.where(decision > 0, 1.0, -1.0)
    assert len(np.unique(decision)) < N_ROWS
    assert (found["rows"], found["weighted"]) == (N_ROWS, True)
    assert found["weight_sum"] == close(weight.sum())
    assert found["accuracy"] == close(accuracy_score(y, predicted, sample_weight=weight))
    assert found["balanced_accuracy"] == close(balanced_accuracy_score(y, predicted, sample_weight=weight))
    assert found["auc"] == close(roc_auc_score(y, decision, sample_weight=weight))
    expected = confusion_matrix(y, predicted, labels=[1.0, -1.0], sample_weight=weight)
    assert np.array(found["confusion"]["rows"]) == close(expected)
    shares = Predictor(model).probabilities(decision)
    assert found["log_loss"] == close(log_loss(y, shares[:, ::-1], sample_weight=weight))
    assert found["brier_score"] == close(brier_score_loss(y, shares[:, 0], sample_weight=weight))
    C = 0.5 * np.where(y > 0, 3.0, 1.0) * weight
    assert found["objective"] == close(w @ w / 2 + C @ np.maximum(0.0, 1.0 - y * decision))
    check_reliability(found["reliability"], shares[:, 0], y > 0, weight)


@pytest.mark.parametrize("multiclass", ["one_vs_rest", "crammer_singer"])
def test_several_classes(tmp_path, multiclass):
    X, _ = random_problem(N_ROWS, N_FEATURES)
    rng, weight = np.random.default_rng(2), some_weights()
    y, w = rng.choice(LABELS, N_ROWS), rng.standard_normal((4, N_FEATURES))
    about = {"loss": "hinge", "C": 0.5, "spec": {"multiclass": multiclass}}
    model = Model(w, LABELS, 1, about=about, sigmoid=((-1.5, 0.25), (-0.5, -0.1), (-2.0, 0.3), (-1.0, 0.0)))
    found = evaluate(model, stored(tmp_path / "data", X, y, weight))
    decision = X.astype(float) @ w.T
    predicted, shares = np.array(LABELS)[decision.argmax(axis=1)], Predictor(model).probabilities(decision)
    assert found["accuracy"] == close(accuracy_score(y, predicted, sample_weight=weight))
    assert found["balanced_accuracy"] == close(balanced_accuracy_score(y, predicted, sample_weight=weight))
    expected = confusion_matrix(y, predicted, labels=LABELS, sample_weight=weight)
    assert np.array(found["confusion"]["rows"]) == close(expected)
    scores = precision_recall_fscore_support(y, predicted, labels=LABELS, sample_weight=weight)
    for place, shown in enumerate(found["classes"]):
        figures = [shown[name] for name in ("precision", "recall", "f1", "weight")]
        assert figures == close([column[place] for column in scores])
        assert shown["rows"] == np.count_nonzero(y == LABELS[place])
    order = np.argsort(LABELS)
    own = np.searchsorted(np.array(LABELS)[order], y)
    assert found["log_loss"] == close(log_loss(own, shares[:, order], labels=range(4), sample_weight=weight))
    brier = brier_score_loss(own, shares[:, order], labels=range(4), scale_by_half=False, sample_weight=weight)
    assert found["brier_score"] == close(brier)
    is_own = y[:, None] == np.array(LABELS)
    if multiclass == "one_vs_rest":
        losses = np.maximum(0.0, 1.0 - np.where(is_own, 1, -1) * decision).sum(axis=1)
    else:
        losses = (decision + ~is_own).max(axis=1) - decision[is_own]
    assert found["objective"] == close(np.vdot(w, w) / 2 + 0.5 * weight @ losses)
    check_reliability(found["reliability"], shares[np.arange(N_ROWS), decision.argmax(axis=1)], predicted == y, weight)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_numbers(tmp_path, loss):
    X, _ = random_problem(N_ROWS, N_FEATURES)
    rng, weight = np.random.default_rng(3), some_weights()
    w = rng.standard_normal(N_FEATURES)
    y = np.float32(1000 + X @ w + 0.3 * rng.standard_normal(N_ROWS)).astype(float)
    model = Model(w, (), 1, 500.0, 2.0, {"loss": loss, "C": 0.5, "spec": {"epsilon": 0.2}})
    found = evaluate(model, stored(tmp_path / "data", X, y, weight))
    predicted = X.astype(float) @ w + 1000
    assert found["mse"] == close(mean_squared_error(y, predicted, sample_weight=weight))
    assert found["r2"] == close(r2_score(y, predicted, sample_weight=weight))
    excess = np.maximum(0.0, np.abs(predicted - y) - 0.2)
    losses = 0.5 * weight @ (excess if loss == "epsilon_insensitive" else excess**2)
    assert found["objective"] == close((w @ w + 2.0**2) / 2 + losses)


def test_rows_added_without_weights_have_weight_one(tmp_path):
    X, y = random_problem(N_ROWS, N_FEATURES)
    weight, w = some_weights(), np.random.default_rng(1).standard_normal(N_FEATURES)
    stored(tmp_path / "data", X, y, weight)
    append_rows([libsvm_text(X, -y)], tmp_path / "data", InputOptions(), InputLimits(), 1)
    found = evaluate(Model(w, (1.0, -1.0), 1), Dataset(tmp_path / "data"))
    decision, weight = np.tile(X.astype(float) @ w, 2), np.concatenate([weight, np.ones(N_ROWS)])
    y = np.concatenate([y, -y])
    assert found["auc"] == close(roc_auc_score(y, decision, sample_weight=weight))
    assert found["accuracy"] == close(accuracy_score(y > 0, decision > 0, sample_weight=weight))


def test_weights_of_one_change_nothing(tmp_path):
    X, y = random_problem(N_ROWS, N_FEATURES)
    model = Model(np.random.default_rng(1).standard_normal(N_FEATURES), (1.0, -1.0), 1, sigmoid=((-0.7, 0.2),))
    ingest([libsvm_text(X, y)], tmp_path / "plain", InputOptions())
    plain = evaluate(model, Dataset(tmp_path / "plain"))
    found = evaluate(model, stored(tmp_path / "data", X, y, np.ones(N_ROWS)))
    assert not plain.pop("weighted") and found.pop("weighted")
    assert found.pop("weight_sum") == N_ROWS and "weight_sum" not in plain
    for row in (*found["classes"], *found["reliability"]):
        assert row.pop("weight") == row["rows"]
    assert found.keys() == plain.keys()
    for name in ("accuracy", "balanced_accuracy", "auc", "log_loss", "brier_score"):
        assert found[name] == pytest.approx(plain[name], rel=1e-12)
    assert found["confusion"] == plain["confusion"]


def test_a_class_that_weighs_nothing(tmp_path):
    X, y = random_problem(N_ROWS, N_FEATURES)
    model = Model(np.random.default_rng(1).standard_normal(N_FEATURES), (1.0, -1.0), 1)
    found = evaluate(model, stored(tmp_path / "data", X, y, np.where(y > 0, 0.0, 2.0)))
    assert found["auc"] is None
    assert found["classes"][0]["recall"] is None and found["classes"][0]["rows"] > 0
    assert found["balanced_accuracy"] == found["accuracy"] == found["classes"][1]["recall"]
