"""POST /v1/models/{id}/threshold, and the rule of an evaluation that chooses one."""

import pytest

from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.storage.blocks.dataset import Dataset
from tests.api.app import check_problem, some_model

ROWS = {"rows": [{"1": float(k)} for k in range(-4, 5)]}


def predicted(service, model):
    answer = service.request("POST", f"/v1/models/{model}/predict", json=ROWS)
    return [(each["label"], each["decision_value"]) for each in answer.json()["predictions"]]


def test_another_model_is_cut_there(filled):
    made = filled.request("POST", f"/v1/models/{filled.model}/threshold", json={"threshold": 1})
    assert made.status_code == 201 and made.json()["threshold"] == 1.0
    model = made.json()["id"]
    before, after = predicted(filled, filled.model), predicted(filled, model)
    assert model != filled.model and [label for label, _ in before] != [label for label, _ in after]
    for (_, value), (label, lower) in zip(before, after, strict=True):
        assert lower == pytest.approx(value - 1.0) and label == (1.0 if value > 1.0 else -1.0)
    assert filled.request("GET", f"/v1/models/{filled.model}").json()["threshold"] is None
    assert model in {each["id"] for each in filled.request("GET", "/v1/models").json()["models"]}


def test_an_evaluation_chooses_one(filled):
    url, name = f"/v1/models/{filled.model}/evaluate", {"dataset": "data"}
    chosen = filled.request("POST", url, params={"threshold": "f1"}, json=name).json()["threshold"]
    dataset = Dataset(filled.settings.datasets / filled.store.dataset("data")["id"])
    assert chosen == evaluate(some_model(), dataset, threshold="f1")["threshold"]
    made = filled.request("POST", f"/v1/models/{filled.model}/threshold", json={"threshold": chosen}).json()["id"]
    before, after = (filled.request("POST", f"/v1/models/{each}/evaluate", json=name) for each in (filled.model, made))
    assert after.json()["f1"] >= before.json()["f1"] and after.json()["auc"] == before.json()["auc"]
    check_problem(filled.request("POST", url, params={"threshold": "f2"}, json=name), "threshold_range", 422)


@pytest.mark.parametrize(
    ("fields", "code"), [({}, "wrong_type"), ({"threshold": "1"}, "wrong_type"), ({"at": 1}, "unknown_field")]
)
def test_a_threshold_is_a_number(filled, fields, code):
    check_problem(filled.request("POST", f"/v1/models/{filled.model}/threshold", json=fields), code, 422)
