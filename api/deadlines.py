"""Clients that keep a connection and do nothing with it lose it. uvicorn itself waits for them for ever.

A client has `header_seconds` to send the head of a request once it has connected, or begun the next one; between two it
may be silent for `idle_seconds`, which uvicorn sees to. Of a body at least 1 KiB must arrive, and of an answer some be
taken, in `body_seconds`. Beyond as many connections as there may be, those go first that have waited longest for a
request.
"""

import asyncio
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.errors import problem
from service.processes.logs import request_id
from service.records.ids import new_id
from service.settings import Settings

# What a connection is doing. Each ends in time or is overdue.
WAITING = "waiting"  # for the head of the first request, or what is left of another's
IDLE = "idle"  # between two requests; uvicorn ends that
BODY = "body"  # is arriving, and we want it
REST = "rest"  # of a body that has its answer already is arriving
ANSWER = "answer"  # is made or sent; ours to end, unless the client takes none of it
CLOSING = "closing"  # when the client has taken what is left

# A key of the ASGI scope: the answer is a stream of events, which has no end of its own.
ENDLESS = "streamsvm.endless"

_LEAST_BYTES = 1024
_LOOKS_A_DEADLINE = 8


class Connections:
    """All connections of a server, looked at a few times within the shortest deadline."""

    def __init__(self, settings: Settings, most: int) -> None:
        self.header_seconds = settings.header_seconds
        self.body_seconds = settings.body_seconds
        self._most = most
        self._all: set[TimedProtocol] = set()
        self._waiting: dict[TimedProtocol, None] = {}  # the longest waiting first
        self._interval = min(self.header_seconds, self.body_seconds) / _LOOKS_A_DEADLINE
        self._next_look: asyncio.TimerHandle | None = None

    def protocol(self, **arguments: Any) -> "TimedProtocol":
        """A connection, as uvicorn makes it."""
        return TimedProtocol(self, **arguments)

    def add(self, connection: "TimedProtocol") -> None:
        """One more; another one may have to go for it."""
        self._all.add(connection)
        self.set_waiting(connection, True)
        if len(self._all) > self._most:
            longest = next(iter(self._waiting))
            self.remove(longest)
            longest.transport.abort()
        if self._next_look is None:
            self._look_later()

    def remove(self, connection: "TimedProtocol") -> None:
        """It is lost."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def set_waiting(self, connection: "TimedProtocol", is_waiting: bool) -> None:
        """Whether it waits for the head of a request, from now on."""
        self._waiting.pop(connection, None)
        if is_waiting:
            self._waiting[connection] = None

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(self._interval, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        for connection in list(self._all):
            connection.end_if_overdue(now)
        self._next_look = None
        if self._all:
            self._look_later()


class TimedProtocol(H11Protocol):
    """An HTTP/1.1 connection that ends when its client does not get on."""

    def __init__(self, connections: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._connections = connections
        self._received = 0
        self._left = 0  # bytes the client had not taken yet when last looked at
        self._mark: tuple[str, object, float, int] = (WAITING, None, time.monotonic(), 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._connections.set_waiting(self, False)

    def on_response_complete(self) -> None:
        self._connections.set_waiting(self, True)
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._get_on(time.monotonic())
        super().resume_writing()

    def shutdown(self) -> None:
        super().shutdown()
        if self.cycle is not None and self.cycle.scope.get(ENDLESS):
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse("bad_request", "this is not HTTP")

    def end_if_overdue(self, now: float) -> None:
        """Close the connection if its client has not got on in time."""
        phase, cycle = self._phase(), self.cycle
        if (phase, cycle) != self._mark[:2] or self._has_got_on(phase):
            self._get_on(now)
        limits = self._connections
        if phase == IDLE or now - self._mark[2] <= (
            limits.header_seconds if phase in (WAITING, REST) else limits.body_seconds
        ):
            return
        if phase in (ANSWER, CLOSING):
            self.transport.abort()
        elif phase == BODY or self.conn.trailing_data[0]:
            self._refuse("too_slow", "the request came too slowly")
        else:
            self.transport.close()

    def _phase(self) -> str:
        if self.transport.is_closing():
            return CLOSING
        if self.cycle is None or self.cycle.response_complete:
            if self.conn.their_state is not h11.IDLE:
                return REST
            return WAITING if self.cycle is None or self.conn.trailing_data[0] else IDLE
        waits_for_us = self.flow.read_paused or self.cycle.waiting_for_100_continue
        return BODY if self.cycle.more_body and not waits_for_us else ANSWER

    def _has_got_on(self, phase: str) -> bool:
        if phase == BODY:
            return self._received - self._mark[3] >= _LEAST_BYTES
        before, self._left = self._left, self.transport.get_write_buffer_size()
        return phase in (ANSWER, CLOSING) and (self._left == 0 or self._left < before)

    def _get_on(self, now: float) -> None:
        self._mark = (self._phase(), self.cycle, now, self._received)

    def _refuse(self, code: str, detail: str) -> None:
        """Say why, if an answer is still possible, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            request_id.set(new_id("req"))
            answer = problem(code, detail)
            headers = [*answer.raw_headers, (b"x-request-id", request_id.get().encode()), (b"connection", b"close")]
            head = h11.Response(status_code=answer.status_code, headers=headers)
            for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
