"""Evaluation of several classes, probabilities and kernel machines, against scikit-learn's and numpy's figures."""

from dataclasses import replace

import numpy as np
import pytest
from liblinear import liblinearutil
from scipy import sparse
from sklearn.metrics import roc_auc_score

from streamsvm.reader.certificate.metrics import BINS
from streamsvm.reader.options import InputOptions
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.evaluation.evaluation import evaluate, evaluate_rows
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import LARGE_W
from tests.contracts.problems import libsvm_text, make_dataset, random_problem
from tests.machines import PAIRS, kernel, numpys_values, random_machine, vectors_of
from tests.refusals import refused

ABOUT = {"loss": "hinge", "C": 0.5, "spec": {"class_weight": {"1": 3.0}}}
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


@pytest.mark.parametrize("labels", [LABELS, (1.0, -1.0)])
def test_rows_whose_labels_were_changed_are_doubtful(labels):
    X, _ = problem()
    model = model_of(labels) if len(labels) > 2 else Model(model_of().w[0], labels, 1)
    decision = Predictor(model).decision_values(X.astype(float))
    y = np.array(Predictor(model).labels(decision))
    changed = {3: y[3], 77: y[77], 401: y[401]}
    for row, right in changed.items():
        y[row] = labels[labels.index(right) - 1]
    found = evaluate_rows(model, [libsvm_text(X, y)], InputOptions())
    assert {each["row"]: each["predicted"] for each in found["doubtful"]} == changed
    assert all(each["label"] == y[each["row"]] for each in found["doubtful"])
    leads = [each["lead"] for each in found["doubtful"]]
    values = np.column_stack([decision, 0 * decision]) if decision.ndim == 1 else decision
    by = {row: values[row, labels.index(right)] - values[row, labels.index(y[row])] for row, right in changed.items()}
    assert leads == sorted(leads, reverse=True) and leads == pytest.approx(sorted(map(abs, by.values()), reverse=True))


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


def check_reliability(bins: list[dict], said: np.ndarray, so: np.ndarray, weight: np.ndarray | None = None) -> None:
    assert len(bins) == BINS and sum(row["rows"] for row in bins) == len(said)
    for place, row in enumerate(bins):
        # The last one has both its ends.
        inside = (said * BINS >= place) & ((said * BINS < place + 1) | (place == BINS - 1))
        own = np.ones(inside.sum()) if weight is None else weight[inside]
        assert (row["from"], row["to"], row["rows"]) == (place / BINS, (place + 1) / BINS, inside.sum())
        assert weight is None or row["weight"] == pytest.approx(own.sum(), rel=1e-12)
        if not own.any():
            assert row["probability"] is None and row["share"] is None
            continue
        assert row["probability"] == pytest.approx(np.average(said[inside], weights=own), rel=1e-12)
        assert row["share"] == pytest.approx(np.average(so[inside], weights=own), rel=1e-12)


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
    monkeypatch.setattr("streamsvm.reader.certificate.metrics.MOST_CONFUSED", 3)
    X, y = problem()
    found, _, _, predicted = evaluated(tmp_path, model_of(), X, y)
    assert found["confusion"]["rows"] is None and found["accuracy"] == np.mean(predicted == y)


@pytest.mark.parametrize("labels", [("a", "b", "c", "d"), (5.0, -1.0, 2.0, 8.0)])
def test_a_dataset_of_other_labels(tmp_path, labels):
    dataset = Dataset(make_dataset(tmp_path / "data", *problem()))
    with refused(ServiceError, "label_mismatch"):
        evaluate(model_of(labels), dataset)


