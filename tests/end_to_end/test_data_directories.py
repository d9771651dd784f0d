"""What an earlier version left, also one that was killed at work, is opened by this one: datasets, models, jobs."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy import sparse

from streamsvm.service.jobs.progress.progress import read_json
from tests.end_to_end.data_directories import VERSIONS, lay_out, unpack
from tests.end_to_end.service import ENDED, PLAIN, Service, running, wait_for
from tests.reference.data import load, require, text

_PREDICTED = "m.svm"  # the file that its predictions read: mnist
_CHECKED_LINES = 500


@dataclass
class Opened:
    """A service on a directory, and what the directory held before: job records, their histories, models."""

    service: Service
    jobs: list[dict[str, Any]]
    histories: dict[str, list[dict[str, Any]]]
    models: list[str]

    def job(self, *states: str, starts: int) -> dict[str, Any]:
        """The one that was in one of the states, and had been started so many times."""
        (found,) = [
            job
            for job in self.jobs
            if job["state"] in states and [step["state"] for step in job["transitions"]].count("running") == starts
        ]
        return found


@pytest.fixture(scope="module", params=VERSIONS)
def opened(request, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("opened"), jobs_at_once=1)
    try:
        lay_out(request.param, service)
        jobs = _job_records(service.data_dir)
        histories = {job["id"]: _history_lines(service.data_dir / "jobs" / job["id"]) for job in jobs}
        models = [path.name for path in (service.data_dir / "models").iterdir()]
        yield Opened(service.start(), jobs, histories, models)
    finally:
        service.kill()


def _records(data_dir: Path, table: str) -> dict[str, dict[str, Any]]:
    """Records by id."""
    with closing(sqlite3.connect(data_dir / "streamsvm.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")}


def _job_records(data_dir: Path) -> list[dict[str, Any]]:
    return [
        {**record, "spec": json.loads(record["spec"]), "transitions": json.loads(record["transitions"])}
        for record in _records(data_dir, "jobs").values()
    ]


def _history_lines(directory: Path) -> list[dict[str, Any]]:
    path = directory / "history.ndjson"
    lines = path.read_text().splitlines() if path.exists() else []
    return [record for record in map(read_json, lines) if "pass" in record]


def _problem(shown: dict[str, Any]) -> tuple[sparse.csr_matrix, np.ndarray]:
    """(X, labels) of a dataset as its text has them, however often that was sent."""
    X, labels = load(shown["name"])
    if shown["normalize"] == "row_l2":
        norms = np.sqrt(np.ravel(X.multiply(X).sum(axis=1)))
        X = sparse.csr_matrix(sparse.diags(1 / norms) @ X)
    times = shown["rows"] // X.shape[0]
    return sparse.csr_matrix(sparse.vstack([X] * times)), np.tile(labels, times)


def _primal_objective(model: dict[str, Any], decisions: np.ndarray, norm: float, labels: np.ndarray) -> float:
    spec = model["spec"]
    losses = np.maximum(0, 1 - np.where(labels == model["labels"][0], 1, -1) * decisions)
    if spec["loss"] == "squared_hinge":
        losses **= 2
    weight = np.ones(len(labels))
    for label, factor in (spec["class_weight"] or {}).items():
        weight[labels == float(label)] = factor
    return norm / 2 + spec["C"] * float(weight @ losses)


def _stored_weights(directory: Path) -> tuple[np.ndarray, float, float]:
    """(w, the weight of the bias, what that adds to a decision value), read from a model's files as they lie there."""
    about = json.loads((directory / "model.json").read_text())["content"]
    return np.load(directory / "w.npy"), about["w_bias"], about["w_bias"] * (about["bias"] or 0.0)


def test_models_predict_what_they_predicted(opened):
    """Decision values are those of the weights on disk, and these have the objective that was certified."""
    service = opened.service
    assert len(opened.models) >= 2
    for model_id in opened.models:
        model = service.get(f"/v1/models/{model_id}")
        w, w_bias, intercept = _stored_weights(service.data_dir / "models" / model_id)
        name = model["dataset"]["name"]
        X, labels = _problem(service.get(f"/v1/datasets/{name}"))
        objective = _primal_objective(model, X @ w + intercept, float(w @ w) + w_bias**2, labels)
        assert objective == pytest.approx(model["certificate"]["primal_objective"], rel=1e-6)
        lines = b"\n".join(text(name).split(b"\n")[:_CHECKED_LINES])
        answer = httpx.post(f"{service.url}/v1/models/{model_id}/predict", content=lines, **PLAIN).json()
        found = [each["decision_value"] for each in answer["predictions"]]
        np.testing.assert_allclose(found, load(name)[0][:_CHECKED_LINES] @ w + intercept, rtol=1e-9, atol=1e-9)
        evaluated = httpx.post(f"{service.url}/v1/models/{model_id}/evaluate", json={"dataset": name}, **PLAIN).json()
        assert evaluated["objective"] == pytest.approx(objective, rel=1e-6)


