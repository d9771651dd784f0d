"""Evaluations against numpy's sums over the same rows."""

import errno
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import confusion_matrix, roc_auc_score

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.matching import named_numbers
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Shape
from streamsvm.storage.features.weighing import Unit
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import LARGE_W
from tests.contracts.problems import libsvm_text, make_dataset, random_problem
from tests.refusals import refused

N_FEATURES = 150


def some_model(base=1, loss="hinge", n_features=N_FEATURES, labels=(1.0, -1.0)) -> Model:
    w = np.random.default_rng(1).standard_normal(n_features)
    about = {"loss": loss, "C": 0.5, "spec": {"class_weight": {"1": 3.0}}}
    return Model(w, labels, base, 1.5, 0.2, about)


def numpys_objective(model: Model, margins: np.ndarray, y: np.ndarray) -> float:
    slack = np.maximum(0.0, 1.0 - margins)
    losses = slack if model.about["loss"] == "hinge" else slack**2
    return float((model.w @ model.w + model.w_bias**2) / 2 + 0.5 * np.where(y > 0, 3.0, 1.0) @ losses)


def test_names_of_labels_are_compared(tmp_path):
    """Two datasets may store the same label under different numbers."""
    text, model = b"y,a\nham,1\nspam,2\nspam,3\n", some_model(labels=(1.0, 0.0))
    model = replace(model, w=model.w[:1])
    ingest([text], tmp_path / "data", InputOptions("csv"))
    ingest([text.replace(b"ham", b"toast")], tmp_path / "other", InputOptions("csv"))
    about = {"loss": "hinge", "C": 1.0, "spec": {"class_weight": {"spam": 2.0}}}
    named = replace(model, about=about, labels=("spam", "ham"))
    assert evaluate(named, Dataset(tmp_path / "data"))["rows"] == 3
    for wrong, directory in ((named, "other"), (model, "data"), (replace(model, labels=()), "data")):
        with refused(ServiceError, "label_mismatch"):
            evaluate(wrong, Dataset(tmp_path / directory))


def test_columns_are_found_by_their_names(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 3)).round(3)
    y = np.where(X @ [1.0, -2.0, 4.0] > 0, 1, -1)
    lines = [f"{label},{c},{i},{a},{b}\n" for i, (label, (a, b, c)) in enumerate(zip(y, X.tolist(), strict=True))]
    text = "".join(["label,c,id,a,b\n", *lines]).encode()
    ingest([text], tmp_path / "data", InputOptions("csv"))
    dataset, about = Dataset(tmp_path / "data"), {"input": named_numbers(["a", "b", "c"])}
    linear = Model(np.array([1.0, -2.0, 4.0]), (1.0, -1.0), 0, None, 0.0, about)
    indices = np.tile(np.arange(3, dtype=np.int32), 4)
    vectors = SupportVectors(0.1, 3, np.arange(5) * 3, indices, X[:4].astype(np.float32).ravel())
    kernel = Model(np.array([1.0, -1.0, 2.0, -3.0]), (1.0, -1.0), 0, None, 0.0, about, vectors=vectors)
    mapped = replace(linear, maps=FeatureMaps.planned(Shape(3, 0, 0), [("unit", Unit())]))
    for model in (linear, kernel, mapped):
        found = evaluate(model, dataset)
        (asked,) = Predictor(model).predict_text([text])
        assert found["accuracy"] == np.mean(asked.labels == asked.expected) > 0.4
        assert found["unknown_columns"] == {"count": 1, "names": ["id"]}
    assert evaluate(linear, dataset)["accuracy"] == 1.0
    with refused(ServiceError, "column_missing", match="lacks columns of the model: d"):
        evaluate(replace(linear, w=np.ones(1), about={"input": named_numbers(["d"])}), dataset)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("base", [0, 1])
