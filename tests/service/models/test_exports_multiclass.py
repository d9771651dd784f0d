"""Models of several classes, of texts and with probabilities in every format; LIBLINEAR and onnxruntime agree."""

import numpy as np
import onnxruntime
import pytest
from liblinear import liblinearutil
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.exports.parts import WEIGHTS_A_PIECE
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Rows
from tests.reference.liblinear import liblinear_predict
from tests.service.models.model_files import check_onnxruntime, export, read

FORMATS = sorted(MODEL_FORMATS.keys() - {"libsvm"})  # that is of kernel machines
TEXTS = ("ham", "späm", 'a,"b')
PAIRS = ((-1.5, 0.25), (-0.5, -1e-3), (-2.0, 1 / 3))


def make(n_features: int = 7, labels=(3.0, 1.0, 2.0), bias: float | None = None, **changes) -> Model:
    """A model with odd weights, in which two classes tie."""
    rng = np.random.default_rng(len(labels))
    w = rng.integers(-3, 4, (len(labels), n_features)) / 8
    w_bias = tuple(rng.standard_normal(len(labels)).tolist()) if bias is not None else 0.0
    return Model(w, labels, **{"index_base": 1, "bias": bias, "w_bias": w_bias, "about": {"loss": "hinge"}, **changes})


def check_same(found: Model, model: Model) -> None:
    assert found.w.tobytes() == model.w.tobytes() and found.w.shape == model.w.shape
    for name in ("labels", "bias", "w_bias", "sigmoid"):
        assert getattr(found, name) == getattr(model, name), name


def random_rows(n_features: int, n_rows: int = 1000) -> sparse.csr_matrix:
    """Rows of small whole numbers, so that many decision values are equal."""
    rng = np.random.default_rng(3)
    return sparse.csr_matrix(rng.integers(-1, 2, (n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.5))


def predicted(model: Model, X: sparse.csr_matrix) -> Prediction:
    indices = (X.indices + model.index_base).astype(np.int32)
    return Predictor(model).predict(
        Rows(np.zeros(X.shape[0]), X.indptr.astype(np.int64), indices, X.data.astype(np.float32))
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bias", [None, 0.0, 1.5])
@pytest.mark.parametrize("n_features", [0, 1, 7, WEIGHTS_A_PIECE])
def test_several_classes_come_back_to_the_bit(name, bias, n_features):
    model = make(n_features, bias=bias)
    check_same(read(name, export(name, model)), model)
    assert max(map(len, MODEL_FORMATS[name].write(model))) < 1 << 20


@pytest.mark.parametrize("name", ["npz", "onnx"])
@pytest.mark.parametrize("bias", [None, 2.0])
def test_texts_and_sigmoids_come_back(name, bias):
    model = make(labels=TEXTS, bias=bias, sigmoid=PAIRS)
    check_same(read(name, export(name, model)), model)
    binary = Model(np.array([0.5, -1.0]), TEXTS[:2], 1, bias, 0.0 if bias is None else 0.3, {}, PAIRS[:1])
    check_same(read(name, export(name, binary)), binary)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "changes",
    [
        {"labels": (1.0, 2.0, 2.0)},
        {"labels": (1.0, "a", "b")},
        {"labels": (1.0, 2.0, 3.0, 4.0), "w": np.zeros((3, 2))},
        {"labels": (1.0,)},
        {"labels": (1.0, 2.0)},
        {"labels": ()},
        {"sigmoid": PAIRS[:2]},
        {"sigmoid": (*PAIRS[:2], (np.nan, 0.0))},
        {"bias": 1.0, "w_bias": 0.5},
        {"bias": 1.0, "w_bias": (0.5, 1.0)},
        {"bias": 1.0, "w_bias": (0.5, 1.0, np.inf)},
        {"w": np.full((3, 2), np.nan)},
    ],
)
def test_refuses_what_no_training_makes(name, changes):
    fields = {"w": np.zeros((len(changes.get("labels", TEXTS)), 2)), "labels": (1.0, 2.0, 3.0), "index_base": 1}
    with pytest.raises(ModelFormatError):
        MODEL_FORMATS[name].write(Model(**{**fields, **changes}))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "crammer_singer"])
@pytest.mark.parametrize("bias", [None, 1.5])
def test_liblinear_predicts_the_same_labels_for_all_rows(tmp_path, bias, loss):
    about = {"loss": "hinge", "spec": {"multiclass": loss}} if loss == "crammer_singer" else {"loss": loss}
    model = make(bias=bias, about=about)
    path = tmp_path / "model"
    path.write_bytes(export("liblinear", model))
    X = random_rows(7)
    found = predicted(model, X)
    labels, decision = liblinear_predict(path, X)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.decision_values, decision, rtol=1e-13, atol=1e-13)
    best = found.decision_values.max(axis=1, keepdims=True)
    assert bias is not None or ((found.decision_values == best).sum(axis=1) > 1).any(), "no tie was ever seen"


