"""Answers for models of several classes, with texts as labels and with probabilities, in all their forms."""

import csv
import io
import json

import numpy as np
import pytest

from streamsvm.service.models.predicting.answers import ANSWERS, keep
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model

TEXT = b"0 1:1\n0 1:-1 2:3\n0 9:1\n"
# A row of weights for each class; the decision values of TEXT's rows are multiples of 1/2.
W = np.array([[1.0, 0.0], [-1.0, 0.5], [0.5, 1.0]])
VALUES = [[1.0, -1.0, 0.5], [-1.0, 2.5, 2.5], [0.0, 0.0, 0.0]]
LABELS = ("a", 'b,"', "ü")


def answers(model: Model, directory) -> dict[str, bytes]:
    """Labels of either type."""
    predictor = Predictor(model)
    return {
        kind: b"".join(answer(keep(predictor, predictor.predict_text([TEXT]), io.BytesIO())))
        for kind, answer in ANSWERS.items()
    }


def shares(values: list[list[float]]) -> np.ndarray:
    found = 1 / (1 + np.exp(-np.array(values)))
    return found / found.sum(axis=1, keepdims=True)


def test_several_classes(tmp_path):
    found = answers(Model(W, (2.0, 7.0, 5.0), 1), tmp_path)
    document = json.loads(found["application/json"])
    assert document["labels"] == [2.0, 7.0, 5.0]
    assert (document["rows"], document["unknown_features"]) == (3, 1)
    expected = [
        {"label": label, "decision_value": values} for label, values in zip([2.0, 7.0, 2.0], VALUES, strict=True)
    ]
    assert document["predictions"] == expected
    assert [json.loads(line) for line in found["application/x-ndjson"].splitlines()] == expected
    assert found["text/plain"] == b"2\n7\n2\n"
    head, *rows = csv.reader(io.StringIO(found["text/csv"].decode()))
    assert head == ["label", "decision_value_2", "decision_value_7", "decision_value_5"]
    assert [list(map(float, row)) for row in rows] == [
        [label, *values] for label, values in zip([2, 7, 2], VALUES, strict=True)
    ]


def test_texts_and_probabilities(tmp_path):
    found = answers(Model(W, LABELS, 1, about={"loss": "logistic"}), tmp_path)
    predictions = json.loads(found["application/json"])["predictions"]
    assert [item["label"] for item in predictions] == ["a", 'b,"', "a"]
    np.testing.assert_allclose([item["probability"] for item in predictions], shares(VALUES), rtol=1e-12)
    assert found["text/plain"].decode().splitlines() == ["a", 'b,"', "a"]
    head, *rows = csv.reader(io.StringIO(found["text/csv"].decode()))
    assert head == ["label", *(f"{what}_{label}" for what in ("decision_value", "probability") for label in LABELS)]
    assert [row[0] for row in rows] == ["a", 'b,"', "a"]
    np.testing.assert_allclose(np.array([row[4:] for row in rows], float), shares(VALUES), rtol=1e-12)


def test_two_classes_with_probabilities(tmp_path):
    found = answers(Model(W[0], (3.0, -2.0), 1, sigmoid=((-2.0, 0.5),)), tmp_path)
    document = json.loads(found["application/json"])
    first = 1 / (1 + np.exp(-2 * np.array([1.0, -1.0, 0.0]) + 0.5))
    assert document["labels"] == [3.0, -2.0]
    assert [item["decision_value"] for item in document["predictions"]] == [1.0, -1.0, 0.0]
    probability = [item["probability"] for item in document["predictions"]]
    np.testing.assert_allclose(probability, np.stack([first, 1 - first], 1), rtol=1e-12)
    assert found["text/csv"].startswith(b"label,decision_value,probability_3,probability_-2\r\n3,1.0,")


def test_two_classes_without_are_answered_as_ever(tmp_path):
    found = answers(Model(W[0], (3.0, -2.0), 1), tmp_path)
    assert found["application/x-ndjson"].splitlines()[0] == b'{"label":3.0,"decision_value":1.0}'
    assert found["text/csv"] == b"label,decision_value\r\n3,1.0\r\n-2,-1.0\r\n-2,0.0\r\n"
    assert found["text/plain"] == b"3\n-2\n-2\n"


def test_a_sum_beyond_float64_is_null_in_json(tmp_path):
    found = answers(Model(np.array([[-1.7e308, 1e308], [0.0, 0.0], [0.0, 0.0]]), (1.0, 2.0, 3.0), 1), tmp_path)
    assert json.loads(found["application/json"])["predictions"][1]["decision_value"] == [None, 0.0, 0.0]


@pytest.mark.parametrize("n_classes", [3, 5000])
def test_many_rows_come_in_pieces_and_in_order(tmp_path, n_classes):
    w = np.zeros((n_classes, 3))
    w[0, 0] = w[1, 1] = w[2, 2] = 1.0
    predictor = Predictor(Model(w, tuple(map(float, range(n_classes))), 1))
    order = np.random.default_rng(0).integers(0, 3, 60_000 // n_classes)
    text = b"".join(b"0 %d:1\n" % (place + 1) for place in order)
    kept = keep(predictor, predictor.predict_text([text]), io.BytesIO())
    pieces = list(kept.pieces())
    assert len(pieces) > 1
    assert [label for piece in pieces for label in piece.labels] == order.tolist()
