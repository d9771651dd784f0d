"""Rows come and go, and a job begins with what another one found: it comes to the optimum of the rows there are."""

import os
import signal

import httpx
import numpy as np
import pytest

from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PLAIN, Service, wait_for

SPEC = {"dataset": "grown", "pace": "fixed", "cache_bytes": 1 << 17, "max_passes": 5000}
# Both objectives are above the optimum, by no more than this.
EXACT = {"tolerance": None, "relative_gap": 1e-6}
IN_CACHE = {"cache_bytes": 1 << 24}
PARTS = [slice(0, 1000), slice(1000, 1300), slice(1300, 1500)]


@pytest.fixture(scope="module")
def parts():
    """Texts of rows, each with a feature of its own."""
    X, y = random_problem(1500, 400, row_length=20)
    return [libsvm_text(X[part], y[part]).replace(b"\n", b" %d:0.5\n" % (500 + k)) for k, part in enumerate(PARTS)]


@pytest.fixture
def grown(service: Service, parts):
    """The first rows; gone after the test."""
    service.upload("grown", parts[0])
    yield service
    httpx.delete(f"{service.url}/v1/datasets/grown", **PLAIN).raise_for_status()


def append(service: Service, text: bytes) -> set[int]:
    """Add rows; the numbers of their blocks."""
    before = blocks(service)
    httpx.post(f"{service.url}/v1/datasets/grown/blocks", content=text, **PLAIN).raise_for_status()
    return blocks(service) - before


def blocks(service: Service) -> set[int]:
    return {each["block"] for each in service.get("/v1/datasets/grown/blocks")["blocks"]}


def remove(service: Service, numbers: set[int]) -> None:
    for number in numbers:
        httpx.delete(f"{service.url}/v1/datasets/grown/blocks/{number}", **PLAIN).raise_for_status()


def train(service: Service, **spec) -> dict:
    ended = service.train(**{**SPEC, **spec})
    assert ended["result"]["converged"] and ended["result"]["certificate"]["w_error"] < 1e-9
    return ended


def said(job: dict) -> list[dict]:
    """What a job says of its warm start, once for each attempt from scratch."""
    return [step["warm_start"] for step in job["transitions"] if "warm_start" in step]


@pytest.mark.parametrize(
    "more",
    [{}, {"bias": 1.0, "loss": "squared_hinge", "C": 0.3, **IN_CACHE}],
)
def test_the_optimum_is_that_from_scratch(grown, parts, more):
    more = {**more, **EXACT}
    first = train(grown, **more)
    assert said(first) == []
    middle = append(grown, parts[1])
    second = train(grown, **more, warm_start=first["id"])
    assert said(second) == [{"rows": 1000, "of": 1300}]
    append(grown, parts[2])
    remove(grown, middle)
    third = train(grown, **more, warm_start=second["id"])
    assert said(third) == [{"rows": 1000, "of": 1200}]
    anew = train(grown, **more)
    objectives = [job["result"]["certificate"]["primal_objective"] for job in (third, anew)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)
    begun, cold = (grown.get(f"/v1/jobs/{job['id']}/history")["passes"][0] for job in (third, anew))
    assert begun["dual_objective"] > cold["dual_objective"]
    # The rows that came and went have taken their part of w with them: their own feature is in none of those left.
    w = weights(grown.model(third))
    assert w[500] == pytest.approx(0, abs=1e-9) and abs(w[501]) > 1e-3


def test_a_job_that_began_while_its_rows_came_is_one_to_start_from(grown, parts):
    """It did not know yet which rows there would be."""
    url = f"{grown.url}/v1/datasets/arriving"

    def slowly():
        yield parts[0]
        nonlocal job
        wait_for(lambda: "arriving" in {each["name"] for each in grown.get("/v1/datasets")["datasets"]})
        job = grown.submit(dataset="arriving", relative_gap=1e-4, tolerance=None)
        grown.wait_for_state(job, "running")
        wait_for(lambda: grown.processes.alive("streamsvm.reader.stream.process"))
        yield parts[1]

    job = ""
    httpx.put(url, content=slowly(), **PLAIN).raise_for_status()
    assert grown.wait_until_ended(job)["result"]["converged"]
    httpx.post(f"{url}/blocks", content=parts[2], **PLAIN).raise_for_status()
    warm = train(grown, dataset="arriving", relative_gap=1e-4, tolerance=None, warm_start=job)
    assert said(warm) == [{"rows": 1300, "of": 1500}]
    httpx.delete(url, **PLAIN).raise_for_status()


def test_a_kill_costs_no_more_than_it_does_otherwise(grown, parts):
    """The reader that makes w dies, before its first checkpoint."""
    middle = append(grown, parts[1])
    first = train(grown, relative_gap=1e-3, tolerance=None)
    append(grown, parts[2])
    remove(grown, middle)
    spec = {"warm_start": first["id"], "tolerance": None, "max_passes": 40, "checkpoint_seconds": 0.1}
    undisturbed = grown.wait_until_ended(grown.submit(**{**SPEC, **spec}))
    job = grown.submit(**{**SPEC, **spec})
    os.kill(grown.processes.one("streamsvm.reader.stream.process"), signal.SIGKILL)
    ended = grown.wait_until_ended(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert np.array_equal(weights(grown.model(ended)), weights(grown.model(undisturbed)))
    assert said(ended)[0] == said(undisturbed)[0]
