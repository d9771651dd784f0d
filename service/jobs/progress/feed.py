"""Feeds the changes of jobs to all clients that watch: each job is read at most ten times a second for all of them.

All event streams of a job share one beat: what is new is read and encoded once, and each stream only sends it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.jobs.progress.progress import history_bytes, history_file, job_view, records_of, sequence_number
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings

PART_BYTES = 1 << 16
_PARTS_KEPT = 64  # for clients that come one after the other
_FRESH_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_CHANGE_SECONDS = 10.0
_BEATS_A_PING = 30
_MOST_KEPT = 256


@dataclass(frozen=True)
class Event:
    """An event of a job; `kind` is state, pass, progress, end or ping. With a `number`, it is sent once, in order."""

    kind: str
    data: str
    number: int | None = None

    def __bytes__(self) -> bytes:
        """Return the event as it is sent; a ping is a comment of the server-sent events format."""
        if self.kind == "ping":
            return b": ping\n\n"
        number = "" if self.number is None else f"id: {self.number}\n"
        return f"event: {self.kind}\ndata: {self.data}\n{number}\n".encode()


class _Events(tuple[Event, ...]):
    """Events that are sent together, encoded once for all clients."""

    @cached_property
    def encoded(self) -> bytes:
        """The events in the format of server-sent events."""
        return b"".join(map(bytes, self))


def _to_json(value: Any) -> str:
    """Return JSON without blanks, the form of all other answers."""
    return json.dumps(value, separators=(",", ":"))


def begun_last(transitions: Sequence[dict[str, Any]]) -> int:
    """Return the number of state changes up to the beginning of the last attempt; 0: no attempt has begun."""
    return max((k for k, step in enumerate(transitions, start=1) if step["state"] == "running"), default=0)


class _HistoryPart(NamedTuple):
    """The passes of a part of a history, and the offset in bytes where the next part begins in the file."""

    events: _Events
    end: int


@lru_cache(_PARTS_KEPT)
def read_part(path: Path, begun: int, begin: int, end: int) -> _HistoryPart:
    """Read the passes in the whole lines between offsets `begin` and `end` in bytes, or one line that is longer.

    begun  see `begun_last`: the passes have sequence numbers that follow this change of state
    """
    text = b""
    if path.exists():
        with path.open("rb") as file:
            file.seek(begin)
            text = file.read(end - begin)
            while b"\n" not in text and (more := file.read(PART_BYTES)):
                text += more
    text = text[: text.rfind(b"\n") + 1]
    passes = (record for _, record in records_of(text.split(b"\n")[:-1]) if "result" not in record)
    events = _Events(Event("pass", _to_json(each), sequence_number(begun, each["pass"])) for each in passes)
    return _HistoryPart(events, begin + len(text))


class Place:
    """The position of a client in the events of a job.

    after   number of the last event that the client had seen when it connected
    begun   `begun_last` of the attempt whose passes are sent
    offset  bytes of the history that have been sent
    """

    def __init__(self, after: int) -> None:
        self._after, self._states_told = after, 0
        self.begun = self.offset = 0

    def states(self, transitions: Sequence[dict[str, Any]], until: int) -> _Events:
        """Return the changes of state among the first `until` ones that the client has not been sent."""
        first, self._states_told = self._states_told, max(until, self._states_told)
        steps = enumerate(transitions[first:until], start=first + 1)
        return self.unseen(_Events(Event("state", _to_json(step), sequence_number(k, 0)) for k, step in steps))

    def begin(self, begun: int) -> None:
        """Set the attempt that began last; the passes of a new attempt are sent from the first."""
        if begun != self.begun:
            self.begun, self.offset = begun, 0

    def unseen(self, events: _Events) -> _Events:
        """Leave out events that the client had seen when it connected; the numbers of events ascend."""
        are_new = not events or (events[0].number or 0) > self._after
        return events if are_new else _Events(event for event in events if (event.number or 0) > self._after)


_PING = _Events([Event("ping", "")])  # sent so that clients do not take a silent connection for a dead one


@dataclass(frozen=True)
class _JobView:
    """A job at one time: its record, its dict as shown, that dict as JSON, and the length of its history."""

    change: tuple[int, ...]
    at: float
    record: dict[str, Any]
    view: dict[str, Any]
    encoded: bytes
    history_bytes: int

    @cached_property
    def progress(self) -> _Events:
        """The event of the job's progress, made once for all clients."""
        return _Events([Event("progress", _to_json({"phase": self.view["phase"], **self.view["progress"]}))])

    @cached_property
    def end(self) -> _Events:
        """The event of the job's end, made once for all clients."""
        return _Events([Event("end", self.encoded.decode())])

    @cached_property
    def length(self) -> tuple[int, int, bool]:
        """Transitions, bytes of history, `is_between_runs`: what changes with every event but those of progress."""
        return len(self.view["transitions"]), self.history_bytes, self.is_between_runs

    @property
    def has_ended(self) -> bool:
        return not TRANSITIONS[self.view["state"]]

    @property
    def is_between_runs(self) -> bool:
        """Whether an attempt has begun that has no files yet; files of the attempt before may still exist."""
        return self.view["state"] == "running" and self.view["phase"] is None


