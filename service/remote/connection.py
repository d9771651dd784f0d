"""Sends requests to a service over HTTP, and raises the errors of its answers.

After a lost connection the upload of a file goes on from the byte that the service names, by
draft-ietf-httpbis-resumable-upload. An upload begins with an empty request, since `http.client` does not understand
the interim response in which the service could name the upload while it receives a body.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.service.errors import ServiceError

URL_VARIABLE, TOKEN_VARIABLE = "STREAMSVM_URL", "STREAMSVM_TOKEN"
DEFAULT_URL = "http://localhost:8000"
_TIMEOUT_SECONDS = 120
# The other end of a silent connection is gone if it has answered none of four questions in a minute.
_ALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
_RETRY_SECONDS = 0.25  # before the second try; doubled before each further one
_TOO_MANY = 429
_MOST_WAIT_SECONDS = 120.0
_FROM_PIPE = "Data from a pipe cannot be sent again: send a file, which waits for its turn, or start again later."
_PLACES = {"line", "column", "byte", "file"}  # parts of a position in an input
Refusal = TypeVar("Refusal", ServiceError, InputError)
_KINDS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
CHUNK_BYTES = 1 << 20
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
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.25, 30.0  # first and longest pause; pauses double from failure to failure


class Connection:
    """Sends each request over a new connection. Raises the service's ServiceError; `no_service` if it does not answer.

    token    token to send; None: the environment variable STREAMSVM_TOKEN, if set
    retries  how often to repeat a GET that no service answers, and an upload that the service is too busy for; 0: an
             upload does not go on after a lost connection, either
    sleep    function that waits for a number of seconds
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _KINDS or not parts.hostname:
            raise ServiceError("bad_url", f"{url} is not the address of a service", f"For example {DEFAULT_URL}.")
        self._url = url
        self._parts = parts
        self._retries = retries
        self._sleep = sleep
        token = token or os.environ.get(TOKEN_VARIABLE)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    where = "Start one with streamsvm serve, or say where it is with --url or STREAMSVM_URL."

    def told(self, error: Refusal) -> Refusal:
        """Return the error to raise; subclasses may reword its hint."""
        return error

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request with a JSON body; return the JSON of the answer, None if the answer is empty."""
        retries = self._retries if method == "GET" else 0
        for retry in range(retries):
            with suppress_unanswered():
                return self._json(method, path, body)
            self._sleep(_RETRY_SECONDS * 2**retry)
        return self._json(method, path, body)

    def _json(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with self._response(method, path, data, {"Content-Type": "application/json"}) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    def upload(self, path: str, source: IO[bytes]) -> Any:
        """PUT a stream. With a seekable stream, go on after a lost connection, and wait while the service is busy.

        Raises InputError for a fault in the data.
        """
        if source.seekable():
            with self._faults_told():
                return FileUpload(self._response, path, source, self._retries, self._sleep).send()
        return self.put(path, iter(lambda: source.read(CHUNK_BYTES), b""))

    def put(self, path: str, chunks: Iterable[bytes]) -> Any:
        """PUT bytes that can be read only once. Raises InputError for a fault in them."""
        try:
            return self._send("PUT", path, chunks, {})
        except ServiceError as error:
            if error.retry_after is None:
                raise
            raise self.told(ServiceError(error.code, error.message, _FROM_PIPE, error.at)) from None

    def post(self, path: str, chunks: Callable[[], Iterable[bytes]], kind: str, repeats: bool = True) -> Any:
        """POST the bytes that `chunks` returns, with the Content-Type `kind`; try again later if the service is busy.

        repeats  whether `chunks` can be called again
        Raises InputError for a fault in the bytes.
        """
        for _ in range(self._retries if repeats else 0):
            try:
                return self._send("POST", path, chunks(), {"Content-Type": kind})
            except ServiceError as error:
                if error.retry_after is None:
                    raise
                self._sleep(error.retry_after)
        return self._send("POST", path, chunks(), {"Content-Type": kind})

    def _send(self, method: str, path: str, chunks: Iterable[bytes], headers: dict[str, str]) -> Any:
        headers = {"Transfer-Encoding": "chunked", **headers}
        with self._faults_told(), self._response(method, path, iter(chunks), headers, takes_long=True) as response:
            return json.loads(response.read())

    @contextmanager
    def _faults_told(self) -> Iterator[None]:
        """Raise a ServiceError about the data, which has a line or a code of the reader, as an InputError."""
        try:
            yield
        except ServiceError as error:
            if "line" in error.at or (error.code in HINTS and error.at.keys() <= _PLACES):
                raise self.told(InputError.of(error.problem())) from None
            raise

    def download(self, path: str, target: IO[bytes]) -> None:
        """Write the answer of a GET request to a file."""
        with self._response("GET", path, takes_long=True) as response:
            while chunk := response.read(CHUNK_BYTES):
                target.write(chunk)

    def events(self, path: str, after: str = "") -> Iterator[tuple[str, str, Any]]:
        """Yield the server-sent events after number `after`, as (kind, number, data)."""
        with self._response("GET", path, None, {"Last-Event-ID": after} if after else {}) as response:
            fields: dict[str, str] = {}
            for line in map(bytes.decode, response):
                name, _, value = line.rstrip("\n").partition(": ")
                if value:
                    fields[name] = value
                elif "data" in fields:
                    yield fields["event"], fields.get("id", ""), json.loads(fields["data"])
                    fields = {}

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        takes_long: bool = False,
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the answer to a request; takes_long: the service may work for minutes before it answers."""
        connection = _KINDS[self._parts.scheme](self._parts.netloc, timeout=_TIMEOUT_SECONDS)
        try:
            if takes_long:
                connection.connect()
                connection.sock.settimeout(None)
                keep_asking(connection.sock)
            # A service that stops reading the body says why in its answer.
            with suppress(BrokenPipeError, ConnectionResetError):
                path = self._parts.path.rstrip("/") + path
                connection.request(method, path, body, {**self._headers, **(headers or {})}, encode_chunked=True)
            response = connection.getresponse()
            if response.status >= 400:
                raise self.told(_problem(response))
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise self.told(ServiceError("no_service", f"no service answers at {self._url}", self.where)) from error
        finally:
            connection.close()


@contextmanager
def suppress_unanswered() -> Iterator[None]:
    """Ignore the ServiceError `no_service`: the service may be restarting."""
    try:
        yield
    except ServiceError as error:
        if error.code != "no_service":
            raise


def keep_asking(connection: socket.socket) -> None:
    """Turn on TCP keep-alive: the kernel asks a silent other end, and notices that it has vanished without closing."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _ALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _problem(response: http.client.HTTPResponse) -> ServiceError:
    try:
        error = ServiceError.of(json.loads(response.read()))
        seconds = response.headers.get("Retry-After", "")
        if response.status == _TOO_MANY and seconds.isdecimal():
            error.retry_after = min(float(seconds), _MOST_WAIT_SECONDS)
        return error
    except (ValueError, KeyError):
        return ServiceError("no_service", f"another program than StreamSVM answers: status {response.status}")


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
        if self._place is None:
            self._begin()
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

    def _begin(self) -> None:
        if self._beginnings == _MOST_BEGINNINGS:
            raise ServiceError("given_up", "the service has given this upload up each time", "Its log may say why.")
        with self._response("PUT", self._path, b"", {"Upload-Complete": "?0"}) as response:
            place = response.headers["Location"]
        self._beginnings += 1
        # A proxy may have put a prefix before the path, which `response` does, too.
        self._place, self._offset, self._is_cut = place[place.index("/v1/") :], 0, False

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
