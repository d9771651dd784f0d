"""/v1/info, and that every limit it shows is one; /v2/health."""

import json
import sqlite3
from importlib.metadata import version

import pytest

from streamsvm.service.models.exports import MODEL_FORMATS
from tests.api.app import Service, check_problem, some_model

ROWS = b"1 1:1\n-1 2:1\n"


def test_the_service_says_what_it_is(filled):
    shown = filled.request("GET", "/v1/info").json()
    assert shown["version"] == version("streamsvm")
    assert "streamsvm" in shown["solvers"] and "hinge" in shown["losses"]
    assert "libsvm" in shown["formats"]["datasets"] and set(shown["formats"]["models"]) == set(MODEL_FORMATS)
    assert shown["features"] == {"tokens": False, "onnx": True}
    assert shown["limits"]["max_json_bytes"] == filled.settings.max_json_bytes == 1 << 20


def put(service, size: int):
    return service.request("PUT", f"/v1/datasets/d{size}", content=ROWS.ljust(size, b"\n"))


def predict(service, size: int):
    model = service.store.models()[0]["id"]
    return service.request("POST", f"/v1/models/{model}/predict", content=ROWS.ljust(size, b"\n"))


def submit(service, size: int):
    return service.request("POST", "/v1/jobs", content=json.dumps({"dataset": "data"}).ljust(size).encode())


def features(service, number: int):
    """Numbered from 0."""
    return service.request("PUT", f"/v1/datasets/d{number}", content=f"1 0:1\n-1 {number - 1}:1\n".encode())


def jobs(service, number: int):
    answers = [service.request("POST", "/v1/jobs", json={"dataset": "data"}) for _ in range(number)]
    return answers[-1]


@pytest.mark.parametrize(
    ("limit", "value", "use", "code", "status"),
    [
        ("max_upload_bytes", 1000, put, "body_too_large", 413),
        ("max_predict_bytes", 1000, predict, "body_too_large", 413),
        ("max_json_bytes", 100, submit, "body_too_large", 413),
        ("max_features", 7, features, "too_many_features", 422),
    ],
)
def test_a_limit_may_be_reached_and_not_passed(tmp_path, limit, value, use, code, status):
    service = Service(tmp_path, **{limit: value})
    assert service.request("GET", "/v1/info").json()["limits"][limit] == value
    service.add_model(service.add_dataset("data"), some_model())
    assert use(service, value).status_code in (200, 201, 202)
    answer = use(service, value + 1)
    check_problem(answer, code, status)
    assert "retry-after" not in answer.headers


def test_a_client_may_have_three_quarters_of_the_queue_which_takes_a_job_once_another_has_left(tmp_path):
    service = Service(tmp_path, max_queued_jobs=4)
    dataset = service.add_dataset("data")
    assert jobs(service, 3).status_code == 202
    assert "of yours" in check_problem(jobs(service, 1), "queue_full", 429)["detail"]
    service.store.add_job(dataset, {"dataset": "data"}, 4, client="token other")
    answer = jobs(service, 1)
    assert "of yours" not in check_problem(answer, "queue_full", 429)["detail"]
    assert int(answer.headers["retry-after"]) > 0
    service.store.claim()
    assert jobs(service, 1).status_code == 202


def test_the_service_is_live_and_ready(filled):
    assert filled.request("GET", "/v2/health/live").json() == {"live": True}
    assert filled.request("GET", "/v2/health/ready").json() == {"ready": True}


def test_a_service_whose_records_cannot_be_read_is_live_but_not_ready(service, monkeypatch):
    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("streamsvm.service.records.database.Database.rows", fail)
    assert service.request("GET", "/v2/health/live").status_code == 200
    check_problem(service.request("GET", "/v2/health/ready"), "unavailable", 503)