def test_all_figures_are_those_of_numpy(tmp_path, base, loss):
    X, y = random_problem(500, N_FEATURES)
    model = some_model(base, loss)
    found = evaluate(model, Dataset(make_dataset(tmp_path / "data", X, y, base)))
    decision = X.astype(float) @ model.w + model.intercept
    assert found["rows"] == 500
    assert found["accuracy"] == np.mean((decision > 0) == (y > 0))
    assert found["auc"] == pytest.approx(roc_auc_score(y, decision), rel=1e-12)
    assert found["confusion"]["labels"] == (1.0, -1.0)
    predicted = np.where(decision > 0, 1.0, -1.0)
    assert found["confusion"]["rows"] == confusion_matrix(y, predicted, labels=[1.0, -1.0]).tolist()
    assert found["objective"] == pytest.approx(numpys_objective(model, y * decision, y), rel=1e-12)
    assert found["unknown_features"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert not found.keys() & {"log_loss", "brier_score", "reliability"}


def test_wide_data_whose_features_are_numbered_anew(tmp_path):
    X, y = random_problem(400, 60)
    places = np.append(np.random.default_rng(2).permutation(LARGE_W + 1000)[:59], LARGE_W + 1000)
    wide = sparse.csr_matrix((X.data, places[X.indices], X.indptr), (400, LARGE_W + 1001)).sorted_indices()
    dataset = Dataset(make_dataset(tmp_path / "data", wide, y))
    assert dataset.manifest.renumbered
    for n_features in (LARGE_W + 1001, LARGE_W // 2):
        model = some_model(n_features=n_features)
        (expected,) = Predictor(model).predict_text([libsvm_text(wide, y)])
        found = evaluate(model, dataset)
        assert found["accuracy"] == np.mean(expected.labels == expected.expected)
        assert found["auc"] == pytest.approx(roc_auc_score(y, expected.decision_values), rel=1e-12)
        assert found["unknown_features"] == expected.unknown_features
        assert (expected.unknown_features > 0) == (n_features < wide.shape[1])


def test_a_dataset_of_one_class_has_no_auc(tmp_path):
    X, _ = random_problem(50, N_FEATURES)
    found = evaluate(some_model(), Dataset(make_dataset(tmp_path / "data", X, np.full(50, -1.0))))
    assert found["auc"] is None
    assert sum(found["confusion"]["rows"][1]) == 50


def test_a_model_that_does_not_say_its_problem_has_no_objective(tmp_path):
    dataset = Dataset(make_dataset(tmp_path / "data", *random_problem(50, 20)))
    assert evaluate(Model(np.ones(20), (1.0, -1.0), 1), dataset)["objective"] is None


def test_targets_that_are_all_one_have_no_r2(tmp_path):
    X, _ = random_problem(50, 20)
    found = evaluate(Model(np.ones(20), (), 1), Dataset(make_dataset(tmp_path / "data", X, np.full(50, 7.0))))
    assert found["r2"] is None and found["mse"] > 0


@pytest.mark.parametrize("step", ["tempfile.TemporaryFile", "os.posix_fallocate"])
def test_a_full_disk_is_told(tmp_path, monkeypatch, step):
    """The disk may have no room for the file, or for its directory entry."""
    dataset = Dataset(make_dataset(tmp_path / "data", *random_problem(50, 20)))

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(step, refuse)
    with refused(ServiceError, "out_of_space"):
        evaluate(some_model(), dataset)


@pytest.mark.parametrize(
    ("model", "base", "code"),
    [
        (some_model(labels=(2.0, -1.0)), 1, "label_mismatch"),
        (some_model(base=1), 0, "index_base_mismatch"),
        (some_model(base=0, n_features=20), 1, "index_base_mismatch"),
    ],
)
def test_a_dataset_the_model_is_not_made_for(tmp_path, model, base, code):
    dataset = Dataset(make_dataset(tmp_path / "data", *random_problem(50, 20), base))
    with refused(ServiceError, code):
        evaluate(model, dataset)
