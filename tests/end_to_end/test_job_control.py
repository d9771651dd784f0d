"""Stop, cancel and events of jobs that really run."""

import json

import httpx
import numpy as np

from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import PATIENCE_SECONDS, Service, wait_for


def post(service: Service, path: str) -> httpx.Response:
    return httpx.post(service.url + path, timeout=PATIENCE_SECONDS)


def watch(service: Service, job: str, most: int, last_event_id: str | None = None) -> list[tuple[str, str, dict]]:
    """The first events with a number: (kind, number, data)."""
    found: list[tuple[str, str, dict]] = []
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    with httpx.stream("GET", f"{service.url}/v1/jobs/{job}/events", headers=headers, timeout=10) as response:
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "id" in fields:
                found.append((fields["event"], fields["id"], json.loads(fields["data"])))
            if len(found) == most or fields.get("event") == "end":
                return found
            fields = {}
    raise AssertionError("the stream ended without `end`")


def test_a_stopped_job_keeps_the_model_so_far(service):
    job = service.submit(**ENDLESS)
    service.wait_for_pass(job, 3)
    assert post(service, f"/v1/jobs/{job}/stop").status_code == 202
    ended = service.wait_until_ended(job)
    assert (ended["state"], ended["result"]["stop_reason"]) == ("stopped", "stopped")
    assert ended["result"]["passes"] < ENDLESS["max_passes"] and not ended["result"]["converged"]
    model = httpx.get(f"{service.url}/v1/models/{ended['model_id']}/file?format=npz").content
    assert np.any(weights(model))
    wait_for(lambda: service.run_directories() == [])


def test_after_a_cancel_no_trainer_runs_and_nothing_is_kept(service):
    job, beside, waiting = (service.submit(**ENDLESS) for _ in range(3))
    service.wait_for_pass(job, 1)
    models = service.get("/v1/models")
    assert post(service, f"/v1/jobs/{waiting}/cancel").json()["state"] == "cancelled"
    for running in (job, beside):
        assert post(service, f"/v1/jobs/{running}/cancel").status_code == 202
    wait_for(lambda: not service.processes.alive("streamsvm.trainer.process"), 5)
    ended = service.wait_until_ended(job)
    assert (ended["state"], ended["model_id"], ended["result"]) == ("cancelled", None, None)
    assert service.get("/v1/models") == models
    wait_for(lambda: service.run_directories() == [])
    assert service.job(waiting)["attempt"] == 0


def test_events_go_on_where_a_client_left_and_end_with_the_job(service):
    job = service.submit(**ENDLESS)
    first = watch(service, job, 5)
    assert [kind for kind, _, _ in first] == ["state", "state", "pass", "pass", "pass"]
    second = watch(service, job, 2, first[-1][1])
    assert [(kind, data["pass"]) for kind, _, data in second] == [("pass", 4), ("pass", 5)]
    post(service, f"/v1/jobs/{job}/stop")
    rest = watch(service, job, 1_000_000, second[-1][1])
    assert (rest[-1][0], rest[-1][2]["state"]) == ("state", "stopped")
    passes = [data["pass"] for kind, _, data in rest if kind == "pass"]
    assert passes == list(range(6, 6 + len(passes)))
    assert len(service.get(f"/v1/jobs/{job}/history")["passes"]) == 5 + len(passes)