def half_norm(model) -> float:
    Z, w = vectors_of(model), np.atleast_2d(model.w)
    return float(np.einsum("cs,st,ct", w, kernel(Z, Z, model.vectors.gamma), w)) / 2


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("intercept", [0.0, 0.25])
def test_all_figures_are_those_of_numpy(tmp_path, base, intercept):
    X, y = random_problem(500, 40)
    model = random_machine(30, 40, (1.0, -1.0), base, about=ABOUT, bias=1.0, w_bias=intercept, sigmoid=PAIRS[:1])
    found = evaluate(model, Dataset(make_dataset(tmp_path / "data", X, y, base)))
    decision = numpys_values(model, X)
    assert found["accuracy"] == np.mean((decision > 0) == (y > 0))
    assert found["auc"] == pytest.approx(roc_auc_score(y, decision), rel=1e-12)
    losses = 0.5 * np.where(y > 0, 3.0, 1.0) @ np.maximum(0.0, 1.0 - y * decision)
    assert found["objective"] == pytest.approx(half_norm(model) + intercept**2 / 2 + losses, rel=1e-12)
    assert found["unknown_features"] == 0 and "log_loss" in found


def test_several_classes(tmp_path):
    X, _ = random_problem(400, 40)
    y = np.random.default_rng(2).choice([5.0, -1.0, 2.0], 400)
    model = random_machine(30, 40, (5.0, -1.0, 2.0), about={"loss": "hinge", "C": 2.0})
    found = evaluate(model, Dataset(make_dataset(tmp_path / "data", X, y)))
    decision, labels = numpys_values(model, X), np.array(model.labels)
    assert found["accuracy"] == np.mean(labels[decision.argmax(axis=1)] == y)
    signs = np.where(y[:, None] == labels, 1.0, -1.0)
    losses = 2.0 * np.maximum(0.0, 1.0 - signs * decision).sum()
    assert found["objective"] == pytest.approx(half_norm(model) + losses, rel=1e-12)


@pytest.mark.parametrize("n_features", [LARGE_W + 2000, LARGE_W + 1001, LARGE_W // 2])
def test_wide_data_whose_features_are_numbered_anew(tmp_path, n_features):
    """Features that only the rows or only the vectors have count in the distance."""
    X, y = random_problem(400, 60)
    places = np.append(np.random.default_rng(2).permutation(LARGE_W + 1000)[:59], LARGE_W + 1000)
    wide = sparse.csr_matrix((X.data, places[X.indices], X.indptr), (400, LARGE_W + 1001)).sorted_indices()
    dataset = Dataset(make_dataset(tmp_path / "data", wide, y))
    assert dataset.manifest.renumbered
    # The first 20 rows are the vectors, each with another feature if there are enough features.
    own = sparse.csr_matrix(
        (np.full(20, 0.5, np.float32), np.full(20, n_features - 1), np.arange(21)), (20, n_features)
    )
    Z = wide[:20].copy()
    Z.resize(20, n_features)
    model = with_vectors(Z + own)
    found = evaluate(model, dataset)
    # Only the columns that a row or a vector has.
    used = np.union1d(np.unique(wide.indices), np.unique((Z + own).indices))
    shown = [matrix_of(M, used) for M in (wide, Z + own)]
    decision = kernel(*shown, model.vectors.gamma) @ model.w
    assert found["auc"] == pytest.approx(roc_auc_score(y, decision), rel=1e-12)
    losses = 0.5 * np.where(y > 0, 3.0, 1.0) @ np.maximum(0.0, 1.0 - y * decision)
    norm = model.w @ kernel(shown[1], shown[1], model.vectors.gamma) @ model.w
    assert found["objective"] == pytest.approx(norm / 2 + losses, rel=1e-10)
    assert found["unknown_features"] == np.count_nonzero(wide.indices >= n_features)


def with_vectors(Z):
    w = np.random.default_rng(3).standard_normal(Z.shape[0])
    model = random_machine(1, 1)
    indptr, indices = Z.indptr.astype(np.int64), (Z.indices + 1).astype(np.int32)
    vectors = replace(
        model.vectors, width=Z.shape[1] + 1, indptr=indptr, indices=indices, values=Z.data.astype(np.float32)
    )
    return replace(model, labels=(1.0, -1.0), w=w, vectors=vectors, about=ABOUT)


def matrix_of(M, used):
    """(n_rows, len(used)) float64, columns beyond those of M being 0."""
    M = M.copy()
    M.resize(M.shape[0], used.max() + 1)
    return M.tocsc()[:, used].toarray().astype(float)
