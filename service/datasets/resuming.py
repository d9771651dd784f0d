"""Uploads in several requests: when a connection is lost, the upload's ingest process waits for the remaining bytes.

An upload does not outlive the service: after a restart, the client has to begin anew.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from streamsvm.service.datasets.uploads import Upload, given_up
from streamsvm.service.errors import ServiceError

# An upload that has been without a request for this long may be ended for another one that finds no slot.
_SILENT_SECONDS = 60.0
_MOST_FAILURES = 1000  # uploads whose failure is remembered for a client that did not get the answer
_BEGIN_ANEW = "It is over or was given up, or the service has started again: begin anew, from byte 0."
_NO_FAULT_OF_INPUT = ("given_up", "too_slow")
_log = logging.getLogger("streamsvm.uploads")

# Reads chunks into a dataset; calls the function with the upload once that has a slot and a name.
ReadIn = Callable[[AsyncIterator[bytes], Callable[[Upload], None]], Coroutine[Any, Any, None]]


class ResumableUpload:
    """One upload. One request at a time sends bytes to it; a later request ends an earlier one and takes over."""

    def __init__(self, name: str, owner: str, wait_seconds: float) -> None:
        self.id = ""
        self.name, self.owner = name, owner
        self.length: int | None = None
        self._parts = _BodyParts(wait_seconds)
        self._sending: asyncio.Task[None] | None = None
        self._reading: asyncio.Future[None]

    @property
    def offset(self) -> int:
        """Number of bytes that were taken from requests; the next request continues at this byte."""
        return self._parts.offset

    @property
    def is_complete(self) -> bool:
        """Whether all bytes have come; ingest may not have read all of them yet."""
        return self._parts.is_complete

    async def begin(self, read_in: ReadIn) -> asyncio.Future[None]:
        """Start `read_in`; return its task once the upload has a slot and its id. Raises what `read_in` raises."""
        begun = asyncio.get_running_loop().create_future()

        def note(upload: Upload) -> None:
            self.id, upload.is_silent = upload.dataset_id, self._parts.is_silent
            begun.set_result(None)

        self._reading = asyncio.ensure_future(read_in(self._parts, note))
        try:
            await asyncio.wait([begun, self._reading], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.end()
            raise
        if not begun.done():
            self._parts.expire()
            self._reading.result()
        return self._reading

    async def take(self, offset: int, chunks: AsyncIterator[bytes], is_last: bool, length: int | None = None) -> None:
        """Take the bytes of a request, from `offset` on; after the last request wait until ingest has read all.

        length  number of bytes of the whole upload; None: the request does not say it

        If this call is cancelled, bytes that have come are kept. Raises ServiceError upload_offset_mismatch,
        upload_complete, upload_length_mismatch, upload_taken_over, and what `read_in` and `chunks` raise.
        """
        self._check_offset(offset)  # before the request under way is interrupted: it may be the one that is right
        await self.interrupt()
        self._check_offset(offset)
        if length is not None:  # every request that says it must say the same number
            if self.length not in (None, length) or length < self.offset:
                raise self._length_mismatch()
            self.length = length
        sending = self._sending = asyncio.ensure_future(self._send(chunks, is_last))
        self._parts.resume()
        sending.add_done_callback(self._sent)
        try:
            await asyncio.wait([sending, self._reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
        if self._reading.done():
            self._result()
            return
        if sending.cancelled():
            raise ServiceError("upload_taken_over", "a later request goes on with this upload", "Ask it with HEAD.")
        sending.result()
        if is_last:
            await asyncio.wait([self._reading])
            self._result()

    async def interrupt(self) -> None:
        """End the request that is sending, and restart the wait for the next; then only `take` changes the offset."""
        while self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        if not self.is_complete:
            self._parts.renew()

    def is_waiting(self) -> bool:
        """Whether bytes are still missing and no request is sending them."""
        return self._sending is None and not self.is_complete

    def hurry(self) -> None:
        """Give the upload up now if it waits for a request, else as soon as the running request ends early."""
        self._parts.hurry()

    async def end(self) -> None:
        """Give the upload up; when this returns, none of its data are left."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _result(self) -> None:
        if self._reading.cancelled():
            raise given_up("Its client asked for it.")
        self._reading.result()

    async def _send(self, chunks: AsyncIterator[bytes], is_last: bool) -> None:
        async for chunk in chunks:
            if self.length is not None and self.offset + len(chunk) > self.length:
                self._parts.expire()
                raise self._length_mismatch()
            if chunk:
                await self._parts.put(chunk)
        if is_last and self.length not in (None, self.offset):
            raise self._length_mismatch()
        if is_last:
            self._parts.finish()

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending = None
        if not sending.cancelled():
            sending.exception()  # `take` raises it, unless its own client has left
        self._parts.pause()

    def _check_offset(self, offset: int) -> None:
        if self.is_complete:
            raise ServiceError("upload_complete", "the upload is complete", "Look at its dataset.")
        if offset != self.offset:
            message = f"the upload goes on at byte {self.offset}, not at {offset}"
            raise ServiceError("upload_offset_mismatch", message, "Send the rest from there.", {"byte": self.offset})

    def _length_mismatch(self) -> ServiceError:
        return ServiceError(
            "upload_length_mismatch",
            f"the upload was to have {self.length} bytes",
            "Upload-Length, and Content-Length of the last request, must agree with what is sent.",
            {"byte": self.offset},
        )


