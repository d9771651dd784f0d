"""All routes are described, and other paths are problems."""

import json

import pytest
from fastapi.routing import iter_route_contexts

from streamsvm.api.access.auth import OPEN, SCOPES
from streamsvm.api.document import DOCUMENT
from tests.api.app import check_problem


def operations(app) -> list[str]:
    """The operationId of every route but the document's."""
    return [getattr(route, "operation_id", route.path) for route in iter_route_contexts(app.routes)]


def test_the_document_in_the_tree_is_that_of_the_service(filled):
    found = filled.request("GET", "/openapi.json").json()
    assert found == json.loads(DOCUMENT.read_text()), "a route has changed: run make openapi and look at the difference"


def test_every_route_has_an_operation_id_of_its_own(filled):
    names = list(operations(filled.app))
    assert len(names) == len(set(names)) > 10


def test_every_route_has_a_scope(filled):
    assert set(operations(filled.app)) == SCOPES.keys() | OPEN, "say in api/access/auth.py who may use the route"


def test_openapi_is_of_version_3_1_and_says_what_a_job_may_have(filled):
    document = filled.request("GET", "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/JobSpec"}
    schema = document["components"]["schemas"]["JobSpec"]
    assert schema["required"] == ["dataset"] and schema["additionalProperties"] is False
    assert "put" in document["paths"]["/v1/datasets/{name}"]


@pytest.mark.parametrize("path", ["/v1", "/v2/health", "/v1/jobs/a/b/c", "/docs", "/..%2f..%2fetc/passwd"])
def test_what_is_no_route(filled, path):
    check_problem(filled.request("GET", path), "no_such_route", 404)


def test_a_person_who_is_lost_gets_a_page(filled):
    answer = filled.request("GET", "/nowhere", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html")
    assert "There is no page /nowhere" in answer.text and 'href="/"' in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/datasets"),
        ("PATCH", "/v1/datasets/data"),
        ("PUT", "/v1/jobs"),
        ("DELETE", "/v1/models"),
        ("GET", "/v1/models/mdl_0/predict"),
        ("POST", "/v1/jobs/job_0/history"),
        ("OPTIONS", "/v1/jobs"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(filled, method, path):
    response = filled.request(method, path)
    check_problem(response, "method_not_allowed", 405)
    assert response.headers["allow"]


def test_a_bug_is_a_problem_without_its_details(service, monkeypatch):
    def fail(_):
        raise RuntimeError("secret")

    monkeypatch.setattr("streamsvm.service.records.store.Store.models", fail)
    response = service.request("GET", "/v1/models")
    check_problem(response, "internal", 500)
    assert "secret" not in response.text


def test_query_parameters_a_route_does_not_have_are_refused(filled):
    document = filled.request("GET", "/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods.keys() & {"get", "put", "post", "patch", "delete"}:
            ids = {"job_id": "job_0", "prediction_id": "prd_0", "model_id": filled.model, "upload_id": "ds_0"}
            url = path.format(name="data", version=1, block=0, alias="a", **ids)
            found = check_problem(filled.request(method.upper(), f"{url}?spam=1"), "unknown_parameter", 422)
            assert "'spam'" in found["detail"]
    assert filled.request("GET", "/v1/datasets/data").status_code == 200


def test_a_query_parameter_is_given_once(filled):
    url = f"/v1/models/{filled.model}/file?format=onnx&format=npz"
    check_problem(filled.request("GET", url), "duplicate_parameter", 422)
