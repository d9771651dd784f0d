"""The OpenAPI document has a model of every answer; `tests.api.answers` holds the answers of all tests against them."""

import json
import re

import pytest

from streamsvm.api import answers
from streamsvm.api.document import DOCUMENT
from streamsvm.service.jobs.fields.spec import parse_spec
from tests.api.answers import route_of

FOUND = json.loads(DOCUMENT.read_text())
SCHEMAS = FOUND["components"]["schemas"]
ANSWERS = {
    f"{operation['operationId']}-{status}": response
    for methods in FOUND["paths"].values()
    for operation in methods.values()
    for status, response in operation["responses"].items()
}
# Objects whose fields others have.
BASES = {"Gaps", "Figures", "Counts", "Objectives", "Attempts", "Evaluated"}
OPERATIONS = [
    (method.upper(), path, operation["operationId"])
    for path, methods in FOUND["paths"].items()
    for method, operation in methods.items()
    if path != "/metrics"
]


def refs(schema):
    """Names of the models that a schema mentions."""
    if isinstance(schema, dict):
        own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
        return own + [name for each in schema.values() for name in refs(each)]
    return [name for each in schema for name in refs(each)] if isinstance(schema, list) else []


def meanings(schema):
    return [field["description"] for field in schema["properties"].values()]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_a_schema(name):
    content = ANSWERS[name].get("content", {})
    assert content or name.endswith(("-204", "-304")), "an answer without a body is 204"
    for media_type, described in content.items():
        assert described["schema"], media_type
        is_json = media_type.endswith("json")
        assert bool(refs(described)) == (is_json or media_type == "text/event-stream")


def test_models_are_those_of_bodies_and_each_says_what_it_means():
    assert set(refs(FOUND["paths"]) + refs(SCHEMAS)) == SCHEMAS.keys()
    for name, schema in SCHEMAS.items():
        assert schema["description"], name
        for field, described in schema["properties"].items():
            assert described.get("description"), f"{name}.{field}"
            is_body = name in ("JobSpec", "PredictionSpec")
            assert "default" not in described or is_body, f"{name}.{field}: an answer has no defaults"


def test_the_document_has_every_line_of_the_text():
    described = [text for schema in SCHEMAS.values() for text in (schema["description"], *meanings(schema))]
    lines = [line for line in answers.TEXT.splitlines() if line and not line.startswith("#")]
    missing = [line for line in lines if not line.endswith(tuple(described))]
    assert len(lines) > 400 and {re.split("[(:]", line)[0] for line in missing} == BASES


def test_the_document_says_whose_it_is_and_where():
    assert FOUND["info"]["license"] == {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
    assert [server["url"] for server in FOUND["servers"]] == ["/", "http://localhost:8000"]
    used = {tag for methods in FOUND["paths"].values() for operation in methods.values() for tag in operation["tags"]}
    assert {tag["name"] for tag in FOUND["tags"]} == used and all(tag["description"] for tag in FOUND["tags"])


@pytest.mark.parametrize(("method", "path", "operation_id"), OPERATIONS)
def test_answers_of_every_route_are_looked_at(method, path, operation_id):
    route = route_of(method, re.sub("{.*?}", "x", path).replace("blocks/x", "blocks/0"))
    assert route is not None and route.operation_id == operation_id


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kernel": "rbf"},
        {"solver": "bsgd"},
        {"loss": "epsilon_insensitive", "folds": 3},
        {"tolerance": 0.001},
        {"relative_gap": 0.1},
    ],
)
def test_a_client_may_send_every_default_that_the_document_has(given):
    fields = {name: field["default"] for name, field in SCHEMAS["JobSpec"]["properties"].items() if "default" in field}
    wanted = parse_spec({"dataset": "data", **given})
    assert len(fields) > 25 and parse_spec({**fields, "dataset": "data", **given}) == wanted
