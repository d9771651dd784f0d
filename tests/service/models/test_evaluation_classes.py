"""Evaluation of several classes and of probabilities, against scikit-learn's metrics on the same rows."""

import numpy as np
import pytest
from liblinear import liblinearutil
from sklearn.metrics import (
    brier_score_loss,
    log_loss,
)

from streamsvm.reader.certificate.calibration import BINS
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.models.model_file import Model
from tests.contracts.problems import make_dataset, random_problem

N_ROWS, N_FEATURES = 500, 60
LABELS = (5.0, -1.0, 2.0, 7.5)


def model_of(labels=LABELS, loss="hinge", **changes) -> Model:
    w = np.random.default_rng(1).standard_normal((len(labels), N_FEATURES))
    about = {"loss": loss, "C": 0.5, "spec": {"class_weight": {"5": 3.0}}}
    return Model(w, labels, 1, 1.5, (0.2, 0.0, -0.3, 1.0)[: len(labels)], about, **changes)


def problem(labels=LABELS):
    X, _ = random_problem(N_ROWS, N_FEATURES)
    return X, np.random.default_rng(2).choice(labels, N_ROWS)


def evaluated(tmp_path, model: Model, X, y) -> tuple[dict, np.ndarray, np.ndarray | None, np.ndarray]:
    """The evaluation, and numpy's decision values, probabilities and labels."""
    found = evaluate(model, Dataset(make_dataset(tmp_path / "data", X, y)))
    predictor = Predictor(model)
    decision = predictor.decision_values(X.astype(float))
    return found, decision, predictor.probabilities(decision), predictor.labels(decision)


def test_the_order_of_the_labels_is_the_models(tmp_path):
    X, y = problem()
    found, _, _, predicted = evaluated(tmp_path, model_of(LABELS[::-1]), X, y)
    assert [shown["rows"] for shown in found["classes"]] == [np.sum(y == label) for label in LABELS[::-1]]
    assert found["accuracy"] == np.mean(predicted == y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_objective_is_the_sum_of_those_of_one_class_against_the_rest(tmp_path, loss):
    X, y = problem()
    model = model_of(loss=loss)
    found, decision, _, _ = evaluated(tmp_path, model, X, y)
    losses = {
        "hinge": lambda m: np.maximum(0, 1 - m),
        "squared_hinge": lambda m: np.maximum(0, 1 - m) ** 2,
        "logistic": lambda m: np.logaddexp(0, -m),
    }[loss]
    expected = 0.0
    for place, label in enumerate(LABELS):
        own = y == label
        C = 0.5 * np.where(own, 3.0 if label == 5.0 else 1.0, 1.0)
        norm = model.w[place] @ model.w[place] + model.w_bias[place] ** 2
        expected += norm / 2 + C @ losses(np.where(own, 1, -1) * decision[:, place])
    assert found["objective"] == pytest.approx(expected, rel=1e-12)


def test_the_objective_of_crammer_and_singer_is_least_at_liblinears_optimum(tmp_path):
    X, y = problem((0.0, 1.0, 2.0))
    trained = liblinearutil.train(y, X.astype(float), "-s 4 -c 0.5 -e 1e-8 -q")
    # Three classes in another order than the model's.
    w = np.stack([trained.get_decfun(place)[0] for place in range(3)])
    about = {"loss": "hinge", "C": 0.5, "spec": {"multiclass": "crammer_singer"}}
    labels = tuple(map(float, trained.get_labels()))
    dataset = Dataset(make_dataset(tmp_path / "data", X, y))
    best = evaluate(Model(w, labels, 1, about=about), dataset)["objective"]
    decision = X.astype(float) @ w.T
    own = np.array([labels.index(label) for label in y])
    margins = decision - decision[np.arange(N_ROWS), own][:, None] + (own[:, None] != np.arange(3))
    assert best == pytest.approx(np.vdot(w, w) / 2 + 0.5 * margins.max(axis=1).sum(), rel=1e-12)
    for factor in (0.98, 1.02):
        assert evaluate(Model(factor * w, labels, 1, about=about), dataset)["objective"] > best


def test_probabilities_of_two_classes_are_those_of_the_first(tmp_path):
    X, y = random_problem(N_ROWS, N_FEATURES)
    model = Model(np.random.default_rng(1).standard_normal(N_FEATURES), (1.0, -1.0), 1, sigmoid=((-0.7, 0.2),))
    found, _, shares, _ = evaluated(tmp_path, model, X, y)
    assert found["log_loss"] == pytest.approx(log_loss(y, shares[:, ::-1]), rel=1e-12)
    assert found["brier_score"] == pytest.approx(brier_score_loss(y, shares[:, 0]), rel=1e-12)
    assert found["auc"] is not None
    check_reliability(found["reliability"], shares[:, 0], y > 0)


def check_reliability(bins: list[dict], said: np.ndarray, so: np.ndarray) -> None:
    assert len(bins) == BINS and sum(row["rows"] for row in bins) == len(said)
    for place, row in enumerate(bins):
        # The last one has both its ends.
        inside = (said * BINS >= place) & ((said * BINS < place + 1) | (place == BINS - 1))
        assert (row["from"], row["to"], row["rows"]) == (place / BINS, (place + 1) / BINS, inside.sum())
        if not inside.any():
            assert row["probability"] is None and row["share"] is None
            continue
        assert row["probability"] == pytest.approx(said[inside].mean(), rel=1e-12)
        assert row["share"] == pytest.approx(so[inside].mean(), rel=1e-12)


def test_a_class_without_rows_has_no_recall(tmp_path):
    X, y = problem(LABELS[:3])
    w = np.zeros((4, N_FEATURES))
    found = evaluate(Model(w, LABELS, 1), Dataset(make_dataset(tmp_path / "data", X, y)))
    # All values are equal, so the first label is predicted.
    assert found["classes"][3] == {"label": 7.5, "rows": 0, "precision": None, "recall": None, "f1": None}
    assert found["classes"][1]["precision"] is None and found["classes"][1]["recall"] == 0.0
    assert found["balanced_accuracy"] == pytest.approx(1 / 3)
    assert found["objective"] is None


def test_so_many_classes_have_no_confusion(tmp_path, monkeypatch):
    monkeypatch.setattr("streamsvm.reader.certificate.class_counts.MOST_CONFUSED", 3)
    X, y = problem()
    found, _, _, predicted = evaluated(tmp_path, model_of(), X, y)
    assert found["confusion"]["rows"] is None and found["accuracy"] == np.mean(predicted == y)


@pytest.mark.parametrize("labels", [("a", "b", "c", "d"), (5.0, -1.0, 2.0, 8.0)])
def test_a_dataset_of_other_labels(tmp_path, labels):
    dataset = Dataset(make_dataset(tmp_path / "data", *problem()))
    with pytest.raises(ServiceError) as caught:
        evaluate(model_of(labels), dataset)
    assert caught.value.code == "label_mismatch" and caught.value.hint
