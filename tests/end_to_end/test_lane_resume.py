"""A job of several lanes that was cancelled goes on as a new one: what was done stays, what ran goes on."""

import httpx
import numpy as np

from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PLAIN, wait_for

CLASSES = (0.0, 1.0, 2.0, 3.0)
# Eight lanes, one after the other, of a data set that the cache holds.
SPEC = {
    "dataset": "lanes", "solver": "bm", "C": [1.0, 3.0], "pace": "fixed", "tolerance": 1e-13, "max_passes": 40,
    "cache_bytes": 4 << 20, "checkpoint_seconds": 0.05,
}  # fmt: skip


def contents(service, ended) -> list[bytes]:
    """w of each model."""
    assert ended["state"] == "succeeded", ended["failure"]
    return [
        weights(httpx.get(f"{service.url}/v1/models/{model['model_id']}/file?format=npz", **PLAIN).content).tobytes()
        for model in ended["result"]["models"]
    ]


def test_the_models_are_those_of_a_job_that_was_not_disturbed(new_service):
    service = new_service().start()
    X, _ = random_problem(500, 120)
    rng = np.random.default_rng(3)
    scores = X @ rng.normal(size=(X.shape[1], len(CLASSES)))
    service.upload("lanes", libsvm_text(X, np.array(CLASSES)[scores.argmax(axis=1)]))
    job = service.submit(**SPEC)
    wait_for(lambda: (p := service.job(job)["progress"]) and p["lane"]["number"] >= 2)
    httpx.post(f"{service.url}/v1/jobs/{job}/cancel", **PLAIN)
    first = service.wait_until_ended(job)
    assert first["state"] == "cancelled"
    url = f"{service.url}/v1/jobs/{job}/resume"
    refused = httpx.post(url, json={"max_passes": 100}, **PLAIN)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_possible")
    answer = httpx.post(url, **PLAIN)
    assert answer.status_code == 202, answer.text
    second = service.wait_until_ended(answer.json()["id"])
    whole = service.wait_until_ended(service.submit(**SPEC))
    assert contents(service, second) == contents(service, whole)
    assert second["result"]["lanes"] == whole["result"]["lanes"] and len(whole["result"]["lanes"]) == 8
    passes = service.get(f"/v1/jobs/{second['id']}/history")["passes"]
    assert [each["pass"] for each in passes] == list(range(1, second["result"]["passes"] + 1))
    assert service.job(job) == first
