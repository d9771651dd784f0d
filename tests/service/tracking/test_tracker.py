"""Jobs that have ended are logged, each until that has worked, over restarts of the service."""

import json
import math
import subprocess
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.notifications.notifier import Schedule
from streamsvm.service.tracking import tracker as tracker_module
from streamsvm.service.tracking.due import due_jobs
from streamsvm.service.tracking.entries import curve, milliseconds, outcome, parameters, tags
from streamsvm.service.tracking.tracker import Tracker
from tests.api.app import Service


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setattr(tracker_module, "find_spec", lambda _: object())
    service = Service(tmp_path, mlflow_uri="http://127.0.0.1:1")
    service.add_dataset("data")
    return service


def submitted(service) -> str:
    answer = service.request("POST", "/v1/jobs", json={"dataset": "data"})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def tracking(service, run) -> tuple[Tracker, SimpleNamespace]:
    time = SimpleNamespace(now=0.0)
    schedule = Schedule(first=5.0, longest=100.0, give_up=1000.0)
    return Tracker(service.settings, service.store, run, schedule, lambda: time.now), time


def test_a_job_is_logged_once_when_it_has_ended(service):
    job, logged = submitted(service), []
    tracker, _ = tracking(service, lambda _, job_id: logged.append(job_id) or "run")
    tracker.step()
    service.store.claim_job()
    tracker.step()
    assert logged == [] and due_jobs(service.settings) == [job]
    service.store.finish_job(job, "succeeded")
    tracker.step()
    tracker.step()
    assert logged == [job] and due_jobs(service.settings) == []
    told = tracked(service, job)
    assert (told["state"], told["run_id"]) == ("logged", "run") and "failure" not in told
    assert service.request("GET", f"/v1/jobs/{job}").json()["warnings"] == []


def tracked(service, job: str) -> dict:
    """How the log of a job stands, as its clients see it."""
    return service.request("GET", f"/v1/jobs/{job}").json()["transitions"][-1]["tracking"]


def test_the_job_says_that_it_could_not_be_logged(service):
    job = submitted(service)
    service.store.request(job, "cancel")

    def fail(*_):
        raise subprocess.CalledProcessError(1, "log_job", stderr="MlflowException: http://me:secret@host/ refused\n")

    tracker, time = tracking(service, fail)
    tracker.step()
    told = tracked(service, job)
    assert (told["state"], told["attempts"]) == ("waiting", 1)
    assert told["failure"] == "MlflowException: http://host/ refused" and "at" not in told
    (warning,) = service.request("GET", f"/v1/jobs/{job}").json()["warnings"]
    assert warning["code"] == "not_tracked" and told["failure"] in warning["message"]
    assert told["next_at"] in warning["hint"]
    for second in range(1100):
        time.now = float(second)
        tracker.step()
    told = tracked(service, job)
    assert told["state"] == "given_up" and told["attempts"] > 8 and told["at"] and "next_at" not in told
    (warning,) = service.request("GET", f"/v1/jobs/{job}").json()["warnings"]
    assert "not tried again" in warning["hint"]


def test_a_server_that_is_gone_is_tried_later_and_at_last_given_up(service, caplog):
    job, tries = submitted(service), []
    service.store.request(job, "cancel")

    def fail(*_):
        tries.append(time.now)
        raise subprocess.CalledProcessError(1, "log_job", stderr="Traceback\nConnectionError: refused\n")

    tracker, time = tracking(service, fail)
    for second in range(1100):
        time.now = float(second)
        tracker.step()
    assert tries[:4] == [0.0, 5.0, 20.0, 65.0] and 8 < len(tries) < 15
    assert due_jobs(service.settings) == []
    assert "ConnectionError: refused" in caplog.text and caplog.records[-1].levelname == "ERROR"


def test_a_service_that_starts_again_goes_on(service):
    job, logged = submitted(service), []
    service.store.request(job, "cancel")
    first, _ = tracking(service, lambda *_: (_ for _ in ()).throw(OSError("gone")))
    first.step()
    second, _ = tracking(service, lambda _, job_id: logged.append(job_id) or "run")
    second.step()
    assert logged == [job]


def test_a_job_that_was_deleted_is_forgotten(service):
    job = submitted(service)
    service.store.request(job, "cancel")
    assert service.request("DELETE", f"/v1/jobs/{job}").status_code == 204
    tracker, _ = tracking(service, lambda *_: pytest.fail("it was logged"))
    tracker.step()
    assert due_jobs(service.settings) == []


def test_nothing_is_noted_without_a_server(tmp_path):
    service = Service(tmp_path)
    service.add_dataset("data")
    submitted(service)
    assert due_jobs(service.settings) == [] and not Tracker(service.settings, service.store).is_needed


def test_the_thread_logs_and_ends(service):
    job = submitted(service)
    service.store.request(job, "cancel")
    done = []
    tracker = Tracker(service.settings, service.store, lambda *_: done.append(tracker.stop()) or "run", look=0.001)
    tracker.start()
    tracker._thread.join(30)
    assert not tracker._thread.is_alive() and len(done) == 1


@pytest.mark.skipif(find_spec("mlflow") is not None, reason="MLflow is installed")
def test_a_service_without_mlflow_says_what_to_install(tmp_path):
    service = Service(tmp_path, mlflow_uri="http://127.0.0.1:1")
    with pytest.raises(ServiceError) as caught:
        Tracker(service.settings, service.store)
    assert caught.value.code == "not_installed" and "streamsvm[mlflow]" in caught.value.hint


SPEC = {"dataset": "data", "C": [1.0, 2.0], "solver": "streamsvm", "bias": None, "labels": {"team": "a"}}
RECORD = {"id": "job_1", "spec": SPEC, "state": "succeeded"}


def test_parameters_are_texts_and_labels_are_tags():
    assert parameters(SPEC) == {"dataset": "data", "C": "[1.0, 2.0]", "solver": "streamsvm"}
    assert len(parameters({"features": ["x"] * 10_000})["features"]) == 6000
    assert tags(RECORD).items() >= {"label.team": "a", "streamsvm.job": "job_1", "mlflow.runName": "job_1"}.items()


def test_figures_of_passes_have_their_step_and_time():
    lanes = [{"lane": number, "gap": 0.5 + number, "dual_objective": None} for number in range(2)]
    history = [
        {"pass": 1, "lane": 0, "gap": 2.0, "elapsed_seconds": 1.5, "lanes": lanes, "sweeps": [], "m_plus": math.inf}
    ]
    found = {each.key: each for each in curve(history, 1000)}
    assert found.keys() == {"gap", "elapsed_seconds", "lane_0/gap", "lane_1/gap"}
    assert found["lane_1/gap"] == ("lane_1/gap", 1.5, 2500, 1)
    result = json.loads('{"passes": 3, "certificate": {"gap": 0.1, "w_error": null}, "stop_reason": "converged"}')
    assert [(each.key, each.value) for each in outcome(result, 5)] == [("result/passes", 3.0), ("certificate/gap", 0.1)]
    assert outcome(None, 5) == [] and milliseconds("1970-01-01T00:00:01.500Z") == 1500
