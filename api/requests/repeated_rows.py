"""Answers a request that adds rows and is sent again with its Idempotency-Key: the rows are added once.

The key is recorded with the uid of the dataset's contents, when all of the body has come and before its rows take
effect. When the change ends, `Store.end_change` deletes the key if the uid is still the same: no rows were added.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool

from streamsvm.api.access.clients import client_of
from streamsvm.api.context import Context
from streamsvm.api.requests.body import stream
from streamsvm.api.requests.leaving import while_connected
from streamsvm.api.requests.repeated import KeyHeader, alone, check_same, key_of, under_way
from streamsvm.service.records.table import RequestKey

# A function (client, chunks) that adds the rows in the chunks to a dataset.
Add = Callable[[str, AsyncIterator[bytes]], Coroutine[Any, Any, None]]


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


Once = Annotated[RowsOnce, Depends()]