class JobFeed:
    """Answers requests that wait for a job, without a thread for each. All methods raise ServiceError unknown_job."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._looks: dict[str, _JobView] = {}
        self._tasks: dict[Hashable, asyncio.Task] = {}
        self._is_closing = False

    def close(self) -> None:
        """Answer all waiting requests now."""
        self._is_closing = True

    async def end(self) -> None:
        """Cancel all work that is still under way: its clients have gone."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def text(self, job_id: str) -> bytes:
        """Return the job as JSON, at most a tenth of a second old, encoded once for all clients."""
        return (await self._look(job_id)).encoded

    async def wait(self, job_id: str, after: int, seconds: float) -> bytes:
        """Return the job as JSON once its `seq` exceeds `after`, it ends, `seconds` are over, or `close` is called."""

        end = time.monotonic() + seconds
        while await self._is_awaited(job_id, after) and (left := end - time.monotonic()) > 0:
            with suppress(TimeoutError):
                change = self._shared(("change", job_id, after), lambda: self._change(job_id, after))
                await asyncio.wait_for(change, left)
        return await self.text(job_id)

    async def events(self, job_id: str, after: int) -> AsyncIterator[bytes]:
        """Yield encoded events after number `after` (0: all), past events first, some at a time, to the job's end."""
        silent_beats, place, told, look = 0, Place(after), None, await self._look(job_id)
        while True:
            if look.length != told:
                async for events in self._news(look, place):
                    if events:
                        yield events.encoded
                told = look.length
            if look.has_ended:
                yield look.end.encoded
                return
            if look.view["progress"]:
                yield look.progress.encoded
            elif (silent_beats := silent_beats + 1) % _BEATS_A_PING == 0:
                yield _PING.encoded
            look = await self._shared(("beat", job_id), partial(self._beat, job_id))

    async def _beat(self, job_id: str) -> _JobView:
        """Wait half a second, and return the job as it is then."""
        await asyncio.sleep(_PROGRESS_SECONDS)
        return await self._look(job_id)

    async def _change(self, job_id: str, after: int) -> None:
        """Return at the job's next change, or after some seconds: requests that still wait call it again."""
        end = time.monotonic() + _CHANGE_SECONDS
        while await self._is_awaited(job_id, after) and time.monotonic() < end:
            await asyncio.sleep(_FRESH_SECONDS)

    async def _is_awaited(self, job_id: str, after: int) -> bool:
        """Return whether a request for a `seq` above `after` has to go on waiting."""
        look = await self._look(job_id)
        return not (self._is_closing or look.view["seq"] > after or look.has_ended)

    async def _news(self, look: _JobView, place: Place) -> AsyncIterator[_Events]:
        """Yield the events that a client at `place` lacks; passes follow the state change that began their attempt."""
        transitions = look.view["transitions"]
        place.begin(begun_last(transitions))
        yield place.states(transitions, place.begun)
        # The history is read in parts that all clients share: it may be long, and clients many.
        path, end = history_file(self._settings, look.view["id"]), look.history_bytes
        place.offset = min(place.offset, end)
        while place.begun and not look.is_between_runs and place.offset < end:
            key = path, place.begun, place.offset, min(end, place.offset + PART_BYTES)
            part = await self._shared(key, partial(asyncio.to_thread, read_part, *key))
            if part.end == place.offset:
                break
            place.offset = part.end
            yield place.unseen(part.events)
            await asyncio.sleep(0)  # other clients are served between two parts
        yield place.states(transitions, len(transitions))

    async def _look(self, job_id: str) -> _JobView:
        look = self._looks.get(job_id)
        if look and look.change == self._store.change() and time.monotonic() - look.at < _FRESH_SECONDS:
            return look
        # SQLite may wait for a writer: not in the event loop.
        return await self._shared(job_id, lambda: asyncio.to_thread(self._read, job_id))

    def _read(self, job_id: str) -> _JobView:
        change, at = self._store.change(), time.monotonic()
        before = self._looks.get(job_id)
        record = before.record if before and before.change == change else self._store.job(job_id)
        view = job_view(self._settings, record)
        look = _JobView(change, at, record, view, _to_json(view).encode(), history_bytes(self._settings, job_id))
        if len(self._looks) >= _MOST_KEPT:
            self._looks.clear()
        self._looks[job_id] = look
        return look

    def _shared(self, key: Hashable, work: Callable[[], Awaitable]) -> Awaitable:
        """Return an awaitable of the result of `work`, which runs once for all requests that arrive while it runs."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(self._once(key, work))
        # A request that is cancelled must not cancel the work of the others.
        return asyncio.shield(task)

    async def _once(self, key: Hashable, work: Callable[[], Awaitable]) -> Any:
        """Return the result of `work`, and forget its task when it has ended: later requests start new work."""
        try:
            return await work()
        finally:
            self._tasks.pop(key)
