"""Inference on tensors against the predictor's own reading of the same rows."""

import numpy as np
import pytest

from service.errors import ServiceError
from service.inference import describe, infer
from service.predictor import Predictor
from storage.model_file import Model
from tests.contracts.problems import libsvm_text, random_problem


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
