"""Answers a request that creates a job and is sent again with its Idempotency-Key: the job is made once.

The header is that of draft-ietf-httpapi-idempotency-key-header. Keys are those of a client, and are kept for a day.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response

from streamsvm.api.access.clients import client_of
from streamsvm.api.context import AppContext, Context
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.views import job_view
from streamsvm.service.records.keys import RequestKey

_KEY = re.compile(r'"?[\x21\x23-\x7e]{1,255}"?')

_lock = Lock()
_under_way: set[tuple[str, str, str]] = set()  # database, client and key


class JobOnce:
    """Makes the job of a request, or finds that which the same request has made before."""

    def __init__(self, context: AppContext, request: Request, key: str | None) -> None:
        self._context, self._path, self._key = context, request.url.path, key
        self._client = client_of(request.scope)

    def answer(self, response: Response, fields: Any, make: Callable[[RequestKey | None], str]) -> dict[str, Any]:
        """The view of the job; the response gets its Location.

        make  adds the job, and notes the key with it; returns the job's id
        Raises ServiceError: idempotency_key_invalid, idempotency_key_reused, request_under_way; what `make` raises.
        """
        if self._key is None:
            return self._view(response, make(None))
        if not _KEY.fullmatch(self._key):
            raise ServiceError("idempotency_key_invalid", "Idempotency-Key has 1 to 255 letters, digits and signs")
        request_hash = hashlib.sha256(json.dumps([self._path, fields], sort_keys=True).encode()).hexdigest()
        key = RequestKey(self._client, self._key.strip('"'), request_hash)
        with self._alone(key):
            before = self._context.store.answered(key.client, key.key)
            if before is not None:
                return self._again(response, key, before)
            shown = self._view(response, make(key))
            self._context.store.keep_answer(key, json.dumps(shown))
            return shown

    def _again(self, response: Response, key: RequestKey, before: dict[str, Any]) -> dict[str, Any]:
        if before["request_hash"] != key.request_hash:
            raise ServiceError(
                "idempotency_key_reused", "another request came with this Idempotency-Key", "Choose a new key for it."
            )
        response.headers["Idempotent-Replayed"] = "true"
        if before["answer"] is None:
            return self._view(response, before["job_id"])
        response.headers["Location"] = _place(before["job_id"])
        return json.loads(before["answer"])

    def _view(self, response: Response, job_id: str) -> dict[str, Any]:
        response.headers["Location"] = _place(job_id)
        return job_view(self._context.settings, self._context.store.job(job_id))

    @contextmanager
    def _alone(self, key: RequestKey) -> Iterator[None]:
        """Raises request_under_way if a request with this key has no answer yet."""
        own = (str(self._context.settings.database), key.client, key.key)
        with _lock:
            if own in _under_way:
                raise ServiceError("request_under_way", "a request with this Idempotency-Key has no answer yet")
            _under_way.add(own)
        try:
            yield
        finally:
            with _lock:
                _under_way.discard(own)


def _place(job_id: str) -> str:
    return f"/v1/jobs/{job_id}"


def _job_once(
    context: Context,
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="of your choice: the same request with the same key, within a day, gets the first answer again",
        ),
    ] = None,
) -> JobOnce:
    return JobOnce(context, request, key)


Once = Annotated[JobOnce, Depends(_job_once)]