class ResumableUploads:
    """The resumable uploads of this process, by the id of the dataset that they make."""

    def __init__(self, wait_seconds: float) -> None:
        self._wait_seconds = wait_seconds
        self._under_way: dict[str, ResumableUpload] = {}
        self._failures: OrderedDict[str, ServiceError] = OrderedDict()

    async def begin(self, name: str, owner: str, read_in: ReadIn) -> ResumableUpload:
        """Start an upload under a name. Raises what `read_in` raises, such as too_many_uploads and dataset_exists."""
        upload = ResumableUpload(name, owner, self._wait_seconds)
        reading = await upload.begin(read_in)
        self._under_way[upload.id] = upload
        reading.add_done_callback(lambda _: self._ended(upload, reading))
        return upload

    def find(self, name: str, upload_id: str) -> ResumableUpload:
        """Return an unfinished upload. Raises ServiceError: the error that ended this upload, or unknown_upload."""
        upload = self._under_way.get(upload_id)
        if upload is not None and upload.name == name:
            return upload
        failure = self._failures.get(upload_id)
        raise ServiceError("unknown_upload", "there is no such upload", _BEGIN_ANEW) if failure is None else failure

    async def make_way(self, name: str, owner: str) -> None:
        """Give up this owner's interrupted uploads under this name, since the client begins anew."""
        for upload in list(self._under_way.values()):
            if (upload.name, upload.owner) == (name, owner) and upload.is_waiting():
                await upload.end()

    def close(self) -> None:
        """Stop waiting for further requests, because the service ends."""
        self._wait_seconds = 0.0
        for upload in self._under_way.values():
            upload.hurry()

    async def end(self, seconds: float) -> None:
        """Abort all uploads; wait at most `seconds` until they have ended."""
        endings = [asyncio.ensure_future(upload.end()) for upload in self._under_way.values()]
        if endings:
            await asyncio.wait(endings, timeout=seconds)

    def _ended(self, upload: ResumableUpload, reading: asyncio.Future[None]) -> None:
        del self._under_way[upload.id]
        upload.hurry()  # stops its clock
        error = None if reading.cancelled() else reading.exception()
        if isinstance(error, ServiceError):
            if error.code not in _NO_FAULT_OF_INPUT:
                self._failures[upload.id] = error
                if len(self._failures) > _MOST_FAILURES:
                    self._failures.popitem(last=False)
        elif error is not None:
            _log.error("an upload ended in an error that nobody foresaw", exc_info=error)


class _BodyParts:
    """An async iterator over the chunks that requests `put`, one request after the other. For one event loop.

    A request calls `resume`, `put` for each chunk, and `finish` or `pause`. If no request resumes within
    `wait_seconds`, the iterator raises ServiceError given_up.
    """

    def __init__(self, wait_seconds: float) -> None:
        self.offset = 0  # bytes taken so far: every one of them reaches the reader
        self.is_complete = False
        self._wait_seconds = wait_seconds
        self._chunk: bytes | None = None
        self._is_expired = False
        self._wakes_reader, self._has_room = asyncio.Event(), asyncio.Event()
        self._has_room.set()
        self._silent_since: float | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.pause()

    def resume(self) -> None:
        """Stop the clock, because a request has come."""
        self._silent_since = None
        self._stop_clock()

    def pause(self) -> None:
        """Start the clock, because the request has ended and bytes are missing; if none is missing, do nothing."""
        if not (self.is_complete or self._is_expired):
            self._silent_since = time.monotonic()
            self.renew()

    def renew(self) -> None:
        """Restart the clock: the next request has `wait_seconds` from now on."""
        self._stop_clock()
        self._expiry = asyncio.get_running_loop().call_later(self._wait_seconds, self.expire)

    def hurry(self) -> None:
        """Wait for no further request; a request that is sending bytes may go on."""
        self._wait_seconds = 0.0
        if self._silent_since is not None:
            self.expire()

    def expire(self) -> None:
        """Stop waiting: the iterator raises ServiceError given_up after the last chunk."""
        self._stop_clock()
        self._is_expired = True
        self._wakes_reader.set()

    async def put(self, chunk: bytes) -> None:
        """Give the iterator a chunk, after it has yielded the previous one. If cancelled, none of the chunk is used."""
        await self._has_room.wait()
        self._chunk = chunk
        self.offset += len(chunk)
        self._has_room.clear()
        self._wakes_reader.set()

    def finish(self) -> None:
        """Say that all bytes have come; the iterator ends after the last chunk."""
        self.is_complete = True
        self._stop_clock()
        self._wakes_reader.set()

    def is_silent(self) -> bool:
        """Whether the upload has been without a request for more than _SILENT_SECONDS: another may take its slot."""
        return self._silent_since is not None and time.monotonic() - self._silent_since > _SILENT_SECONDS

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await self._wakes_reader.wait()
        if self._chunk is not None:
            chunk, self._chunk = self._chunk, None
            self._has_room.set()
            if not (self.is_complete or self._is_expired):
                self._wakes_reader.clear()
            return chunk
        if self._is_expired:
            raise given_up("Its client did not go on in time.")
        raise StopAsyncIteration

    def _stop_clock(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
