"""Inference on tensors against the predictor on the same rows as text."""

import numpy as np
import pytest

from streamsvm.reader.parsers.tables.column_match import named_numbers
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.inference import describe, infer, left_out
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Shape
from streamsvm.storage.features.weighted_degree import WeightedDegree
from streamsvm.storage.models.model_file import Model
from tests.contracts.problems import libsvm_text, random_problem
from tests.raw_models import STRINGS, table_model


def model_of(n_features: int, base: int) -> Predictor:
    return Predictor(Model(np.random.default_rng(0).standard_normal(n_features), (2.0, 1.0), base, 1.0, 0.3))


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("n_features", [40, 30], ids=["known", "unknown"])
def test_sparse_and_dense_rows_are_predicted_as_their_text(base, n_features):
    X, y = random_problem(100, 40)
    predictor = model_of(n_features, base)
    (expected,) = predictor.predict_text([libsvm_text(X, y, base)])
    rows = {"indptr": X.indptr, "indices": X.indices + base, "values": X.data}
    dense = {"X": X[:, :n_features].toarray()}
    for found in (infer(predictor, rows), infer(predictor, dense)):
        np.testing.assert_allclose(found["decision_value"], expected.decision_values, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found["label"], expected.labels)


def test_a_model_of_regression_gives_values():
    predictor = Predictor(Model(np.array([2.0]), (), 1, 1.0, 0.5))
    assert [output["name"] for output in describe("m", predictor)["outputs"]] == ["value"]
    found = infer(predictor, {"X": np.array([[1.0], [-3.0]])})
    assert {name: values.tolist() for name, values in found.items()} == {"value": [2.5, -5.5]}


@pytest.mark.parametrize("labels", [(3.0, 1.0, 2.0), ("a", "b", "c")])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_several_classes_have_a_decision_value_each_and_probabilities(labels, loss):
    X, y = random_problem(100, 40)
    w = np.random.default_rng(0).standard_normal((3, 40))
    predictor = Predictor(Model(w, labels, 1, 1.0, (0.1, 0.2, -0.3), {"loss": loss}))
    (expected,) = predictor.predict_text([libsvm_text(X, y, 1)])
    rows = {"indptr": X.indptr, "indices": X.indices + 1, "values": X.data}
    for found in (infer(predictor, rows), infer(predictor, {"X": X.toarray()})):
        np.testing.assert_allclose(found["decision_value"], expected.decision_values, rtol=1e-12, atol=1e-12)
        assert found["label"].tolist() == expected.labels.tolist()
        assert ("probability" in found) == (loss == "logistic")
        if loss == "logistic":
            shares = 1 / (1 + np.exp(-expected.decision_values))
            shares /= shares.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(found["probability"], shares, rtol=1e-12)
    described = {
        tensor["name"]: (tensor["datatype"], tensor["shape"]) for tensor in describe("m", predictor)["outputs"]
    }
    kind = "BYTES" if labels[0] == "a" else "FP64"
    more = {"probability": ("FP64", [-1, 3])} if loss == "logistic" else {}
    assert described == {"label": (kind, [-1]), "decision_value": ("FP64", [-1, 3]), **more}
    assert describe("m", predictor)["parameters"] == {"labels": list(labels)}


def test_two_classes_have_two_probabilities():
    predictor = Predictor(Model(np.array([2.0]), (4.0, 3.0), 1, sigmoid=((-2.0, 0.5),)))
    found = infer(predictor, {"X": np.array([[1.0], [-3.0]])})
    first = 1 / (1 + np.exp(-2 * np.array([2.0, -6.0]) + 0.5))
    np.testing.assert_allclose(found["probability"], np.stack([first, 1 - first], 1), rtol=1e-12)
    assert found["decision_value"].tolist() == [2.0, -6.0]


def test_no_rows_are_no_predictions():
    predictor = model_of(3, 1)
    none = np.empty(0)
    assert infer(predictor, {"X": np.empty((0, 3))})["label"].shape == (0,)
    sparse = {"indptr": np.zeros(1, int), "indices": none.astype(int), "values": none}
    assert infer(predictor, sparse)["label"].shape == (0,)


GOOD = {"indptr": [0, 1, 3], "indices": [1, 2, 3], "values": [0.5, 1.0, 2.0]}


@pytest.mark.parametrize(
    "changes",
    [
        {"indptr": [0, 1, 2]},
        {"indptr": [1, 1, 3]},
        {"indptr": [0, 4, 3]},
        {"indptr": []},
        {"indptr": [[0, 3]]},
        {"indptr": [0.0, 1.0, 3.0]},
        {"indices": [1, 2]},
        {"indices": [0, 2, 3]},
        {"indices": [-(2**62), 2, 3]},
        {"indices": [1.0, 2.0, 3.0]},
        {"X": [[1.0, 2.0, 3.0]]},
    ],
)
def test_tensors_that_are_no_rows(changes):
    predictor = model_of(3, 1)
    assert len(infer(predictor, {name: np.array(values) for name, values in GOOD.items()})["label"]) == 2
    with pytest.raises(ServiceError) as caught:
        infer(predictor, {name: np.array(values) for name, values in {**GOOD, **changes}.items()})
    assert caught.value.code == "bad_tensor"


