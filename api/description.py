"""The OpenAPI document of the routes, completed by parts that FastAPI leaves out: servers, tags, lines of streams."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from streamsvm.api.answers import BODIES, type_of
from streamsvm.service.jobs.fields.spec import FOLLOWING, JobSpec
from streamsvm.service.predictions.spec import PredictionSpec

_REF = "#/components/schemas/{model}"
# Models that FastAPI does not list, because no answer is one of them as a whole.
_FURTHER = [type_of(name) for name in ("Problem", "ClassifiedRow", "EstimatedRow", "Pass", "PhaseAndProgress")]
_BODIES = (JobSpec, PredictionSpec, *BODIES)

ABOUT: dict[str, Any] = {
    "title": "StreamSVM",
    "version": "1",
    "summary": "Trains support vector machines on data larger than memory.",
    "description": (
        "Upload a dataset, submit a job, watch it, and predict with its model. Answers are JSON. Errors are problems "
        "(RFC 9457) with a `code`, which stays the same, and a `hint`. Answers may get further fields: ignore those "
        "that you do not know. Every answer has an `X-Request-Id`."
    ),
    "license_info": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    "servers": [
        {"url": "/", "description": "the service that this document is from"},
        {"url": "http://localhost:8000", "description": "`streamsvm serve` on this machine"},
    ],
    "openapi_tags": [
        {"name": "datasets", "description": "Data that are read in once, and trained on by any number of jobs."},
        {"name": "jobs", "description": "Training: submitted, watched, stopped and resumed."},
        {"name": "models", "description": "Models of jobs: their files, predictions and evaluations."},
        {"name": "registered models", "description": "Names of models, their versions, and aliases such as champion."},
        {"name": "predictions", "description": "Predictions of files into files: queued, watched, and resumed."},
        {"name": "service", "description": "The service itself: what it can do, and how it is."},
    ],
}


class DescribedApp(FastAPI):
    """An app whose OpenAPI document has the parts that FastAPI leaves out."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, which the first call makes."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["schemas"] |= _further_schemas()
            for methods in document["paths"].values():
                for operation in methods.values():
                    _tidy(operation)
        assert self.openapi_schema is not None
        return self.openapi_schema


def _further_schemas() -> dict[str, Any]:
    wanted: list[Any] = [(each, "serialization") for each in _FURTHER] + [(each, "validation") for each in _BODIES]
    schemas = models_json_schema(wanted, ref_template=_REF)[1]["$defs"]
    schemas[JobSpec.__name__]["examples"] = [{"dataset": "rcv1", "C": 1, "relative_gap": 1e-4}]
    for name in FOLLOWING:
        # Clients that are made from the document send every default that it has.
        schemas[JobSpec.__name__]["properties"][name].pop("default")
    return schemas


def _tidy(operation: dict[str, Any]) -> None:
    """Correct FastAPI's description of routes that have several paths, and of routes that return a dict."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path" and "anyOf" in parameter["schema"]:
            # Without a value, the request has another path.
            del parameter["schema"]["anyOf"]
            parameter["schema"]["type"] = "string"
    for response in operation["responses"].values():
        for content in response.get("content", {}).values():
            content["schema"] = _tidied(content.get("schema", {}))


def _tidied(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the model alone, where FastAPI has merged it with the schema of a dict."""
    own = next((name for name in ("$ref", "anyOf") if name in schema), None)
    if own:
        return {own: schema[own]}
    return {**schema, "items": _tidied(schema["items"])} if "items" in schema else schema