@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize(("bias", "n_classes"), [(0.5, 2), (-1, 3), (0.5, 11)])
def test_models_of_liblinear_predict_here_as_there(tmp_path, solver, bias, n_classes):
    X = random_rows(9, 200).astype(float)
    y = np.random.default_rng(0).integers(0, n_classes, 200) * 3 - 5
    theirs = liblinearutil.train(y, X, f"-s {solver} -B {bias} -q")
    path = tmp_path / "theirs"
    liblinearutil.save_model(str(path), theirs)
    model = read("liblinear", path.read_bytes())
    assert model.labels == tuple(theirs.get_labels()) and model.is_crammer_singer == (solver == 4 and n_classes > 2)
    (tmp_path / "ours").write_bytes(export("liblinear", model))
    found = predicted(model, X)
    for name in ("theirs", "ours"):
        labels, decision = liblinear_predict(tmp_path / name, X)
        np.testing.assert_array_equal(found.labels, labels)
        if n_classes > 2:  # of two by Crammer and Singer the reference has room for one value
            np.testing.assert_allclose(found.decision_values, decision, rtol=1e-12, atol=1e-12)
    if solver in (0, 6, 7):
        _, _, expected = liblinearutil.predict(y, X, theirs, "-b 1 -q")
        np.testing.assert_allclose(Predictor(model).probabilities(found.decision_values), expected, rtol=1e-12)


def test_one_against_the_rest_is_decided_as_scikit_learn_does():
    X = random_rows(9, 200).astype(float)
    y = np.random.default_rng(0).integers(0, 4, 200)
    theirs = OneVsRestClassifier(LinearSVC(random_state=0)).fit(X, y)
    w = np.stack([one.coef_[0] for one in theirs.estimators_])
    w_bias = tuple(float(one.intercept_[0]) for one in theirs.estimators_)
    found = predicted(Model(w, tuple(map(float, theirs.classes_)), 1, 1.0, w_bias), X)
    np.testing.assert_allclose(found.decision_values, theirs.decision_function(X), rtol=1e-12, atol=1e-12)
    assert found.labels.tolist() == theirs.predict(X).tolist()


def test_a_model_of_a_thousand_classes_comes_back_through_liblinear():
    model = make(20, tuple(float(label) for label in range(1000)), 1.0)
    check_same(read("liblinear", export("liblinear", model)), model)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ((3.0, 1.0, 2.0), np.int64),
        (TEXTS, object),
        ((4.0, -1.0), np.int64),
        ((0.5, 2.0), np.float64),
        (TEXTS[:2], object),
    ],
)
@pytest.mark.parametrize("probability", [None, "sigmoid", "logistic"])
@pytest.mark.parametrize("bias", [None, 1.5])
def test_onnxruntime_agrees_on_labels_scores_and_probabilities(labels, dtype, probability, bias):
    rows = make(9, labels, bias)
    n_values = len(labels) if len(labels) > 2 else 1
    model = Model(
        rows.w if n_values > 1 else rows.w[0],
        labels,
        1,
        bias,
        0.0 if bias is None else rows.w_bias if n_values > 1 else rows.w_bias[0],
        {"loss": "logistic" if probability == "logistic" else "hinge"},
        PAIRS[:n_values] if probability == "sigmoid" else None,
    )
    found = check_onnxruntime(model, random_rows(9).toarray().astype(float))
    assert found["labels"].dtype == dtype


def test_onnx_classes_none_of_which_says_anything_are_all_the_same():
    model = Model(np.full((4, 1), -1e5), (1.0, 2.0, 3.0, 4.0), 1, about={"loss": "logistic"})
    (found,) = onnxruntime.InferenceSession(export("onnx", model)).run(["probabilities"], {"X": np.ones((1, 1))})
    assert found.tolist() == [[0.25] * 4]


def test_npz_is_read_with_plain_numpy(tmp_path):
    model = make(9, TEXTS, 1.5, sigmoid=PAIRS)
    (tmp_path / "a.npz").write_bytes(export("npz", model))
    X = random_rows(9)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as stored:
        decision = X @ stored["w"].T + stored["intercept"]
        assert stored["labels"][decision.argmax(axis=1)].tolist() == predicted(model, X).labels.tolist()
        assert stored["sigmoid"].tolist() == [list(pair) for pair in PAIRS]
