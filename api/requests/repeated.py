"""Answers a request that is sent again with its Idempotency-Key: a job is made once, rows are added once.

The header follows draft-ietf-httpapi-idempotency-key-header. Each client has its own keys; they are kept for a day.
The key of a request that adds rows is recorded with the uid of the dataset's contents, when all of the body has come
and before its rows take effect. When the change ends, `Store.end_change` deletes the key if the uid is still the same:
no rows were added.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from streamsvm.api.access.auth import client_of
from streamsvm.api.context import AppContext, Context
from streamsvm.api.requests.body import stream
from streamsvm.api.requests.deadlines import INFORM, UNREAD
from streamsvm.api.requests.leaving import while_connected
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.resuming import ResumableUpload
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.progress import job_view
from streamsvm.service.predictions.spec import prediction_view
from streamsvm.service.records.table import RequestKey
from streamsvm.service.settings import Settings

_KEY = re.compile(r'"?[\x21\x23-\x7e]{1,255}"?')

# Headers of answers, for the OpenAPI document.
REPLAYED = {"Idempotent-Replayed": "`true` if this is the first answer again"}

KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="of your choice: the same request with the same key, within a day, gets the first answer again",
    ),
]

_lock = Lock()
_under_way: set[tuple[str, str, str]] = set()  # database, client and key
# A function (client, chunks) that adds the rows in the chunks to a dataset.
Add = Callable[[str, AsyncIterator[bytes]], Coroutine[Any, Any, None]]


class JobOnce:
    """Makes the job that a request asks for, or finds the job that the same request has made before."""

    path = "/v1/jobs/"

    def __init__(self, context: Context, request: Request, key: KeyHeader = None) -> None:
        self._context, self._path, self._key = context, request.url.path, key
        self.client = client_of(request.scope)

    def answer(self, response: Response, fields: Any, make: Callable[[RequestKey | None], str]) -> dict[str, Any]:
        """Return the job as a dict for JSON, and set the response's header Location to the job's path.

        fields  JSON of the request, by which a repeated request is recognized
        make    function that adds the job, records the idempotency key (unless None) with it, and returns the job's id
        Raises ServiceError idempotency_key_invalid, idempotency_key_reused, request_under_way, and what `make` raises.
        """
        if self._key is None:
            return self._view(response, make(None))
        request_hash = hashlib.sha256(json.dumps([self._path, fields], sort_keys=True).encode()).hexdigest()
        key = RequestKey(self.client, key_of(self._key), request_hash)
        with alone(self._context, key.client, key.key):
            before = self._context.store.answered(key.client, key.key)
            if before is not None:
                return self._again(response, key, before)
            shown = self._view(response, make(key))
            self._context.store.keep_answer(key, json.dumps(shown))
            return shown

    def _again(self, response: Response, key: RequestKey, before: dict[str, Any]) -> dict[str, Any]:
        check_same(before, key.request_hash)
        response.headers["Idempotent-Replayed"] = "true"
        if before["answer"] is None:
            return self._view(response, before["job_id"])
        response.headers["Location"] = self.path + before["job_id"]
        return json.loads(before["answer"])

    def _view(self, response: Response, made: str) -> dict[str, Any]:
        response.headers["Location"] = self.path + made
        return self.shown(self._context, made)

    def shown(self, context: AppContext, job_id: str) -> dict[str, Any]:
        """Return a job as the dict that the API answers with."""
        return job_view(context.settings, context.store.job(job_id))


class PredictionOnce(JobOnce):
    """Makes the prediction of files that a request asks for, or finds the one that the same request has made before."""

    path = "/v1/predictions/"

    def shown(self, context: AppContext, prediction_id: str) -> dict[str, Any]:
        """Return a prediction as the dict that the API answers with."""
        return prediction_view(context.settings, context.store.job(prediction_id, "prediction"))


class RegistrationOnce(JobOnce):
    """Makes the version of a name that a request asks for, or finds the one that the same request has made before."""

    path = "/v1/models/"

    def shown(self, context: AppContext, reference: str) -> dict[str, Any]:
        """Return the version that a reference `NAME:VERSION` means, as the dict that the API answers with."""
        found = context.store.resolve(reference)
        versions = context.store.registered_model(str(found.name))["versions"]
        (version,) = (each for each in versions if each["version"] == found.version)
        return {"name": found.name, **{name: version[name] for name in ("version", "model_id", "created_at")}}


def key_of(header: str) -> str:
    """Return the key in the header, without quotes. Raises ServiceError idempotency_key_invalid."""
    if not _KEY.fullmatch(header):
        raise ServiceError("idempotency_key_invalid", "Idempotency-Key has 1 to 255 letters, digits and signs")
    return header.strip('"')


def check_same(before: Mapping[str, Any], request_hash: str) -> None:
    """Raise ServiceError idempotency_key_reused unless the record of the key, `before`, has this hash of a request."""
    if before["request_hash"] != request_hash:
        raise ServiceError(
            "idempotency_key_reused", "another request came with this Idempotency-Key", "Choose a new key for it."
        )


@contextmanager
def alone(context: AppContext, client: str, key: str) -> Iterator[None]:
    """Refuse other requests with this key during the `with` statement. Raises ServiceError request_under_way."""
    own = (str(context.settings.database), client, key)
    with _lock:
        if own in _under_way:
            raise under_way()
        _under_way.add(own)
    try:
        yield
    finally:
        with _lock:
            _under_way.discard(own)


def under_way() -> ServiceError:
    """Make the error for a request whose idempotency key belongs to a request that has no answer yet."""
    return ServiceError("request_under_way", "a request with this Idempotency-Key has no answer yet")


Once = Annotated[JobOnce, Depends()]
OncePredicted = Annotated[PredictionOnce, Depends()]
OnceRegistered = Annotated[RegistrationOnce, Depends()]


class RowsOnce:
    """Adds the rows of a request, or finds that the same request has added them before."""

    def __init__(self, context: Context, request: Request, key: KeyHeader = None) -> None:
        self._context, self._request, self._header = context, request, key
        self._client = client_of(request.scope)

    async def answer(self, response: Response, name: str, add: Add) -> dict[str, Any]:
        """Add the rows of the body with `add`, once; return the dataset as a dict for JSON.

        Raises ServiceError idempotency_key_invalid, idempotency_key_reused, request_under_way, and what `add` raises.
        """
        chunks = stream(self._request, self._context.settings.max_upload_bytes)
        if self._header is None:
            await while_connected(self._request, add(self._client, chunks))
            return self._context.datasets.view(name)
        key = key_of(self._header)
        with alone(self._context, self._client, key):
            before = await run_in_threadpool(self._context.store.answered, self._client, key)
            if before is not None:
                return await self._again(response, name, before, chunks)
            await while_connected(self._request, add(self._client, self._noted(name, key, chunks)))
            shown = self._context.datasets.view(name)
            await run_in_threadpool(
                self._context.store.keep_answer, RequestKey(self._client, key, ""), json.dumps(shown)
            )
            return shown

    async def _noted(self, name: str, key: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks; after the last chunk, record the key."""
        body = self._hash()
        async for chunk in chunks:
            body.update(chunk)
            yield chunk
        noted = RequestKey(self._client, key, body.hexdigest())
        await run_in_threadpool(self._context.datasets.note_request, name, noted)

    async def _again(
        self, response: Response, name: str, before: dict[str, Any], chunks: AsyncIterator[bytes]
    ) -> dict[str, Any]:
        """Read the body, check that it is the same as in the first request, and return the first answer again."""
        body = self._hash()
        async for chunk in chunks:
            body.update(chunk)
        check_same(before, body.hexdigest())
        shown = self._context.datasets.view(name) if before["answer"] is None else json.loads(before["answer"])
        if before["answer"] is None and shown["state"] == "changing":
            raise under_way()
        response.headers["Idempotent-Replayed"] = "true"
        return shown

    def _hash(self) -> Any:
        """Make the hash of the request's path and query, to which the caller adds the body."""
        request = self._request
        return hashlib.sha256(json.dumps([request.url.path, sorted(request.query_params.multi_items())]).encode())


OnceAdded = Annotated[RowsOnce, Depends()]


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
