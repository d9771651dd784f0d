"""Request bodies: JSON read strictly, everything else as a stream with a limit."""

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, Request

from streamsvm.api.requests.leaving import turn
from streamsvm.service.errors import ServiceError

_MOST_DIGITS = 19
_HEAD_BYTES = 1 << 16


async def stream(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """The body as it arrives; raises ServiceError `body_too_large` or `multipart`, at once if a header says so."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise ServiceError("multipart", "this is a form with a file in it", "Send the file itself: curl -T FILE URL.")
    stated = request.headers.get("content-length", "0")
    if not (stated.isascii() and stated.isdecimal()):
        raise ServiceError("bad_content_length", "the Content-Length is not a number")
    if len(stated) > _MOST_DIGITS or int(stated) > most_bytes:
        raise _too_large(most_bytes)
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > most_bytes:
            raise _too_large(most_bytes)
        yield chunk


@asynccontextmanager
async def whole(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """The body, kept in memory that all clients share as long as the context lasts. Raises as `stream` does."""
    chunks = stream(request, most_bytes)
    # One that does not get on holds a little only, which each connection may have.
    head, is_whole = await head_of(chunks)
    amount = sum(map(len, head)) if is_whole else _expected(request, most_bytes)
    async with turn(request, request.app.state.context.shared.body_bytes, amount):
        yield b"".join([*head, *[chunk async for chunk in chunks]])


async def head_of(chunks: AsyncIterator[bytes]) -> tuple[list[bytes], bool]:
    """The first of the chunks, and whether they are all."""
    head, size = list[bytes](), 0
    while size < _HEAD_BYTES:
        chunk = await anext(chunks, None)
        if chunk is None:
            return head, True
        head.append(chunk)
        size += len(chunk)
    return head, False


async def json_object(request: Request) -> dict[str, Any]:
    """The body, see `parse_object`."""
    async with whole(request, request.app.state.context.settings.max_json_bytes) as body:
        return parse_object(body)


def parse_object(data: bytes) -> dict[str, Any]:
    """A JSON object, as RFC 8259 has it and Python's reader does not: UTF-8 only, no NaN, no number out of range, no
    half of a surrogate pair, no key given twice."""
    try:
        value = json.loads(
            data.decode(), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_object
        )
        # Text that came as UTF-8 has a lone surrogate only where it was escaped.
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ServiceError("bad_json", "the body is not JSON", "Send one JSON object in UTF-8.") from None
    if not isinstance(value, dict):
        raise ServiceError("bad_json", "the body is JSON, but not an object", "Send one JSON object.")
    return value


async def optional_json_object(request: Request) -> dict[str, Any]:
    """The same; a request without a body is one with nothing in it."""
    async with whole(request, request.app.state.context.settings.max_json_bytes) as body:
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


def _expected(request: Request, most_bytes: int) -> int:
    """Bytes that the body may come to: as many as it says, or as there may be."""
    stated = request.headers.get("content-length", "") if "transfer-encoding" not in request.headers else ""
    return min(int(stated), most_bytes) if stated.isdecimal() and len(stated) <= _MOST_DIGITS else most_bytes


def _too_large(most_bytes: int) -> ServiceError:
    return ServiceError("body_too_large", f"the body has more than {most_bytes} bytes")
