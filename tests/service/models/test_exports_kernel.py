"""Kernel machines in every format that holds them: round trips, damage; numpy and onnxruntime agree."""

import io
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from scipy import sparse

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError, onnx_graph
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from tests.machines import PAIRS, machine_of, random_machine, random_matrix
from tests.refusals import refused
from tests.service.models.model_files import check_onnxruntime, export, read

FORMATS = sorted(MODEL_FORMATS.keys() - {"liblinear"})
ALL = sorted(MODEL_FORMATS.keys() - {"liblinear", "libsvm"})
TEXTS = ("ham", "späm", 'a,"b')
ODD = [0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, -1e300, 0.1, 1 / 3, 1e22, -1e-5]
ODD_VALUES = [1e-45, -1.1754944e-38, 3.4028235e38, 0.1, 1 / 3, 16777216.0, -2.5, 1e-5, 123456.79, 1.0]


def check_same(found: Model, model: Model, name: str) -> None:
    """Two models are equal to the bit, but for the order of vectors and the zeros in LIBSVM's text."""
    if name == "libsvm":
        model = ordered(model)
    assert found.w.tobytes() == model.w.tobytes() and found.w.shape == model.w.shape
    assert found.w.flags.aligned and found.n_features == model.n_features
    for field in ("labels", "index_base", "sigmoid", "intercept"):
        assert np.array_equal(getattr(found, field), getattr(model, field)), field
    for field in ("gamma", "width"):
        assert getattr(found.vectors, field) == getattr(model.vectors, field), field
    for field in ("indptr", "indices", "values"):
        ours, theirs = getattr(model.vectors, field), getattr(found.vectors, field)
        assert (ours.tobytes(), ours.dtype) == (theirs.tobytes(), theirs.dtype), field


def ordered(model: Model) -> Model:
    """The model with the vectors of w > 0 first, and without zeros."""
    order = np.argsort(~(model.w > 0), kind="stable")
    parts = model.vectors.values, model.vectors.indices, model.vectors.indptr
    Z = sparse.csr_matrix(parts, (len(model.w), model.vectors.width))[order]
    Z.eliminate_zeros()
    same = {"gamma": model.vectors.gamma, "about": model.about, "sigmoid": model.sigmoid}
    return replace(
        machine_of(Z[:, model.index_base :], model.w[order], model.labels, model.index_base, **same),
        bias=model.bias,
        w_bias=model.w_bias,
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("base", "more"), [(0, {}), (1, {"bias": 1.0, "w_bias": 0.7})], ids=["plain", "bias"])
@pytest.mark.parametrize(("n_vectors", "n_features"), [(19, 12), (1, 1), (7, 0), (200, 1000)])
def test_a_machine_comes_back_to_the_bit(name, base, n_vectors, n_features, more):
    model = random_machine(n_vectors, n_features, base=base if n_features else 1, gamma=1 / 3, **more)
    data = export(name, model)
    found = read(name, data)
    check_same(found, model, name)
    assert export(name, found) == data or (name == "libsvm" and found.about != model.about)
    assert found.about["loss"] == "hinge"


@pytest.mark.parametrize("name", FORMATS)
def test_odd_numbers_come_back(name):
    Z = sparse.csr_matrix(np.tile(np.float32(ODD_VALUES), (len(ODD), 1)))
    check_same(read(name, export(name, machine_of(Z, ODD, gamma=5e-324))), machine_of(Z, ODD, gamma=5e-324), name)


@pytest.mark.parametrize("name", FORMATS)
def test_vectors_without_features_and_stored_zeros_come_back(name):
    Z = sparse.csr_matrix((np.float32([0.0, 1.5, -0.0, 2.0]), [0, 2, 1, 4], [0, 0, 2, 2, 4]), (4, 6))
    model = machine_of(Z, [1.0, -2.0, 0.5, -0.25], base=0)
    check_same(read(name, export(name, model)), model, name)


