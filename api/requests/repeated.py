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
from threading import Lock
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool

from streamsvm.api.access.auth import client_of
from streamsvm.api.context import AppContext, Context
from streamsvm.api.requests.body import stream
from streamsvm.api.requests.leaving import while_connected
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.progress import job_view
from streamsvm.service.predictions.spec import prediction_view
from streamsvm.service.records.table import RequestKey

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
