"""Request bodies: JSON read strictly, everything else as a stream with a limit."""

import json
import math
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Request

from service.errors import ServiceError

MOST_JSON_BYTES = 1 << 20
_MOST_DIGITS = 19


async def stream(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """The body as it arrives; raises ServiceError `body_too_large`, before reading if the header says so."""
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


async def json_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object. NaN, infinities, numbers out of range and keys given twice are refused."""
    text = b"".join([chunk async for chunk in stream(request, MOST_JSON_BYTES)])
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ServiceError("bad_json", "the body is not JSON", "Send one JSON object.") from error
    if not isinstance(value, dict):
        raise ServiceError("bad_json", "the body is JSON, but not an object", "Send one JSON object.")
    return value


JsonObject = Annotated[dict[str, Any], Depends(json_object)]


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


def _too_large(most_bytes: int) -> ServiceError:
    return ServiceError("body_too_large", f"the body has more than {most_bytes} bytes")