@pytest.mark.parametrize("name", ALL)
def test_a_machine_without_vectors(name):
    model = random_machine(0)
    check_same(read(name, export(name, model)), model, name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("labels", [(0.5, -1e300), TEXTS[:2], TEXTS, (3.0, 1.0, 2.0), ()], ids=str)
@pytest.mark.parametrize("has_sigmoid", [False, True])
def test_what_libsvm_has_no_room_for_comes_back_too(name, labels, has_sigmoid):
    n_values = len(labels) if len(labels) > 2 else 1
    model = random_machine(labels=labels, sigmoid=PAIRS[:n_values] if has_sigmoid and labels else None)
    data = export(name, model)
    found = read(name, data)
    check_same(found, model, name)
    assert found.about == model.about and export(name, found) == data


def test_small_pieces_are_put_together():
    assert len(list(MODEL_FORMATS["libsvm"].write(random_machine(500)))) == 1


def test_liblinear_names_the_formats_that_hold_it():
    with pytest.raises(ModelFormatError) as caught:
        MODEL_FORMATS["liblinear"].write(random_machine())
    assert {"libsvm", "npz", "onnx"} <= set(caught.value.hint.replace(",", " ").split())


GOOD = random_machine().vectors
INDICES, VALUES, INDPTR = GOOD.indices, GOOD.values, GOOD.indptr


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": np.nan},
        {"gamma": -1.0},
        {"width": 3},
        {"width": 2**31},
        {"width": 0},
        {"indices": INDICES - 1},
        {"indices": INDICES[::-1].copy()},
        {"indices": np.zeros_like(INDICES) + 1},
        {"indices": INDICES[:-1]},
        {"indices": INDICES.astype(np.int64)},
        {"values": np.where(np.arange(len(VALUES)) == 3, np.nan, VALUES).astype(np.float32)},
        {"values": VALUES.astype(np.float64)},
        {"indptr": INDPTR[:-1]},
        {"indptr": INDPTR + 1},
        {"indptr": INDPTR[::-1].copy()},
        {"indptr": np.empty(0, np.int64)},
    ],
)
def test_refuses_what_no_training_makes(name, changes):
    model = random_machine()
    with refused(ModelFormatError, "bad_model"):
        MODEL_FORMATS[name].write(replace(model, vectors=replace(model.vectors, **changes)))


@pytest.mark.parametrize("name", ["gamma", "n_features", "indptr", "indices", "values"])
def test_npz_without_one_of_the_arrays(name):
    arrays = dict(np.load(io.BytesIO(export("npz", random_machine(3, 4, sigmoid=PAIRS[:1])))))
    stored = io.BytesIO()
    np.savez(stored, **{key: array for key, array in arrays.items() if key != name})
    with pytest.raises(ModelFormatError):
        read("npz", stored.getvalue())


@pytest.mark.parametrize("labels", [(3.0, -2.0), TEXTS])
@pytest.mark.parametrize("base", [0, 1])
def test_npz_is_read_with_plain_numpy(tmp_path, labels, base):
    machine = random_machine(labels=labels, base=base)
    (tmp_path / "a.npz").write_bytes(export("npz", machine))
    X = random_matrix(300, 12).toarray().astype(float)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as model:
        parts = model["values"].astype(float), model["indices"] - model["index_base"], model["indptr"]
        Z = sparse.csr_matrix(parts, (len(model["indptr"]) - 1, model["n_features"])).toarray()
        squares = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
        decision = np.exp(-model["gamma"] * squares) @ model["w"].T + model["intercept"]
    np.testing.assert_allclose(decision, Predictor(machine).decision_values(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("labels", [(3.0, 1.0, 2.0), TEXTS, (4.0, -1.0), (0.5, 2.0), TEXTS[:2], ()], ids=str)
@pytest.mark.parametrize(("has_sigmoid", "n_features"), [(False, 200), (True, 12)])
def test_onnxruntime_agrees_on_labels_scores_and_probabilities(labels, has_sigmoid, n_features):
    n_values = len(labels) if len(labels) > 2 else 1
    sigmoid = PAIRS[:n_values] if has_sigmoid and labels else None
    model = random_machine(30, n_features, labels, sigmoid=sigmoid, gamma={12: 0.3, 200: 0.1}[n_features])
    X = random_matrix(1000, n_features).toarray().astype(float)
    X[::100] *= 1e4  # far from all vectors
    found = check_onnxruntime(model, X)
    assert not labels or len(set(found["labels"].tolist())) == len(labels)


@pytest.mark.parametrize(("n_vectors", "n_features"), [(0, 3), (3, 0), (1, 1)])
def test_onnxruntime_agrees_where_there_is_little(n_vectors, n_features):
    model = random_machine(n_vectors, n_features)
    X = np.ones((2, n_features))
    (found,) = onnxruntime.InferenceSession(export("onnx", model)).run(["decision_values"], {"X": X})
    np.testing.assert_allclose(found[:, 0], Predictor(model).decision_values(X), rtol=1e-12)


def test_onnx_holds_the_values_of_the_vectors_not_all_their_features():
    model = machine_of(random_matrix(100, 20_000, 0.01), np.ones(100))
    stored = len(model.vectors.values)
    assert len(export("onnx", model)) < 40 * stored < 4 * 100 * 20_000 / 5


def test_onnx_refuses_a_matrix_that_fills_the_memory(monkeypatch):
    monkeypatch.setattr(onnx_graph, "MOST_ONNX_WEIGHTS", 100)
    with pytest.raises(ModelFormatError, match="ONNX"):
        MODEL_FORMATS["onnx"].write(random_machine(10, 12))
