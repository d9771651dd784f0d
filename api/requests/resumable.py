"""Implements draft-ietf-httpbis-resumable-upload: after a lost connection, an upload goes on from its last byte.

A client asks for a resumable upload by the header `Upload-Complete` of its first request.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Header, Request, Response
from starlette.requests import ClientDisconnect

from streamsvm.api.access.auth import client_of
from streamsvm.api.context import AppContext
from streamsvm.api.requests.body import stream
from streamsvm.api.requests.deadlines import INFORM, UNREAD
from streamsvm.api.requests.leaving import while_connected
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.resuming import ResumableUpload
from streamsvm.service.errors import ServiceError
from streamsvm.service.settings import Settings

PARTIAL = "application/partial-upload"
_BOOLEANS = {"?0": False, "?1": True}  # of structured fields, RFC 9651
_INTEGER = re.compile(r"[0-9]{1,15}")
_INTERIM = 104  # Upload Resumption Supported
# The version of the draft. A server sends interim responses only to clients that name the same version.
_INTEROP = "8"


@dataclass(frozen=True)
class UploadPart:
    """A request's headers about the upload to which its body belongs; None for a missing or malformed header.

    is_last  whether the upload is complete after this request
    offset   position, in the upload, of the body's first byte
    length   number of bytes of the whole upload
    """

    is_last: bool | None
    offset: int | None
    length: int | None


async def _part(
    request: Request,
    complete: Annotated[
        str | None,
        Header(alias="Upload-Complete", description="`?1`: the upload ends with this request; `?0`: others follow"),
    ] = None,
    length: Annotated[
        str | None, Header(alias="Upload-Length", description="bytes of the whole upload, if they are known")
    ] = None,
) -> UploadPart:
    is_last = _BOOLEANS.get(complete or "")
    offset = _integer(request.headers.get("upload-offset"))
    stated = _integer(request.headers.get("content-length"))
    ending = (offset or 0) + stated if is_last and stated is not None else None
    told = _integer(length)
    if None not in (ending, told) and ending != told:
        raise ServiceError("upload_length_mismatch", "Upload-Length and Content-Length do not agree")
    return UploadPart(is_last, offset, ending if told is None else told)


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


PartHeaders = Annotated[UploadPart, Depends(_part)]


async def refuse_part(part: PartHeaders) -> None:
    """Raise ServiceError upload_not_resumable if the body is only a part: for routes that take it in one request."""
    if part.is_last is False:
        raise ServiceError("upload_not_resumable", "this route takes a body in one request", "Send all of it at once.")


async def create(
    request: Request, response: Response, context: AppContext, name: str, options: InputOptions, part: UploadPart
) -> None:
    """Begin an upload with the bytes of this request; if others must follow, the response says where to send them."""
    _check_length(part, context.settings)
    upload = await while_connected(request, context.datasets.begin_upload(name, options, client_of(request.scope)))
    where = {"location": f"/v1/datasets/{quote(name)}/uploads/{upload.id}", **limits(context.settings)}
    if request.headers.get("upload-draft-interop-version") == _INTEROP and INFORM in request.scope:
        told = {**where, "upload-draft-interop-version": _INTEROP}
        request.scope[INFORM](_INTERIM, [(key.encode(), value.encode()) for key, value in told.items()])
    try:
        await take(request, context, upload, 0, part)
    except ServiceError as error:
        # The client was refused, and begins anew if at all.
        if error.code != "upload_taken_over":
            await upload.end()
        raise
    response.headers.update(state(upload))
    if not part.is_last:
        response.status_code = 202
        response.headers.update(where)


async def take(request: Request, context: AppContext, upload: ResumableUpload, offset: int, part: UploadPart) -> None:
    """Add the bytes of this request to an upload. Raises what `ResumableUpload.take` raises, and ClientDisconnect."""
    _check_length(part, context.settings)
    chunks = _chunks(request, context.settings.max_upload_bytes - offset)
    await upload.take(offset, chunks, bool(part.is_last), part.length)


async def _chunks(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body as `stream` does; if the client leaves, also yield the bytes that it had sent by then."""
    try:
        async for chunk in stream(request, most_bytes):
            yield chunk
    except ClientDisconnect:
        rest, is_whole = request.scope[UNREAD]() if UNREAD in request.scope else (b"", False)
        yield rest
        if not is_whole:
            raise


def state(upload: ResumableUpload) -> dict[str, str]:
    """Return the headers that say how many bytes of an upload have come, and whether these are all."""
    length = {} if upload.length is None else {"upload-length": str(upload.length)}
    return {"upload-complete": f"?{int(upload.is_complete)}", "upload-offset": str(upload.offset), **length}


def limits(settings: Settings) -> dict[str, str]:
    """Return the header that says how large an upload may be, and how long it waits for its client."""
    return {"upload-limit": f"max-size={settings.max_upload_bytes}, max-age={int(settings.upload_wait)}"}


def _check_length(part: UploadPart, settings: Settings) -> None:
    if part.length is not None and part.length > settings.max_upload_bytes:
        raise ServiceError("body_too_large", f"an upload may have {settings.max_upload_bytes} bytes")
