"""Data that say little or nothing are trained on to the end, or refused: nothing hangs, nothing is not a number."""

import httpx
import numpy as np
import pytest

from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PLAIN

TRAINED = {
    "one-feature": b"1 1:1\n-1 1:-1\n1 1:0.5\n-1 1:0.2\n",
    "one-row-a-class": b"1 1:1\n-1 1:1\n",
    "empty-rows": b"1\n-1\n1 1:1\n-1 2:1\n1\n",
    "nothing-but-empty-rows": b"1\n-1\n1\n",
    "zero-norm": b"1 1:0 2:0\n-1 1:0\n1 3:1\n",
    "duplicates": 50 * b"1 1:1 2:2\n" + 50 * b"-1 1:1 2:2\n",
    "tiny-and-huge": b"1 1:1e-30 2:1e15\n-1 1:1e-30 2:-1e15\n1 3:1e-40\n",
    "one-against-many": b"1 1:1\n" + 500 * b"-1 2:1 3:0.5\n",
}
SINGLE = {"one-row": b"1 1:1 2:1\n", "one-class": b"1 1:1\n1 2:1\n1 1:0.5 3:1\n"}


@pytest.fixture(scope="module")
def jobs(service):
    """{name: job} all queued at once."""
    for name, text in (TRAINED | SINGLE).items():
        service.upload(name, text)
    return {name: service.submit(dataset=name, max_passes=200, cache_bytes=1 << 20) for name in TRAINED}


@pytest.mark.parametrize("name", TRAINED)
def test_trained_to_the_end(service, jobs, name):
    ended = service.wait_until_ended(jobs[name])
    assert ended["attempt"] == 1
    assert np.isfinite(weights(service.model(ended))).all()
    certificate = ended["result"]["certificate"]
    assert np.isfinite(certificate["primal_objective"])
    # As little as training can always come to: the objective at w = 0.
    assert certificate["primal_objective"] <= (TRAINED[name].count(b"\n")) * (1 + 1e-9)


@pytest.mark.parametrize("name", SINGLE)
def test_one_class_is_refused(service, jobs, name):
    answer = httpx.post(f"{service.url}/v1/jobs", json={"dataset": name}, **PLAIN)
    assert (answer.status_code, answer.json()["code"]) == (422, "single_class")
