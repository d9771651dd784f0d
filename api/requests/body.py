"""Reads requests. JSON bodies strictly by RFC 8259, other bodies as streams of limited size; parameters of the query.

Parameters that a route does not have are refused.
"""

import inspect
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from pydantic import BeforeValidator

from streamsvm.api.requests.deadlines import Hurry
from streamsvm.api.requests.leaving import turn
from streamsvm.reader.options import OPTIONS, InputOptions, encoding, yes_or_no
from streamsvm.service.errors import ServiceError, meant, refuse_other_fields, shown
from streamsvm.storage.options import Option

_ONE = "Send one JSON object in UTF-8"
_OF_FORMS = "application/x-www-form-urlencoded"  # which curl's -d and --data-binary send
_HEAD_BYTES = 1 << 16


async def stream(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives.

    Raises ServiceError body_too_large or multipart; if a header shows the fault, before anything is read.
    Sets `request.state.is_joined`: whether the body may be a file whose lines curl's -d has joined.
    """
    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        how = "-T" if request.method == "PUT" else "--data-binary @"
        hint = f"Send the file itself: curl {how}{' ' if how == '-T' else ''}FILE URL."
        raise ServiceError("multipart", "this is a form with a file in it", hint)
    if (_stated_bytes(request) or 0) > most_bytes:
        raise too_large(most_bytes)
    received, is_form = 0, kind == _OF_FORMS
    async for chunk in request.stream():
        if is_form:
            is_form = request.state.is_joined = b"\n" not in chunk and (received > 0 or not chunk.startswith(b"{"))
        received += len(chunk)
        if received > most_bytes:
            raise too_large(most_bytes)
        yield chunk


@asynccontextmanager
async def whole_body(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the whole body; until the `with` statement ends, its bytes count against the memory that clients share.

    Raises ServiceError as `stream` does, and too_slow if clients wait for the memory of a body that comes slowly.
    """
    chunks = stream(request, most_bytes)
    # Each connection may hold a head of a body: a body that ends within its head does not wait for memory.
    head, is_whole = await head_of(chunks)
    if is_whole:
        yield b"".join(head)
        return
    shares, stated = request.app.state.context.shared.body_bytes, _stated_bytes(request)
    async with turn(request, shares, most_bytes if stated is None else stated):
        yield b"".join([*head, *[chunk async for chunk in Hurry(request, shares).rest(chunks)]])


async def head_of(chunks: AsyncIterator[bytes]) -> tuple[list[bytes], bool]:
    """Return the first chunks, of 64 KiB or more together, and whether the body ends with them."""
    head, size = list[bytes](), 0
    while size < _HEAD_BYTES:
        chunk = await anext(chunks, None)
        if chunk is None:
            return head, True
        head.append(chunk)
        size += len(chunk)
    return head, False


async def json_object(request: Request) -> dict[str, Any]:
    """Return the body, a JSON object. Raises ServiceError as `whole_body` and `parse_object` do."""
    async with whole_body(request, request.app.state.context.settings.max_json_bytes) as body:
        return parse_object(body)


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object strictly, by RFC 8259.

    Raises ServiceError bad_json, not_finite or duplicate_key. Unlike `json.loads` it refuses NaN, numbers out of range,
    lone surrogates, and keys given twice.
    """
    try:
        value = json.loads(
            data.decode(), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_object
        )
        # UTF-8 cannot contain a lone surrogate, but an escape can.
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        at, example = {"line": error.lineno, "column": error.colno}, 'such as --json \'{"dataset": "mine"}\' with curl'
        raise ServiceError("bad_json", f"the body is not JSON: {error.msg}", f"{_ONE}, {example}.", at) from None
    except (ValueError, RecursionError):
        raise ServiceError("bad_json", "the body is not JSON", f"{_ONE}.") from None
    if not isinstance(value, dict):
        raise ServiceError("bad_json", "the body is JSON, but not an object", f"{_ONE}: {{...}}.")
    return value


async def optional_json_object(request: Request) -> dict[str, Any]:
    """Return the body, a JSON object; an empty body counts as {}."""
    async with whole_body(request, request.app.state.context.settings.max_json_bytes) as body:
        return parse_object(body or b"{}")


JsonObject = Annotated[dict[str, Any], Depends(json_object)]
OptionalJsonObject = Annotated[dict[str, Any], Depends(optional_json_object)]


def _refuse_constant(name: str) -> float:
    raise ServiceError("not_finite", f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ServiceError("not_finite", "a number is out of range")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ServiceError("duplicate_key", "a key is given twice")
    return members


def _stated_bytes(request: Request) -> int | None:
    """Return the body's Content-Length, which the server has checked; None if the body comes in chunks."""
    stated = request.headers.get("content-length")
    return None if stated is None else int(stated)


def too_large(most_bytes: int) -> ServiceError:
    """Make the error for a body that has more than `most_bytes` bytes."""
    return ServiceError("body_too_large", f"the body has more than {most_bytes} bytes")


_KINDS = {str: "text", int: "whole number", float: "number"}


def only_field(fields: dict[str, Any], name: str, kind: type[str] | type[int] | type[float]) -> Any:
    """Return the value of the only field that a body may have. Raises ServiceError unknown_field or wrong_type."""
    example = json.dumps({name: "text" if kind is str else 1})
    hint = f"Send {example}."
    refuse_other_fields(fields, {name}, hint)
    value = fields.get(name)
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
        raise ServiceError("wrong_type", f"{name} is no {_KINDS[kind]}", hint)
    return value


async def refuse_unknown(request: Request) -> None:
    """Raise ServiceError unknown_parameter or duplicate_parameter: if ignored, a mistyped name would go unnoticed."""
    allowed = set(_query_names(request.scope["route"].dependant))
    names = [name for name, _ in request.query_params.multi_items()]
    if unknown := next((name for name in names if name not in allowed), None):
        has_body = request.method in ("POST", "PUT", "PATCH")
        none = "It has none: fields go into the body, as JSON." if has_body else "It has none."
        hint = f"{meant(unknown, allowed)}It has: {', '.join(sorted(allowed))}." if allowed else none
        raise ServiceError("unknown_parameter", f"the route has no query parameter {shown(unknown)}", hint)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ServiceError("duplicate_parameter", f"the query parameter {twice} is given twice")


def _query_names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def parameter_of(option: Option) -> inspect.Parameter:
    """Make the query parameter of an input option, for the signature that FastAPI reads."""
    kind: Any = Literal[tuple(map(str, option.choices))] if option.choices else option.kind
    kind = Annotated[kind, BeforeValidator(option.read)] if option.read in (yes_or_no, encoding) else kind
    kind = kind | None if option.is_nullable else kind
    annotation = Annotated[kind, Query(**option.limits)] if option.limits else kind
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation)


def _options(names: Iterable[str]) -> Callable[..., InputOptions]:
    """Make a function that FastAPI calls with the query parameters of these options, and that returns InputOptions."""

    def options(**given: Any) -> InputOptions:
        reads = {name: OPTIONS[name].read for name in given}
        return InputOptions(**{name: read(given[name]) if read else given[name] for name, read in reads.items()})

    options.__signature__ = inspect.Signature([parameter_of(OPTIONS[name]) for name in names])  # type: ignore[attr-defined]
    return options


_OF_ROWS = "label_column", "text_column", "index_base", "header", "delimiter", "decimal", "encoding"
InputQuery = Annotated[InputOptions, Depends(_options(OPTIONS))]
RowsQuery = Annotated[InputOptions, Depends(_options(_OF_ROWS))]  # of rows to predict
