"""Kernel machines through the service: text, job, model, evaluation, cross-validation."""

import io

import httpx
import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.svm import SVC

from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from tests.contracts.problems import libsvm_text
from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import PLAIN, wait_for

GAMMA = 0.5
RBF = {"kernel": "rbf", "gamma": GAMMA, "budget": 80}


def rings(n_rows=600, n_classes=2, seed=0):
    """Rows around a point, by their distance from it: no plane tells one class from the others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    angle, radius = rng.uniform(0, 2 * np.pi, n_rows), 0.5 + y + rng.uniform(-0.3, 0.3, n_rows)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32), y.astype(float)


@pytest.fixture(scope="module")
def datasets(service):
    """(X, y) of two rings, and of three with names, as CSV."""
    two, three = rings(), rings(450, 3, seed=1)
    service.upload("rings", libsvm_text(*two))
    names = np.array(["inner", "middle", "outer"])
    lines = [f"{names[int(y)]},{a:.9g},{b:.9g}" for (a, b), y in zip(*three, strict=True)]
    url = f"{service.url}/v1/datasets/named?format=csv&label_column=label"
    answer = httpx.put(url, content="\n".join(["label,a,b", *lines]).encode(), **PLAIN)
    assert answer.status_code == 201, answer.text
    return {"rings": two, "named": (three[0], names[three[1].astype(int)])}


def model_of(service, ended, format_="npz"):
    return MODEL_FORMATS[format_].read(io.BytesIO(service.model(ended, format_)))


def test_a_machine_tells_rings_apart_as_libsvm_does(service, datasets):
    X, y = datasets["rings"]
    ended = service.train(dataset="rings", max_passes=20, **RBF)
    result = ended["result"]
    assert result["certificate"]["gap"] is result["certificate"]["relative_duality_gap"] is None
    assert result["machine"]["gamma"] == GAMMA
    assert 0 < result["machine"]["support_vectors"] <= 80
    predictor = Predictor(model_of(service, ended))
    theirs = SVC(C=1.0, gamma=GAMMA).fit(X, y)
    predicted = predictor.labels(predictor.decision_values(X))
    assert accuracy_score(y, predicted) >= theirs.score(X, y) - 0.01
    assert theirs.score(X, y) > 0.95
    evaluated = httpx.post(
        f"{service.url}/v1/models/{ended['model_id']}/evaluate", json={"dataset": "rings"}, **PLAIN
    ).json()
    assert evaluated["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert evaluated["objective"] == pytest.approx(result["certificate"]["primal_objective"], rel=1e-6)


def test_names_values_of_C_folds_and_probabilities(service, datasets):
    X, y = datasets["named"]
    ended = service.train(dataset="named", C=[0.01, 1.0], folds=2, probability="sigmoid", max_passes=5, **RBF)
    assert ended["result"]["selected_C"] == 1.0
    assert ended["result"]["cv"][1]["mean"]["accuracy"] > 0.95
    assert len(ended["result"]["lanes"]) == 3 * 2 * 3
    predictor = Predictor(model_of(service, ended, "npz"))
    values = predictor.decision_values(X)
    assert np.mean(predictor.labels(values) == y) > 0.95
    assert predictor.probabilities(values).sum(axis=1) == pytest.approx(1.0)


def test_a_gamma_that_says_nothing_is_warned_of(service, datasets):
    job = service.submit(**{**ENDLESS, **RBF, "dataset": "rings", "gamma": 1e6})
    shown = wait_for(lambda: service.job(job)["warnings"] and service.job(job))
    assert [warning["code"] for warning in shown["warnings"]] == ["kernel_values"]
    httpx.post(f"{service.url}/v1/jobs/{job}/stop", **PLAIN)
    ended = service.wait_until_ended(job)
    assert "kernel_values" in [warning["code"] for warning in ended["warnings"]]
    assert "all kernel values are 0" in str(ended["warnings"])