def test_records_of_old_jobs_show(opened):
    service = opened.service
    listed = {job["id"]: job for job in service.get("/v1/jobs")["jobs"]}
    for job in opened.jobs:
        shown = service.job(job["id"])
        assert shown["spec"]["dataset"] == listed[job["id"]]["spec"]["dataset"] == job["spec"]["dataset"]
        assert shown["transitions"][: len(job["transitions"])] == job["transitions"]
        passes = service.get(f"/v1/jobs/{job['id']}/history")["passes"]
        if job["state"] in ENDED:
            assert passes == opened.histories[job["id"]]
            assert (shown["state"], shown["model_id"]) == (job["state"], job["model_id"])
        page = httpx.get(f"{service.url}/jobs/{job['id']}", **PLAIN)
        assert page.status_code == 200 and job["id"] in page.text
    assert httpx.get(f"{service.url}/", **PLAIN).status_code == 200


def test_a_job_that_was_handed_back_goes_on_or_says_why_not(opened):
    service, job = opened.service, opened.job("queued", starts=1)
    before = opened.histories[job["id"]]
    reached = service.wait_for_pass(job["id"], len(before) + 1)
    httpx.post(f"{service.url}/v1/jobs/{job['id']}/stop", **PLAIN)
    ended = service.wait_until_ended(job["id"])
    assert ended["state"] in ("stopped", "succeeded"), ended["failure"]
    passes = service.get(f"/v1/jobs/{job['id']}/history")["passes"]
    assert [line["pass"] for line in passes] == list(range(1, len(passes) + 1))
    assert len(passes) >= reached["progress"]["pass"] - 1
    kept = next((n for n, (old, new) in enumerate(zip(before, passes, strict=False)) if old != new), len(before))
    reasons = [step.get("reason") for step in ended["transitions"][len(job["transitions"]) :]]
    assert kept > 0 or {"checkpoint_lost", "checkpoint_unsound"} & set(reasons)


def test_a_job_that_was_queued_runs(opened):
    ended = opened.service.wait_until_ended(opened.job("queued", starts=0)["id"])
    assert ended["state"] == "succeeded" and ended["result"]["converged"]


def test_a_job_that_was_stopped_resumes_or_says_why_not(opened):
    service, job = opened.service, opened.job("stopped", starts=1)
    passes = opened.histories[job["id"]]
    answer = httpx.post(f"{service.url}/v1/jobs/{job['id']}/resume", json={"max_passes": len(passes) + 2}, **PLAIN)
    if answer.status_code == 409:
        assert answer.json()["code"] == "not_possible" and answer.json()["hint"]
        return
    ended = service.wait_until_ended(answer.json()["id"])
    assert ended["state"] == "succeeded", ended["failure"]
    found = service.get(f"/v1/jobs/{ended['id']}/history")["passes"]
    assert [line["pass"] for line in found] == list(range(1, len(passes) + 3))
    reasons = {step.get("reason") for step in ended["transitions"]}
    assert found[0] == passes[0] or {"checkpoint_lost", "checkpoint_unsound"} & reasons


def test_datasets_train(opened):
    service = opened.service
    names = {shown["name"] for shown in service.get("/v1/datasets")["datasets"]}
    assert names >= {"mushrooms", "a9a"}
    jobs = [service.submit(dataset=name, relative_gap=1e-3, tolerance=None) for name in sorted(names)]
    for job in jobs:
        ended = service.wait_until_ended(job)
        certificate = ended["result"]["certificate"]
        assert ended["result"]["converged"] and 0 <= certificate["relative_duality_gap"] <= 1e-3
        w, w_bias, intercept = _stored_weights(service.data_dir / "models" / ended["model_id"])
        X, labels = _problem(service.get(f"/v1/datasets/{ended['spec']['dataset']}"))
        model = service.get(f"/v1/models/{ended['model_id']}")
        objective = _primal_objective(model, X @ w + intercept, float(w @ w) + w_bias**2, labels)
        assert objective == pytest.approx(certificate["primal_objective"], rel=1e-6)


def test_jobs_that_have_ended_are_ones_to_start_from(opened):
    """The last of all tests here: it adds rows, after which earlier models are of other data."""
    service, job = opened.service, opened.job("stopped", starts=1)
    ended = service.wait_until_ended(_start_from(service, job))
    rows = service.get("/v1/datasets/a9a")["rows"]
    assert _said_of_start(ended) == {"rows": rows, "of": rows}
    added = httpx.post(f"{service.url}/v1/datasets/a9a/blocks", content=text("a9a"), **PLAIN)
    assert added.status_code == 201, added.text
    ended = service.wait_until_ended(_start_from(service, job))
    assert ended["result"]["converged"] and ended["result"]["certificate"]["w_error"] < 1e-9
    assert _said_of_start(ended) == {"rows": rows, "of": added.json()["rows"]}


def _start_from(service: Service, job: dict[str, Any]) -> str:
    return service.submit(dataset=job["spec"]["dataset"], relative_gap=1e-3, tolerance=None, warm_start=job["id"])


def _said_of_start(job: dict[str, Any]) -> dict[str, int]:
    (said,) = [step["warm_start"] for step in job["transitions"] if "warm_start" in step]
    return said


