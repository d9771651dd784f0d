"""Uploads a file to a service. After a lost connection the upload goes on from the byte that the service names.

The protocol is draft-ietf-httpbis-resumable-upload. An upload begins with an empty request, since `http.client` does
not understand the interim response in which the service could name the upload while it receives a body.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import IO, Any

from streamsvm.service.errors import ServiceError

CHUNK_BYTES = 1 << 20
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.25, 30.0  # first and longest pause; pauses double from failure to failure
_MOST_FAILURES = 8  # in a row, without any byte that reached the service: about a minute
_MOST_BEGINNINGS = 4
# Codes after which the upload may still exist in the service; after `unknown_upload` a new one begins.
_GOES_ON = (
    "no_service",
    "too_slow",
    "unknown_upload",
    "upload_taken_over",
    "upload_offset_mismatch",
    "upload_complete",
)

Response = Callable[..., AbstractContextManager[http.client.HTTPResponse]]


class FileUpload:
    """The upload of one file.

    response  function that sends a request (method, path, body, headers) and raises the ServiceError of its answer
    path      path and query of the PUT request for the file
    source    a seekable file, which is sent from its current position
    tries     how often to wait when the service is busy; 0: never, and a failed upload does not go on, either
    """

    def __init__(
        self, response: Response, path: str, source: IO[bytes], tries: int, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._response, self._path, self._source, self._sleep = response, path, source, sleep
        self._start = source.tell()
        self._busy_left = tries
        self._most_failures = _MOST_FAILURES if tries else 0
        self._failures = self._beginnings = 0
        self._place: str | None = None  # the path of the upload
        self._offset = 0
        self._is_cut = False  # the service has to be asked where to go on

    def send(self) -> Any:
        """Send the file; return the service's description of its dataset. Raises ServiceError if it cannot go on."""
        while True:
            try:
                return self._try()
            except ServiceError as error:
                self._sleep(self._pause_after(error))

    def _try(self) -> Any:
        if self._place is None and (shown := self._begin()) is not None:
            return shown
        if self._is_cut and self._ask():
            return self._outcome()
        self._is_cut = True
        self._source.seek(self._start + self._offset)
        with self._patch(self._chunks(), True, {"Transfer-Encoding": "chunked"}) as response:
            return json.loads(response.read())

    def _pause_after(self, error: ServiceError) -> float:
        """Return the seconds to wait after this error before the next try. Raises the error if none is to follow."""
        if error.retry_after is not None and self._busy_left:
            self._busy_left -= 1
            return error.retry_after
        if error.code not in _GOES_ON or self._failures >= self._most_failures:
            raise error
        if error.code == "upload_offset_mismatch":
            self._note(error.at["byte"])
        if error.code == "unknown_upload":
            self._place = None
        self._failures += 1
        return min(_MOST_PAUSE_SECONDS, _PAUSE_SECONDS * 2 ** (self._failures - 1))

    def _begin(self) -> Any:
        """Begin an upload; return None. A service of an older version gets the whole file and returns the dataset."""
        if self._beginnings == _MOST_BEGINNINGS:
            raise ServiceError("given_up", "the service has given this upload up each time", "Its log may say why.")
        try:
            with self._response("PUT", self._path, b"", {"Upload-Complete": "?0"}) as response:
                place = response.headers["Location"]
        except ServiceError as error:
            if error.code != "no_rows":
                raise
            return self._send_at_once()  # the older service took the empty part for a whole body
        self._beginnings += 1
        # A proxy may have put a prefix before the path, which `response` does, too.
        self._place, self._offset, self._is_cut = place[place.index("/v1/") :], 0, False
        return None

    def _send_at_once(self) -> Any:
        self._source.seek(self._start)
        with self._response("PUT", self._path, self._chunks(), {"Transfer-Encoding": "chunked"}) as response:
            return json.loads(response.read())

    def _ask(self) -> bool:
        """Ask the service at which byte to go on; return whether it has all bytes."""
        with suppress(ServiceError), self._response("HEAD", self._place) as response:
            self._note(int(response.headers["Upload-Offset"]))
            return response.headers["Upload-Complete"] == "?1"
        # The answer to a HEAD has no error message; the answer to an empty part has one.
        with self._patch(b"", False) as response:
            self._note(int(response.headers["Upload-Offset"]))
        return False

    def _outcome(self) -> Any:
        """Wait until the service has read in the dataset that it has all bytes of; return the dataset's description."""
        pause = _PAUSE_SECONDS
        while True:
            try:
                with self._response("GET", self._path.partition("?")[0]) as response:
                    shown = json.loads(response.read())
            except ServiceError as error:
                if error.code == "unknown_dataset":
                    with self._patch(b"", True):  # raises what was wrong
                        pass
                raise
            if shown["state"] != "ingesting":
                return shown
            self._sleep(pause)
            pause = min(_MOST_PAUSE_SECONDS, 2 * pause)

    def _patch(
        self, body: Any, is_last: bool, headers: dict[str, str] | None = None
    ) -> AbstractContextManager[http.client.HTTPResponse]:
        """Send a part of the upload, from the current offset on."""
        of_part = {
            "Content-Type": "application/partial-upload",
            "Upload-Offset": str(self._offset),
            "Upload-Complete": f"?{int(is_last)}",
        }
        return self._response("PATCH", self._place, body, {**of_part, **(headers or {})})

    def _note(self, offset: int) -> None:
        """Set the byte to go on from; any progress resets the count of failures."""
        if offset > self._offset:
            self._failures = 0
        self._offset = offset

    def _chunks(self) -> Iterator[bytes]:
        return iter(lambda: self._source.read(CHUNK_BYTES), b"")
