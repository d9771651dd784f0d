"""POST /v1/models/{id}/evaluate: the process's figures, and its faults as problems."""

import numpy as np
import pytest

from streamsvm.service.models.apart import evaluate_apart
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.storage.blocks.dataset import Dataset
from tests.api.app import check_problem, some_model
from tests.contracts.problems import random_problem


def test_the_figures_are_those_of_the_evaluation(filled):
    answer = filled.request("POST", f"/v1/models/{filled.model}/evaluate", json={"dataset": "data"})
    assert answer.status_code == 200
    dataset = Dataset(filled.settings.datasets / filled.store.dataset("data")["id"])
    expected = evaluate(some_model(), dataset)
    found = answer.json()
    assert (found.pop("model_id"), found.pop("dataset")) == (filled.model, "data")
    assert {**found["confusion"], "labels": (1.0, -1.0)} == expected.pop("confusion")
    assert {key: found[key] for key in expected} == expected
    assert "curves" not in found


def test_curves_are_answered_if_asked_for(filled):
    answer = filled.request("POST", f"/v1/models/{filled.model}/evaluate?curves=true", json={"dataset": "data"})
    dataset = Dataset(filled.settings.datasets / filled.store.dataset("data")["id"])
    found = answer.json()
    assert found["curves"] == evaluate(some_model(), dataset, curves=True)["curves"]
    recall, wrong = (found["curves"][f"{name}_positive_rate"] for name in ("true", "false"))
    assert np.trapezoid(recall, wrong) == pytest.approx(found["auc"], rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "code", "status"),
    [
        ({}, "wrong_type", 422),
        ({"dataset": 1}, "wrong_type", 422),
        ({"dataset": "data", "strict": True}, "unknown_field", 422),
        ({"dataset": "nosuch"}, "unknown_dataset", 404),
        ({"dataset": "../data"}, "unknown_dataset", 404),
    ],
)
def test_what_cannot_be_evaluated(filled, fields, code, status):
    check_problem(filled.request("POST", f"/v1/models/{filled.model}/evaluate", json=fields), code, status)


def test_a_dataset_that_is_not_there_yet(service):
    model = service.add_model(service.add_dataset("data"), some_model())
    service.store.add_dataset("coming")
    url = f"/v1/models/{model}/evaluate"
    check_problem(service.request("POST", url, json={"dataset": "coming"}), "not_ready", 409)


def test_faults_of_the_process_are_problems(service):
    X, y = random_problem(60, 40)
    dataset_id = service.add_dataset("data", X, y + 5)
    model = service.add_model(dataset_id, some_model())
    url = f"/v1/models/{model}/evaluate"
    assert "4" in check_problem(service.request("POST", url, json={"dataset": "data"}), "label_mismatch", 422)["detail"]
    (block,) = (service.settings.datasets / service.add_dataset("damaged") / "blocks").iterdir()
    block.write_bytes(block.read_bytes()[:-1])
    check_problem(service.request("POST", url, json={"dataset": "damaged"}), "dataset_corrupt", 500)


def test_what_was_deleted_during_an_evaluation_is_gone_and_not_damaged(service, monkeypatch):
    model = service.add_model(service.add_dataset("data"), some_model())

    async def deleted(*_):
        await service.app.state.context.datasets.delete("data")
        return await evaluate_apart(*_)

    monkeypatch.setattr("streamsvm.api.routes.models.evaluate_apart", deleted)
    check_problem(service.request("POST", f"/v1/models/{model}/evaluate", json={"dataset": "data"}), "unknown_dataset")