@dataclass
class Killed:
    """A service on the directory; its records as they were, by id; where its predictions go."""

    service: Service
    jobs: dict[str, dict[str, Any]]
    predictions: dict[str, dict[str, Any]]
    exported: Path

    def jobs_in(self, *states: str) -> list[str]:
        return [id_ for id_, record in self.jobs.items() if record["state"] in states]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    require("mnist.train")
    directory = tmp_path_factory.mktemp("killed")
    unpack("0.2.0", directory)
    imported, exported = directory / "imported", directory / "exported"
    imported.mkdir(), exported.mkdir()
    (imported / _PREDICTED).write_bytes(text("mnist.train"))
    service = Service(directory, jobs_at_once=2, import_dir=imported, export_dir=exported)
    jobs, predictions = (_records(service.data_dir, table) for table in ("jobs", "predictions"))
    with running(service):
        yield Killed(service, jobs, predictions, exported)


def test_jobs_that_were_running_go_on_and_the_queued_one_follows(killed):
    """From their checkpoints: passes they had made are not made again."""
    service = killed.service
    for job_id in killed.jobs_in("running", "queued"):
        wait_for(lambda job_id=job_id: (service.job(job_id)["progress"] or {}).get("pass", 0) > 1)
        reasons = [step.get("reason") for step in service.job(job_id)["transitions"]]
        assert reasons.count("worker_died") == (killed.jobs[job_id]["state"] == "running")
        assert not {"checkpoint_lost", "checkpoint_unsound"} & {*reasons}
        httpx.post(f"{service.url}/v1/jobs/{job_id}/cancel", **PLAIN)
        assert service.wait_until_ended(job_id)["state"] == "cancelled"


def test_predictions_that_were_running_or_queued_are_finished(killed):
    for prediction_id, record in killed.predictions.items():
        shown = wait_for(lambda id_=prediction_id: _ended(killed.service.get(f"/v1/predictions/{id_}")))
        assert shown["state"] == "succeeded", shown["failure"]
        if record["state"] in ("running", "queued"):
            assert shown["result"]["rows"] == 60_000
    found = {path.name: path.read_bytes() for path in killed.exported.iterdir()}
    assert sorted(found) == ["n4.csv", "n5.csv", "n6.csv", "n7.csv"]
    assert len({*found.values()}) == 1 and found["n4.csv"].count(b"\n") == 60_001


def _ended(shown: dict[str, Any]) -> dict[str, Any] | None:
    return shown if shown["state"] in ENDED else None


def test_all_that_had_ended_is_shown_as_it_was(killed):
    """With a job whose notification was due: nobody is notified any more, and its record says no more of it."""
    service = killed.service
    for job_id in killed.jobs_in(*ENDED):
        shown, before = service.job(job_id), killed.jobs[job_id]
        assert (shown["state"], shown["model_id"]) == (before["state"], before["model_id"])
        assert len(shown["transitions"]) == len(json.loads(before["transitions"]))
        assert service.get(f"/v1/jobs/{job_id}/history")["passes"]
        for page in (f"/jobs/{job_id}", f"/models/{shown['model_id']}" if shown["model_id"] else "/"):
            assert httpx.get(f"{service.url}{page}", **PLAIN).status_code == 200
    stopped = httpx.post(f"{service.url}/v1/jobs/{killed.jobs_in('stopped')[0]}/resume", json={}, **PLAIN)
    assert stopped.status_code in (201, 202), stopped.text
    httpx.post(f"{service.url}/v1/jobs/{stopped.json()['id']}/cancel", **PLAIN)


def test_versions_and_their_alias_predict_what_they_predicted(killed):
    service = killed.service
    named = service.get("/v1/registered-models/adult")
    assert len(named["versions"]) == 2
    predicted = {
        name: service.get(f"/v1/models/{name}")["id"] for name in ("adult@champion", "adult:1", "adult:2", "adult")
    }
    assert predicted["adult@champion"] == predicted["adult:1"] != predicted["adult:2"] == predicted["adult"]
    for model_id in predicted.values():
        certificate = service.get(f"/v1/models/{model_id}")["certificate"]
        answer = httpx.post(f"{service.url}/v1/models/{model_id}/evaluate", json={"dataset": "a"}, **PLAIN)
        assert answer.json()["objective"] == pytest.approx(certificate["primal_objective"], rel=1e-9)


def test_datasets_train_and_the_upload_that_was_cut_off_has_failed(killed):
    service = killed.service
    states = {shown["name"]: shown["state"] for shown in service.get("/v1/datasets")["datasets"]}
    assert {name: states.pop(name) for name in ("a", "t", "m")} == dict.fromkeys("atm", "ready")
    assert "ready" not in states.values() and not [*service.data_dir.glob("datasets/.*")]
    for name in ("a", "t"):
        assert service.train(dataset=name, relative_gap=1e-3)["result"]["converged"]


def test_nothing_was_left_in_the_way(killed):
    log = (killed.service.data_dir.parent / "log").read_text(errors="replace")
    assert [line for line in log.splitlines() if "Traceback" in line] == []
