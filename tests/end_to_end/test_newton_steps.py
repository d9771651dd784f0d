"""A job that goes from sweeps to Newton steps: its progress, history, events and page say so."""

import json

import httpx
import numpy as np
import pytest
from scipy import sparse

from streamsvm.api.answers import type_of
from streamsvm.trainer.newton.choice import LEAST_SWEEPS
from tests.api.answers import strictly
from tests.contracts.problems import libsvm_text
from tests.end_to_end.service import PLAIN, wait_for

EVENTS = {"state": "Transition", "pass": "Pass", "progress": "PhaseAndProgress", "end": "Job"}
SPEC = {"dataset": "table", "bias": 1.0, "C": 100.0, "relative_gap": 1e-9, "checkpoint_seconds": 0.05}


@pytest.fixture(scope="module")
def table(service):
    """A service with a table whose columns differ in scale; Newton steps on it take a second."""
    rng = np.random.default_rng(0)
    n = 20_000
    X = rng.standard_normal((n, 28)) * 10.0 ** rng.uniform(0, 5, 28)
    X[rng.random(X.shape) < 0.5] = 0.0
    y = np.where(X @ (1.0 / X.std(axis=0)) + 2.0 * rng.standard_normal(n) > 0, 1.0, -1.0)
    service.upload("table", libsvm_text(sparse.csr_matrix(X.astype(np.float32)), y))
    return service


@pytest.fixture(scope="module")
def undisturbed(table):
    """The job when it has ended, and the progress that was seen meanwhile."""
    job, seen = table.submit(**SPEC), []

    def look():
        shown = table.job(job)
        seen.append(shown["progress"] or {})
        return shown["state"] not in ("queued", "running") and shown

    return wait_for(look), seen


def history(service, job):
    return service.get(f"/v1/jobs/{job['id']}/history")["passes"]


def events(service, job):
    """(kind, data) of all events, each as the OpenAPI document has it."""
    text = httpx.get(f"{service.url}/v1/jobs/{job['id']}/events", **PLAIN).text
    blocks = (dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if block)
    found = [(block["event"], block["data"]) for block in blocks if "data" in block]
    for kind, data in found:
        strictly(type_of(EVENTS[kind]), data.encode())
    return [(kind, json.loads(data)) for kind, data in found]


def test_a_job_goes_from_sweeps_to_newton_steps_and_says_so(table, undisturbed):
    job, seen = undisturbed
    assert (job["state"], job["result"]["stop_reason"]) == ("succeeded", "relative_gap")
    # It reads rows, sweeps, and makes Newton steps, in this order; a quick one may be missed.
    phases = [each["solver_phase"] for each in seen if each.get("solver_phase")]
    assert phases[-1] == "newton" and phases == sorted(phases, key=["stream", "sweep", "newton"].index)
    counts = [each["newton"]["step"] for each in seen if each.get("newton")]
    assert counts and counts == sorted(counts)
    passes = history(table, job)
    steps = [step for record in passes for step in record.get("newton", ())]
    sweeps = [sweep["sweep"] for sweep in passes[0]["sweeps"]]
    assert sweeps == list(range(1, len(sweeps) + 1)) and len(sweeps) >= LEAST_SWEEPS
    made = {name: job["result"][name] for name in ("sweeps", "newton_steps", "scans")}
    assert made == {"sweeps": len(sweeps), "newton_steps": len(steps), "scans": steps[-1]["scans"]}
    assert job["progress"]["newton"] == {name: steps[-1][name] for name in ("step", "scans", "system_rows", "sigma")}
    told = events(table, job)
    assert [record for kind, record in told if kind == "pass"] == passes
    assert told[-1][1]["result"]["newton_steps"] == len(steps)
    page = httpx.get(f"{table.url}/jobs/{job['id']}", **PLAIN).text
    assert f"{len(sweeps)} sweeps, {len(steps)} Newton steps in {steps[-1]['scans']} scans" in page
