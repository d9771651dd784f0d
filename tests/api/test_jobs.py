"""/v1/jobs: what cannot run is refused at once, of one lane or several, and JSON is read strictly."""

import numpy as np
import pytest

from tests.api.app import check_problem
from tests.contracts.problems import random_problem

ROWS = 60
BAD_BODIES = {
    "empty": (b"", "bad_json"),
    "half": (b'{"dataset":', "bad_json"),
    "text after": (b'{"dataset":"data"} x', "bad_json"),
    "array": (b'[{"dataset":"data"}]', "bad_json"),
    "null": (b"null", "bad_json"),
    "number": (b"1", "bad_json"),
    "NaN": (b'{"dataset":"data","C":NaN}', "not_finite"),
    "Infinity": (b'{"dataset":"data","C":Infinity}', "not_finite"),
    "-Infinity": (b'{"dataset":"data","tolerance":-Infinity}', "not_finite"),
    "1e400": (b'{"dataset":"data","C":1e400}', "not_finite"),
    "huge integer": (b'{"dataset":"data","C":' + b"9" * 400 + b"}", "wrong_type"),
    "too many digits": (b'{"dataset":"data","seed":' + b"9" * 5000 + b"}", "bad_json"),
    "key twice": (b'{"dataset":"data","C":1,"C":2}', "duplicate_key"),
    "key twice inside": (b'{"dataset":"data","labels":{"a":"1","a":"2"}}', "duplicate_key"),
    "lone surrogate": (b'{"dataset":"\\ud800"}', "bad_json"),
    "lone surrogate as key": (b'{"\\udfff":1}', "bad_json"),
    "surrogates as bytes": (b'{"dataset":"\xed\xa0\x80"}', "bad_json"),
    "UTF-16": ('{"dataset":"data"}'.encode("utf-16"), "bad_json"),
    "byte order mark": (b'\xef\xbb\xbf{"dataset":"data"}', "bad_json"),
    "bytes that are no text": (b'{"dataset":"\xff"}', "bad_json"),
    "deep": (b'{"labels":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "bad_json"),
    "deep objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "bad_json"),
    "too large": (b'{"dataset":"' + b"x" * (1 << 20) + b'"}', "body_too_large"),
    "unknown field": (b'{"dataset":"data","cache":1}', "unknown_field"),
    "no dataset": (b'{"C":1}', "missing_field"),
    "text for a number": (b'{"dataset":"data","C":"1"}', "wrong_type"),
    "unknown dataset": (b'{"dataset":"nosuch"}', "unknown_dataset"),
    "NUL in the name": (b'{"dataset":"data\\u0000"}', "unknown_dataset"),
    "unknown label": (b'{"dataset":"data","class_weight":{"5":1}}', "unknown_label"),
    "small cache": (b'{"dataset":"data","cache_bytes":1}', "cache_too_small"),
}
STATUS = {"bad_json": 400, "duplicate_key": 400, "body_too_large": 413, "unknown_dataset": 404}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_bad_body_is_a_problem_and_no_job(filled, case):
    body, code = BAD_BODIES[case]
    jobs = len(filled.store.jobs())
    check_problem(filled.request("POST", "/v1/jobs", content=body), code, STATUS.get(code, 422))
    assert len(filled.store.jobs()) == jobs


def test_the_input_is_not_echoed(filled):
    bodies = [
        {"dataset": "<b>data</b>", "<i>": 1, "C": "<u>"},
        {"dataset": "data", "C": "<u>"},
        {"dataset": "data", "class_weight": {"<b>": "<i>"}},
        {"dataset": "data", "labels": {"<b>": 1}},
    ]
    for body in bodies:
        response = filled.request("POST", "/v1/jobs", json=body)
        assert response.status_code == 422
        assert not any(tag in response.text for tag in ("<b>", "<i>", "<u>"))


def test_a_job_is_queued_and_shown(service):
    service.add_dataset("data")
    response = service.request("POST", "/v1/jobs", json={"dataset": "data", "C": 1, "cache_bytes": 268435456})
    assert response.status_code == 202
    shown = response.json()
    assert response.headers["location"] == f"/v1/jobs/{shown['id']}"
    assert (shown["state"], shown["attempt"], shown["phase"]) == ("queued", 0, None)
    assert [step["state"] for step in shown["transitions"]] == ["queued"]
    assert shown["spec"].items() >= {"dataset": "data", "C": 1.0, "solver": "streamsvm", "seed": 0}.items()
    assert {shown[name] for name in ("progress", "result", "failure", "model_id", "started_at")} == {None}
    assert service.request("GET", response.headers["location"]).json() == shown
    assert service.request("GET", f"/v1/jobs/{shown['id']}/history").json() == {"passes": []}


def test_jobs_are_listed_newest_first_and_by_state(service):
    service.add_dataset("data")
    jobs = [service.request("POST", "/v1/jobs", json={"dataset": "data"}).json()["id"] for _ in range(3)]
    service.store.claim()

    def listed(query: str = "") -> list[str]:
        return [job["id"] for job in service.request("GET", f"/v1/jobs{query}").json()["jobs"]]

    assert set(listed()) == set(jobs)
    assert listed() == sorted(jobs, reverse=True)
    assert listed("?state=running") == jobs[:1]
    assert set(listed("?state=queued")) == set(jobs[1:])
    assert listed("?state=failed") == []


@pytest.mark.parametrize("state", ["ready", "", "QUEUED", "queued'--"])
def test_a_state_that_is_none(filled, state):
    check_problem(filled.request("GET", "/v1/jobs", params={"state": state}), "wrong_type", 422)


def test_a_damaged_history_line_does_not_hurt(service):
    service.request.is_checked = False
    service.add_dataset("data")
    job = service.request("POST", "/v1/jobs", json={"dataset": "data"}).json()["id"]
    (service.settings.jobs / job).mkdir()
    (service.settings.jobs / job / "history.ndjson").write_text('{"pass": 1, "gap": Infinity}\n{"pass": 2, "ga')
    found = service.request("GET", f"/v1/jobs/{job}/history")
    assert found.json() == {"passes": [{"pass": 1, "gap": None}]}


def test_several_machines_need_a_cluster(filled):
    answer = filled.request("POST", "/v1/jobs", json={"dataset": "data", "machines": 2})
    check_problem(answer, "ray_address", 422)


def test_a_running_job_whose_run_is_not_there_yet_is_shown(service):
    service.add_dataset("data")
    job = service.request("POST", "/v1/jobs", json={"dataset": "data"}).json()["id"]
    service.store.claim()
    shown = service.request("GET", f"/v1/jobs/{job}").json()
    assert (shown["state"], shown["attempt"], shown["progress"]) == ("running", 1, None)


def with_labels(service, labels):
    X, _ = random_problem(ROWS, 20)
    service.add_dataset("d", X, np.resize(labels, ROWS))


def refused(service, code, **fields):
    """(detail, hint) of a job that is refused, and leaves nothing."""
    found = check_problem(service.request("POST", "/v1/jobs", json={"dataset": "d", **fields}), code, 422)
    assert service.store.jobs() == []
    return found["detail"], found["hint"]


def test_a_class_with_one_row_has_no_folds(service):
    X, _ = random_problem(ROWS, 20)
    service.add_dataset("d", X, np.where(np.arange(ROWS) == 7, 3.0, np.arange(ROWS) % 2))
    for fields in ({"folds": 2}, {"folds": 5, "C": [1.0, 2.0]}, {"probability": "sigmoid"}):
        detail, hint = refused(service, "fold_without_class", **fields)
        assert "label 3" in detail and "row" in hint
    # All rows together can be trained on.
    assert service.request("POST", "/v1/jobs", json={"dataset": "d"}).status_code == 202


def test_more_folds_than_rows_are_refused_before_any_is_trained(service):
    with_labels(service, [1.0, -1.0])
    detail, _ = refused(service, "empty_fold", folds=ROWS + 1)
    assert str(ROWS) in detail


@pytest.mark.parametrize("labels", [np.arange(ROWS), np.arange(ROWS) / 7, np.arange(ROWS) // 2 + 0.5 * np.arange(ROWS)])
def test_labels_nearly_all_distinct_are_asked_about_regression(service, labels):
    with_labels(service, labels)
    detail, hint = refused(service, "too_many_classes")
    assert f"in {ROWS} rows" in detail and "regression" in hint
    regression = {"dataset": "d", "loss": "epsilon_insensitive", "solver": "dcd", "folds": 3}
    shown = service.request("POST", "/v1/jobs", json=regression).json()
    assert (shown["state"], shown["spec"]["scoring"]) == ("queued", "neg_mean_squared_error")


def test_values_of_C_that_are_none(service):
    with_labels(service, [0, 1])
    for C in ([], [0.0], [1.0, -1.0], [1.0, 1e13], 0.0):
        assert "list" in refused(service, "C_range", C=C)[1]


def test_values_of_C_that_do_not_ascend_are_sorted_and_that_is_said(service):
    with_labels(service, [0, 1])
    for C in ([10.0, 0.1, 1.0], [0.1, 1.0, 1.0, 10.0]):
        (warning,) = service.request("POST", "/v1/jobs", json={"dataset": "d", "C": C}).json()["warnings"]
        assert warning["code"] == "C_sorted" and "0.1, 1, 10" in warning["message"]
    for fine in ([0.1, 1.0, 10.0], 0.1, [3.0]):
        assert service.request("POST", "/v1/jobs", json={"dataset": "d", "C": fine}).json()["warnings"] == []
