"""Every request has an id, a line in the log and a place in the metrics."""

import io
import json
import logging
from unittest.mock import Mock

import pytest

from streamsvm.service.processes.logs import JobLog, JsonFormatter
from tests.api.app import check_problem


@pytest.fixture
def log():
    """The lines that are logged while a test runs."""
    text, handler = io.StringIO(), logging.StreamHandler()
    handler.setStream(text)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("streamsvm")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("method", "url", "headers"),
    [
        ("GET", "/v1/jobs", {}),
        ("GET", "/nowhere", {}),
        ("PATCH", "/v1/jobs", {}),
        ("GET", "/v1/jobs/job_0", {}),
        ("POST", "/v1/jobs", {}),
        ("GET", "/v1/jobs", {"Host": "evil.example"}),
        ("GET", "/v1/jobs", {"Authorization": "Bearer x"}),
        ("GET", "/v1/jobs", {"X-Request-Id": "mine"}),
    ],
)
def test_every_answer_has_an_id_which_its_problem_and_the_log_have_too(filled, log, method, url, headers):
    answer = filled.request(method, url, headers=headers)
    found = answer.headers["x-request-id"]
    assert found.startswith("req_") and answer.headers["x-content-type-options"] == "nosniff"
    if answer.status_code != 200:
        assert answer.json()["request_id"] == found
    line = log()[-1]
    assert (line["request_id"], line["method"], line["path"]) == (found, method, url)
    assert (line["status"], line["level"], line["logger"]) == (answer.status_code, "info", "streamsvm.api")
    assert line["seconds"] > 0 and line["at"].endswith("Z")
    assert line.get("job_id") == ("job_0" if "job_0" in url else None)


def test_ids_differ(filled):
    assert len({filled.request("GET", "/v1/jobs").headers["x-request-id"] for _ in range(5)}) == 5


def test_the_log_has_the_traceback_of_a_bug_and_the_answer_has_not(service, log, monkeypatch):
    faults = [RuntimeError("secret"), RuntimeError("can't start new thread"), MemoryError()]
    monkeypatch.setattr("streamsvm.service.records.store.Store.models", Mock(side_effect=faults))
    answer = service.request("GET", "/v1/models")
    check_problem(answer, "internal", 500)
    for _ in faults[1:]:  # that of a memory for a thread's stack, too
        check_problem(service.request("GET", "/v1/models"), "out_of_memory", 503)
    assert "secret" not in answer.text
    (bug,) = [line for line in log() if "traceback" in line]
    assert "RuntimeError: secret" in bug["traceback"] and bug["request_id"] == answer.json()["request_id"]


def test_a_bug_that_comes_of_a_damaged_store_is_told_as_that(service, monkeypatch):
    """A damaged store may return any value, such as a state that no job has, which a route does not expect."""

    def fail(*_):
        raise KeyError("succe\ufffdded")

    monkeypatch.setattr("streamsvm.service.records.store.Store.models", fail)
    check_problem(service.request("GET", "/v1/models"), "internal", 500)
    path = service.settings.database
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(255 - byte for byte in whole[4096:]))
    body = check_problem(service.request("GET", "/v1/models"), "store_corrupt", 500)
    assert "backup" in body["hint"]
    service.app.state.soundness._next = 0.0
    body = check_problem(service.request("GET", "/v2/health/ready"), "unavailable", 503)
    assert "store_corrupt" in body["detail"] and "backup" in body["hint"]


def test_a_line_of_the_log_is_one_line_whatever_is_asked_for(filled, log):
    answer = filled.request("GET", "/v1/jobs/%0a%7b%22level%22:%22error%22%7d%e2%80%a8%00")
    assert answer.status_code == 404
    (line,) = [line for line in log() if line["message"] == "request"]
    assert line["path"].startswith("/v1/jobs/\n{")


def test_messages_about_a_job_say_which(log):
    JobLog(logging.getLogger("streamsvm.worker"), "job_1").info("attempt %s started", 2)
    (line,) = log()
    assert (line["job_id"], line["message"], "request_id" in line) == ("job_1", "attempt 2 started", False)
