"""Closes connections whose clients make no progress; uvicorn itself would wait for them for ever.

A client has a deadline for the head of a request, from when it connects or begins the next one, and for the time
between two requests, which uvicorn enforces. While it sends a body or takes an answer it has a budget: waiting spends
it, and every `least_bytes_per_second` bytes that move add a second, up to the whole budget. If there are more
connections than allowed, the one that has waited longest for a request is closed. A stream of events has small buffers:
it brings some hundred bytes a second, and would fill the system's usual buffers for an hour before the service could
see that its client takes nothing. A client that leaves is noticed even while nothing is read from it, and the work for
it ends.
"""

import asyncio
import select
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import h11
from fastapi import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamsvm.api.access.auth import client_of
from streamsvm.api.errors import problem
from streamsvm.api.requests.leaving import PRESENCE, Presence
from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.logs import request_id
from streamsvm.service.records.database import new_id
from streamsvm.service.remote.connection import keep_asking
from streamsvm.service.shares import LEAST_RATE, Shares

# Seconds that a slow body may hold a share for which another client waits.
SECONDS = 3.0
_LOOK_SECONDS = 0.5


class Hurry:
    """Reads one body while its client holds a part of `shares`; ends a slow body if others wait for that part."""

    def __init__(self, request: Request, shares: Shares) -> None:
        self._client, self._shares = client_of(request.scope), shares
        self._budget = WaitingBudget(SECONDS, LEAST_RATE)

    async def rest(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the remaining chunks. Raises ServiceError too_slow, and what `chunks` raises."""
        loop = asyncio.get_running_loop()
        chunk: bytes | None = b""
        while chunk is not None:
            began = loop.time()
            try:
                async with asyncio.timeout(None) as limit:
                    looking = loop.create_task(self._end_if_wanted(limit))
                    try:
                        chunk = await anext(chunks, None)
                    finally:
                        looking.cancel()
            except TimeoutError:
                raise ServiceError("too_slow", "the body came too slowly, and another client waited") from None
            self._budget.spend(loop.time() - began, len(chunk or b""))
            if chunk:
                yield chunk

    async def _end_if_wanted(self, limit: asyncio.Timeout) -> None:
        """End the time limit once the client's budget is spent and another request waits for the client's share."""
        await asyncio.sleep(max(0.0, self._budget.left))
        while not self._shares.is_wanted(self._client):
            await asyncio.sleep(_LOOK_SECONDS)
        limit.reschedule(asyncio.get_running_loop().time())


# Phases of a connection. Each has a deadline, except while the service still makes the answer.
WAITING = "waiting"  # the service waits for the head of the first request, or the rest of a later request's head
IDLE = "idle"  # between two requests; uvicorn enforces the deadline
BODY = "body"  # the body is arriving and the application reads it
REST = "rest"  # the answer is sent, and the rest of the body is still arriving
ANSWER = "answer"  # the answer is made or sent; the deadline counts only while the client has bytes to take
CLOSING = "closing"  # the connection closes once the client has taken the remaining bytes

# A key of the ASGI scope: a function (status, headers) that sends an interim response, which ASGI does not know.
INFORM = "streamsvm.inform"
# A key of the ASGI scope: a function that returns the bytes of the body that had come when the client left, which
# `receive` has not returned, and whether the body ends with them.
UNREAD = "streamsvm.unread"

# A proxy may take one header for the body's length, and the service the other: the rest would count as another request.
_TWO_LENGTHS = {b"content-length", b"transfer-encoding"}
_LOOKS_A_DEADLINE = 8
_EVENTS = b"text/event-stream"
_UNSENT_BYTES = 1 << 14  # of a stream of events, in the system's buffer
# The client has closed its side, or the connection is broken; the system reports this even while nothing is read.
_LEFT = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Deadlines(NamedTuple):
    """Limits in seconds: for the head of a request, between two requests, and for a body's or answer's next bytes."""

    header: float = 10.0
    idle: int = 75
    body: float = 60.0


class Connections:
    """All connections of a server, which it checks eight times within the shortest deadline."""

    def __init__(self, most: int, least_rate: float, deadlines: Deadlines) -> None:
        self._most, self.least_rate, self.deadlines = most, least_rate, deadlines
        self._all: set[TimedProtocol] = set()
        self._waiting: dict[TimedProtocol, None] = {}  # the one that has waited longest is first
        self._interval = min(deadlines.header, deadlines.body) / _LOOKS_A_DEADLINE
        self._next_look: asyncio.TimerHandle | None = None

    def protocol(self, **arguments: Any) -> "TimedProtocol":
        """Make a connection, for uvicorn."""
        return TimedProtocol(self, **arguments)

    def add(self, connection: "TimedProtocol") -> None:
        """Add a connection; close the one that has waited longest if there are too many."""
        self._all.add(connection)
        self.set_waiting(connection, True)
        if len(self._all) > self._most:
            longest = next(iter(self._waiting))
            self.remove(longest)
            longest.transport.abort()
        if self._next_look is None:
            self._look_later()

    def remove(self, connection: "TimedProtocol") -> None:
        """Remove a connection that is lost."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def set_waiting(self, connection: "TimedProtocol", is_waiting: bool) -> None:
        """Set whether a connection waits for the head of a request, from now on."""
        self._waiting.pop(connection, None)
        if is_waiting:
            self._waiting[connection] = None

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(self._interval, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        for connection in list(self._all):
            connection.end_if_overdue(now)
        self._close_abandoned()
        self._next_look = None
        if self._all:
            self._look_later()

    def _close_abandoned(self) -> None:
        """Close connections whose reading is paused and whose clients have left; reading notices all others."""
        poll, unread = select.poll(), {}
        for connection in self._all:
            if connection.flow.read_paused and not connection.transport.is_closing():
                number = connection.transport.get_extra_info("socket").fileno()
                unread[number] = connection
                poll.register(number, _LEFT)
        for number, _ in poll.poll(0) if unread else ():
            unread[number].transport.abort()


class WaitingBudget:
    """The seconds that the service still waits for a client: waiting spends them, progress adds to them."""

    def __init__(self, most: float, rate: float) -> None:
        self._most, self._rate = most, rate
        self.left = most

    def spend(self, seconds: float, n_bytes: int) -> None:
        """Subtract seconds of waiting, and add a second for every `rate` bytes that have moved."""
        self.left = min(self._most, self.left + n_bytes / self._rate - seconds)


class TimedProtocol(H11Protocol):
    """An HTTP/1.1 connection that ends when its client makes no progress."""

    def __init__(self, connections: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._connections = connections
        self._presence = Presence()
        self._app, self.app = self.app, self._run
        self._is_stream = False  # whether its answer is a stream of events, which never ends by itself
        self._moved = 0  # bytes received, and bytes given to the transport
        self._taken = 0  # those of the moved bytes that had left the transport's buffer at the last check
        self._phase_since: tuple[str, object, float] = (WAITING, None, time.monotonic())
        self._looked_at = time.monotonic()
        self._budget = WaitingBudget(connections.deadlines.body, connections.least_rate)

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application with the client's Presence in its scope, and count the bytes of the answer."""

        async def counted(message: Any) -> None:
            headers = message.get("headers", ())
            if any(name == b"content-type" and value.startswith(_EVENTS) for name, value in headers):
                self._begin_stream()
            self._moved += len(message.get("body", b""))
            await send(message)

        if {name for name, _ in scope["headers"]} >= _TWO_LENGTHS:
            self._refuse("bad_request", "a body with Transfer-Encoding has no Content-Length")
            return
        scope[PRESENCE] = self._presence
        scope[INFORM], scope[UNREAD] = self._inform, self._unread
        await self._app(scope, receive, counted)

    def _begin_stream(self) -> None:
        """Make buffers small, so that writing stops as soon as the client takes nothing; this answer is the last."""
        self._is_stream = True
        self.transport.set_write_buffer_limits(0)
        with suppress(OSError):
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        with suppress(OSError):
            keep_asking(transport.get_extra_info("socket"))
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)
        self._presence.end()

    def data_received(self, data: bytes) -> None:
        self._moved += len(data)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._connections.set_waiting(self, False)

    def on_response_complete(self) -> None:
        self._connections.set_waiting(self, True)
        super().on_response_complete()

    def shutdown(self) -> None:
        super().shutdown()
        if self._is_stream:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse("bad_request", "this is not HTTP")

    def end_if_overdue(self, now: float) -> None:
        """Close the connection if its client has missed its deadline."""
        phase = self._phase()
        if not self._is_overdue(phase, now):
            return
        if phase in (ANSWER, CLOSING):
            self.transport.abort()
        elif phase == BODY or self.conn.trailing_data[0]:
            self._refuse("too_slow", "the request came too slowly")
        else:
            self.transport.close()

    def _is_overdue(self, phase: str, now: float) -> bool:
        limits, cycle = self._connections, self.cycle
        if cycle is not self._phase_since[1]:
            self._budget = WaitingBudget(limits.deadlines.body, limits.least_rate)
        if (phase, cycle) != self._phase_since[:2]:
            self._phase_since = phase, cycle, now
        seconds, self._looked_at = now - self._looked_at, now
        left = self.transport.get_write_buffer_size()
        before, self._taken = self._taken, self._moved - left
        is_ours = phase == ANSWER and left == 0
        self._budget.spend(0.0 if is_ours else seconds, max(0, self._taken - before))
        if phase in (WAITING, REST):
            return now - self._phase_since[2] > limits.deadlines.header
        return phase != IDLE and not is_ours and self._budget.left < 0

    def _phase(self) -> str:
        if self.transport.is_closing():
            return CLOSING
        if self.cycle is None or self.cycle.response_complete:
            if self.conn.their_state is not h11.IDLE:
                return REST
            return WAITING if self.cycle is None or self.conn.trailing_data[0] else IDLE
        waits_for_us = self.flow.read_paused or self.cycle.waiting_for_100_continue
        return BODY if self.cycle.more_body and not waits_for_us else ANSWER

    def _inform(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send an interim response, unless the final one has begun."""
        if self.conn.our_state is h11.SEND_RESPONSE and not self.transport.is_closing():
            interim = h11.InformationalResponse(status_code=status, headers=headers)
            self.transport.write(self.conn.send(interim) or b"")

    def _unread(self) -> tuple[bytes, bool]:
        body, self.cycle.body = bytes(self.cycle.body), bytearray()
        return body, not self.cycle.more_body

    def _refuse(self, code: str, detail: str) -> None:
        """Answer with a problem if that is still possible, and close the connection."""
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
        self._presence.end()
        self.transport.close()
