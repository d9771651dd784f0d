"""A data directory of 0.2.0 that was killed at work: what was running goes on, what no longer exists is passed over."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.data_directories import unpack
from tests.end_to_end.service import ENDED, PLAIN, Service, wait_for
from tests.reference.data import require, text

_PREDICTED = "m.svm"  # the file that its predictions read: mnist


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
    try:
        jobs, predictions = (_records(service.data_dir, table) for table in ("jobs", "predictions"))
        yield Killed(service.start(), jobs, predictions, exported)
    finally:
        service.kill()


def _records(data_dir: Path, table: str) -> dict[str, dict[str, Any]]:
    with closing(sqlite3.connect(data_dir / "streamsvm.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")}


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
        ended = service.wait_until_ended(service.submit(dataset=name, relative_gap=1e-3))
        assert ended["state"] == "succeeded" and ended["result"]["converged"]


def test_nothing_was_left_in_the_way(killed):
    log = (killed.service.data_dir.parent / "log").read_text(errors="replace")
    assert [line for line in log.splitlines() if "Traceback" in line] == []
