"""Models of the answers, for the OpenAPI document and the tests. Routes neither check nor write answers with them."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

Responses = dict[int | str, dict[str, Any]]
Label = float | str  # of rows: a number, or a text if labels of the data are texts


class Answer(BaseModel):
    """The base of all models. Later versions may add fields: a client ignores those that it does not know."""


def field(meaning: str, example: Any = None, **limits: Any) -> Any:
    """A field that the object always has; it is null only if its type says so.

    example  a value that the document shows; None: it shows none
    limits   pydantic's
    """
    return Field(description=meaning, examples=None if example is None else [example], **limits)


def sometimes(meaning: str, example: Any = None, **limits: Any) -> Any:
    """A field that the object may lack. The arguments are those of `field`."""
    # A factory, because a default would stand in the document: a field that is missing has no value.
    return field(meaning, example, default_factory=_nothing, **limits)


def _nothing() -> None: ...


def answers(model: Any, status: int = 200, meaning: str = "", headers_: Mapping[str, str] | None = None) -> Responses:
    """The `responses` of a route that answers with this status and an object of this model.

    meaning   of the status; "": the framework's words
    headers_  name -> meaning of the headers that the answer may have
    """
    more: dict[str, Any] = {"description": meaning} if meaning else {}
    return {status: {"model": model, **more, **({"headers": headers(headers_)} if headers_ else {})}}


def headers(meanings: Mapping[str, str]) -> dict[str, Any]:
    """The `headers` of a response: name -> meaning."""
    return {name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in meanings.items()}


def ref(*models: type[BaseModel]) -> dict[str, Any]:
    """The schema of an object of one of these models, which the document has to list (`api.description`)."""
    refs = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


def stream_of(media_type: str, *models: type[BaseModel]) -> dict[str, Any]:
    """The `content` of a text of this type, whose lines or events have an object of one of these models each."""
    return {media_type: {"schema": {"type": "string", "contentMediaType": media_type, "contentSchema": ref(*models)}}}
