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
# name: values of two features, what is asked for, and the code it fails with, None if it does not.
OVERFLOWING = {
    "tiny-fourier": (b"%d 1:%.0fe-45 2:%.0fe-45\n", {"features": ["fourier"]}, "values_overflow"),
    "huge-fourier": (b"%d 1:%.0fe37 2:%.0fe37\n", {"features": [{"fourier": {"gamma": 1e3}}]}, "values_overflow"),
    "huge-pairs": (b"%d 1:%.0fe37 2:%.0fe37\n", {"features": ["pairs"]}, "values_overflow"),
    "tiny-scaled": (b"%d 1:%.0fe-45 2:%.0fe-45\n", {"features": ["scale", "fourier"]}, None),
    "huge-rbf": (b"%d 1:%.0fe37 2:%.0fe37\n", {"kernel": "rbf", "gamma": 1e12}, "values_overflow"),
    "tiny-rbf": (b"%d 1:%.0fe-45 2:%.0fe-45\n", {"kernel": "rbf"}, None),
}


@pytest.fixture(scope="module")
def jobs(service):
    """{name: job} all queued at once."""
    for name, text in TRAINED.items():
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


@pytest.mark.parametrize("name", OVERFLOWING)
def test_what_overflows_is_refused_and_hides_no_other_job(service, name):
    """Within its limits, and whatever came of it can be shown."""
    line, spec, code = OVERFLOWING[name]
    service.upload(name, b"".join(line % ((-1) ** row, row % 7 + 1, row % 5 + 1) for row in range(40)))
    ended = service.wait_until_ended(service.submit(dataset=name, max_passes=20, max_seconds=20.0, **spec))
    assert (ended["attempt"], ended["failure"] and ended["failure"]["code"]) == (1, code), ended["failure"]
    for path in ("/v1/jobs", "/", f"/jobs/{ended['id']}"):
        assert httpx.get(service.url + path, **PLAIN).status_code == 200
