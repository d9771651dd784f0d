"""The OpenAPI document: models of JSON objects in answers and bodies, made from `answers.txt`, and other parts of it.

Routes neither check nor write answers with these models.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, create_model
from pydantic.json_schema import models_json_schema

from streamsvm.service.jobs.fields.spec import FOLLOWING, JobSpec
from streamsvm.service.jobs.progress.states import PHASES, PREDICTION_STATES, TRANSITIONS
from streamsvm.service.models.formats import SUFFIXES
from streamsvm.service.predictions.spec import PredictionSpec
from streamsvm.service.records.store import DATASET_STATES
from streamsvm.storage.run.figures import figures_in
from streamsvm.storage.run.state import SOLVER_PHASES

Responses = dict[int | str, dict[str, Any]]

_LINE = re.compile(r"^( *)(\w+)(\?|\([\w, ]+\))?: (?:(.+?) -- )?(.+)$", re.MULTILINE)
_FIGURES = re.compile(r"^  = ([\w, ]+)(\??)(?:; (.+))?$", re.MULTILINE)
_NAME = re.compile(r"[A-Z]\w+")


class Answer(BaseModel):
    """The base of answers. Later versions may add fields: a client ignores those that it does not know."""


class Body(BaseModel):
    """The base of bodies, which have no other fields than these."""

    model_config = ConfigDict(extra="forbid")


def _field(meaning: str, is_optional: bool) -> Any:
    # A factory, because a default would appear in the OpenAPI document, and a missing field has no default.
    return Field(default_factory=lambda: None, description=meaning) if is_optional else Field(description=meaning)


def _such_as(example: str) -> Any:
    return Annotated[str, Field(examples=[example])]


def _figures(line: re.Match[str]) -> str:
    """Return the lines of the figures of groups. A text says where they are null, `?` that old answers lack them."""
    null = (" | None", f"; {line[3]}") if line[3] else ("", "")
    found = figures_in(*line[1].split(", "))
    return "\n".join(f"  {each.name}{line[2]}: {each.type}{null[0]} -- {each.meaning}{null[1]}" for each in found)


def _read(lines: list[tuple[str, ...]], indent: str = "", owner: str = "") -> dict[str, Any]:
    """Take lines with this indent, and those below them, from the end of `lines`; return the fields they describe.

    owner  name of the object to which the fields belong
    """
    fields = {}
    while lines and lines[-1][0] == indent:
        _, name, mark, type_, meaning = lines.pop()
        bases, about, own = "Answer", f"`{name}` of {owner}: {meaning.partition(';')[0]}.", _NAME.search(type_ or name)
        if not type_:
            bases, about = mark[1:-1] or bases, meaning
        elif type_.startswith("list"):
            about = f"One of {about}"
        if own and (below := _read(lines, f"{indent}  ", own[0])):
            parents = tuple(type_of(base) for base in bases.split(", "))
            _TYPES[own[0]] = create_model(own[0], __base__=parents, __doc__=about, **below)
        if type_:
            fields[name] = (type_of(type_), _field(meaning, mark == "?"))
    return fields


def type_of(type_: str) -> Any:
    """Return the model of a type of `answers.txt`, such as "Job" or "Dataset | DatasetSummary"."""
    return eval(type_, _TYPES)


_JOB_FIELDS: dict[str, Any] = {
    name: (known.annotation, _field(known.description or "", name != "dataset"))
    for name, known in JobSpec.model_fields.items()
}
_TYPES: dict[str, Any] = {
    "Answer": Answer,
    "Body": Body,
    "JobFields": create_model(
        "JobFields",
        __base__=Answer,
        __doc__="Fields of a job with their defaults filled in; jobs of earlier versions lack those that came later.",
        **_JOB_FIELDS,
    ),
    "PredictionSpec": PredictionSpec,
    "DatasetState": Literal[DATASET_STATES],
    "JobState": Literal[tuple(TRANSITIONS)],
    "PredictionState": Literal[tuple(PREDICTION_STATES)],
    "Phase": Literal[PHASES],
    "SolverPhase": Literal[SOLVER_PHASES],
    "ModelFormat": Literal[tuple(SUFFIXES)],
    "Label": float | str,  # of rows: a number, or a text if labels of the data are texts
    "Value": float | bool | str | None,
    "Time": _such_as("2026-11-25T09:17:25.382Z"),
    "JobId": _such_as("job_01M8BJAEG2GZ073NZER7QN7ACC"),
    "ModelId": _such_as("mdl_01M8BJAJCVF2WHNP7BNYZN1BVC"),
    "Literal": Literal,
    "PositiveInt": PositiveInt,
    "NonNegativeInt": NonNegativeInt,
}
TEXT = _FIGURES.sub(_figures, Path(__file__).with_suffix(".txt").read_text())
_read(_LINE.findall(TEXT)[::-1])
BODIES = [each for each in _TYPES.values() if isinstance(each, type) and issubclass(each, Body) and each is not Body]


def answers(type_: str, status: int = 200, meaning: str = "", headers_: Mapping[str, str] | None = None) -> Responses:
    """Return the argument `responses` of a FastAPI route that answers with this status and an object of this type.

    meaning   description of the status; "": FastAPI's
    headers_  name -> meaning of the headers that the answer may have
    """
    more: dict[str, Any] = {"description": meaning} if meaning else {}
    return {status: {"model": type_of(type_), **more, **({"headers": headers(headers_)} if headers_ else {})}}


def headers(meanings: Mapping[str, str]) -> dict[str, Any]:
    """Return the `headers` of a response for OpenAPI; `meanings`: name of a header -> its meaning."""
    return {name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in meanings.items()}


def ref(*names: str) -> dict[str, Any]:
    """Return the schema of an object of one of these types, which the document has to list (`api.answers`)."""
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


def stream_of(media_type: str, *names: str) -> dict[str, Any]:
    """Return the `content` of a text of this media type, each of whose lines or events is an object of these types."""
    return {media_type: {"schema": {"type": "string", "contentMediaType": media_type, "contentSchema": ref(*names)}}}


def body_of(*names: str, files: Iterable[str] = ()) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body is an object of a type in `names`, or a file of a media type."""
    content: dict[str, Any] = {kind: {"schema": _file(kind)} for kind in files}
    content |= {"application/json": {"schema": ref(*names)}} if names else {}
    return {"requestBody": {"required": True, "content": content}}


def _file(media_type: str) -> dict[str, str]:
    return {"type": "string"} if media_type.startswith("text/") else {"type": "string", "format": "binary"}


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