@pytest.mark.parametrize("tensors", [{}, {"X": [1.0, 2.0, 3.0]}, {"X": [[1.0, 2.0]]}, {"Y": [[1.0, 2.0, 3.0]]}])
def test_dense_rows_have_the_models_features(tensors):
    with pytest.raises(ServiceError) as caught:
        infer(model_of(3, 1), {name: np.array(values) for name, values in tensors.items()})
    assert caught.value.code == "bad_tensor"


def texts(*given: str) -> np.ndarray:
    return np.array(given, object)


TABLE = {"size": np.array([2, 4]), "proto": texts("udp", ""), "flag": texts("S0", "S0")}


def test_columns_of_a_table():
    predictor = Predictor(table_model())
    upright = {name: column[:, None] for name, column in reversed(TABLE.items())}
    for tensors in (TABLE, upright, {**TABLE, "id": np.arange(3), "label": texts("a")}):
        assert infer(predictor, tensors)["decision_value"].tolist() == [111.0, 12.0]
        assert left_out(predictor, tensors) == (["id"] if "id" in tensors else [])
    assert infer(predictor, {"X": np.array([[2.0, 0.0, 0.0, 1.0]])})["decision_value"].tolist() == [101.0]
    described = {each["name"]: each["datatype"] for each in describe("m", predictor)["inputs"]}
    assert described.items() >= {"proto": "BYTES", "size": "FP64", "flag": "BYTES", "X": "FP64"}.items()


@pytest.mark.parametrize("dtype", [bool, np.float16, np.uint8, np.int64])
def test_a_column_of_numbers_may_be_of_any_type(dtype):
    found = infer(Predictor(table_model()), {**TABLE, "size": np.array([1, 0], dtype)})
    assert found["decision_value"].tolist() == [110.5, 10.0]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"size": np.array([2])}, "bad_tensor"),
        ({"size": np.array([[2, 4]])}, "bad_tensor"),
        ({"size": texts("2", "4")}, "wrong_type"),
        ({"X": np.zeros((2, 4))}, "bad_tensor"),
        ({"size": None}, "column_missing"),
    ],
)
def test_columns_that_are_none_of_the_models(changes, code):
    tensors = {name: column for name, column in {**TABLE, **changes}.items() if column is not None}
    with pytest.raises(ServiceError) as caught:
        infer(Predictor(table_model(missing="error")), tensors)
    assert caught.value.code == code


@pytest.mark.parametrize("missing", ["error", "zero"])
def test_columns_of_numbers(missing):
    """The metadata name X first, because some clients send the first input only."""
    about = {"loss": "hinge", "input": {**named_numbers(["b", "a"]), "missing": missing}}
    predictor = Predictor(Model(np.array([1.0, 10.0]), (1.0, -1.0), 0, None, 0.0, about))
    found = infer(predictor, {"a": np.array([1, 0]), "b": np.array([2.0, 3.0])})
    assert found["decision_value"].tolist() == [12.0, 3.0]
    assert infer(predictor, {"X": np.array([[2.0, 1.0]])})["decision_value"].tolist() == [12.0]
    assert [each["name"] for each in describe("m", predictor)["inputs"]] == [
        "X",
        "indptr",
        "indices",
        "values",
        "b",
        "a",
    ]
    with pytest.raises(ServiceError, match="lacks columns of the model: a"):
        infer(predictor, {"b": np.array([1.0])})


def model_of_strings() -> Predictor:
    maps = FeatureMaps.planned(Shape(2, 0, 4), [("weighted_degree", WeightedDegree(1))])
    w = np.tile([1.0, 0.0, 0.0, 0.0], 4)  # counts the A in 4 bases, each worth 1 / 2
    return Predictor(Model(w, (1.0, -1.0), 0, 1.0, 0.0, {"loss": "hinge", "input": STRINGS}, maps=maps))


def test_strings_of_bases():
    predictor = model_of_strings()
    found = infer(predictor, {"strings": texts("ACAT", "GGGG", "aaaa")})
    np.testing.assert_allclose(found["decision_value"], [1.0, 0.0, 2.0], rtol=1e-6)
    assert [each["name"] for each in describe("m", predictor)["inputs"]] == ["strings"]
    assert infer(predictor, {"strings": texts()})["label"].shape == (0,)


@pytest.mark.parametrize(
    ("tensors", "code"),
    [
        ({"strings": texts("ACATA")}, "string_length"),
        ({"strings": texts("AC>T")}, "not_a_base"),
        ({"strings": np.array([1.0])}, "bad_tensor"),
        ({"documents": texts("ACAT")}, "bad_tensor"),
        # Numbers are no words of bases: what would be made of them lies beyond the row.
        ({"X": np.ones((1, 2))}, "bad_tensor"),
        ({"indptr": np.array([0, 0]), "indices": np.empty(0, int), "values": np.empty(0)}, "bad_tensor"),
    ],
)
def test_tensors_that_are_no_strings(tensors, code):
    with pytest.raises(ServiceError) as caught:
        infer(model_of_strings(), tensors)
    assert caught.value.code == code
