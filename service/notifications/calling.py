"""Calls a URL once: one look-up, one connection to an address that it gave, no redirects, all within a time."""

import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

from streamsvm.service.notifications.destinations import Destination, Resolve, addresses

SECONDS = 10.0


class Refused(Exception):
    """The receiver answered by another status than 2xx; `is_final` if it wants no more calls (410)."""

    def __init__(self, status: int) -> None:
        told = ", and redirects are not followed" if 300 <= status < 400 else ""
        super().__init__(f"it answered {status}{told}")
        self.is_final = status == 410


def call(
    found: Destination,
    headers: Mapping[str, str],
    body: bytes,
    seconds: float = SECONDS,
    resolve: Resolve = socket.getaddrinfo,
    context: ssl.SSLContext | None = None,
) -> int:
    """POST a body; returns the status, which is 2xx.

    Raises Refused, ServiceError notify_forbidden, OSError, http.client.HTTPException. A look-up may take longer than
    `seconds`: the system's resolver has limits of its own.
    """
    places = addresses(found, resolve)
    end = time.monotonic() + seconds
    with _connected(places, end) as plain:
        if found.scheme == "https":
            plain.settimeout(_remaining(end))
            context = context or ssl.create_default_context()
            with context.wrap_socket(plain, server_hostname=found.host) as secure:
                return _post(secure, end, found, headers, body)
        return _post(plain, end, found, headers, body)


def _connected(places: list[tuple[Any, ...]], end: float) -> socket.socket:
    failure: OSError = OSError("the host has no address")
    for family, address in places:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(_remaining(end))
            connection.connect(address)
            return connection
        except OSError as error:
            failure = error
            connection.close()
    raise failure


def _post(connection: socket.socket, end: float, found: Destination, headers: Mapping[str, str], body: bytes) -> int:
    client = http.client.HTTPConnection(found.host, found.port)
    client.default_port = 443 if found.scheme == "https" else 80
    client.sock = _Timed(connection, end)
    client.request("POST", found.target, body, {**headers, "Content-Type": "application/json", "Connection": "close"})
    status = client.getresponse().status
    if not 200 <= status < 300:
        raise Refused(status)
    return status


class _Timed:
    """A connection whose reads and writes end at a time, however slowly bytes come: as http.client uses it."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection, self._end = connection, end

    def sendall(self, data: bytes) -> None:
        self._connection.settimeout(_remaining(self._end))
        self._connection.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reading(self._connection, self._end))

    def close(self) -> None:
        """Leave the connection open: `call` closes it."""


class _Reading(io.RawIOBase):
    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection, self._end = connection, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_remaining(self._end))
        return self._connection.recv_into(buffer)


def _remaining(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
