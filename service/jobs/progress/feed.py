"""Feeds the changes of jobs to all who watch: each job is read at most ten times a second, however many watch it.

All streams of a job's events have one beat: what is new is read and encoded once, and each stream only sends it.
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
    """`kind` is state, pass, progress, end or ping; those with a number are told once, in its order."""

    kind: str
    data: str
    number: int | None = None

    def __bytes__(self) -> bytes:
        """The event as it is sent: a ping is a comment."""
        if self.kind == "ping":
            return b": ping\n\n"
        number = "" if self.number is None else f"id: {self.number}\n"
        return f"event: {self.kind}\ndata: {self.data}\n{number}\n".encode()


class _Events(tuple[Event, ...]):
    """Events that are told together, encoded once for all readers."""

    @cached_property
    def encoded(self) -> bytes:
        """Server-sent events."""
        return b"".join(map(bytes, self))


def _to_json(value: Any) -> str:
    """JSON without blanks, as all other answers are."""
    return json.dumps(value, separators=(",", ":"))


def begun_last(transitions: Sequence[dict[str, Any]]) -> int:
    """How many changes of state there are up to the beginning of the last attempt; 0: none has begun."""
    return max((k for k, step in enumerate(transitions, start=1) if step["state"] == "running"), default=0)


class _HistoryPart(NamedTuple):
    """Passes of a part of a history, and where the next part begins in the file, in bytes."""

    events: _Events
    end: int


@lru_cache(_PARTS_KEPT)
def read_part(path: Path, begun: int, begin: int, end: int) -> _HistoryPart:
    """The passes of the whole lines between these bytes, or of the one line that is longer.

    begun  see `begun_last`: passes are numbered after the beginning of their attempt
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
    """Where a client is in the events of a job.

    after   number of the last event that it had seen when it came
    begun   of the attempt whose passes it is told, `begun_last`
    offset  bytes of the history that it has been told
    """

    def __init__(self, after: int) -> None:
        self._after, self._states_told = after, 0
        self.begun = self.offset = 0

    def states(self, transitions: Sequence[dict[str, Any]], until: int) -> _Events:
        """Changes of state up to this many that it has not been told."""
        first, self._states_told = self._states_told, max(until, self._states_told)
        steps = enumerate(transitions[first:until], start=first + 1)
        return self.unseen(_Events(Event("state", _to_json(step), sequence_number(k, 0)) for k, step in steps))

    def begin(self, begun: int) -> None:
        """Note the attempt that began last: the passes of another are told from their first."""
        if begun != self.begun:
            self.begun, self.offset = begun, 0

    def unseen(self, events: _Events) -> _Events:
        """Leave out the events that it had seen when it came; their numbers grow."""
        are_new = not events or (events[0].number or 0) > self._after
        return events if are_new else _Events(event for event in events if (event.number or 0) > self._after)


_PING = _Events([Event("ping", "")])  # so that nobody takes a silent connection for a dead one


@dataclass(frozen=True)
class _JobView:
    """A job at a time: as recorded, as shown, as JSON that is sent, and how long its history is."""

    change: tuple[int, ...]
    at: float
    record: dict[str, Any]
    view: dict[str, Any]
    encoded: bytes
    history_bytes: int

    @cached_property
    def progress(self) -> _Events:
        """The event of the job's progress, one object for all readers."""
        return _Events([Event("progress", _to_json({"phase": self.view["phase"], **self.view["progress"]}))])

    @cached_property
    def end(self) -> _Events:
        """The event of the job's end, one object for all readers."""
        return _Events([Event("end", self.encoded.decode())])

    @cached_property
    def length(self) -> tuple[int, int, bool]:
        """The amount that there is to tell: it changes with all events but those of progress."""
        return len(self.view["transitions"]), self.history_bytes, self.is_between_runs

    @property
    def has_ended(self) -> bool:
        return not TRANSITIONS[self.view["state"]]

    @property
    def is_between_runs(self) -> bool:
        """Whether an attempt has begun whose files are not there yet; those of the attempt before may be."""
        return self.view["state"] == "running" and self.view["phase"] is None


class JobFeed:
    """Answers requests that wait for a job, without a thread each. Its methods raise ServiceError unknown_job."""

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
        """End work whose readers have gone."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def text(self, job_id: str) -> bytes:
        """The job as JSON, not older than a tenth of a second, encoded once for all readers."""
        return (await self._look(job_id)).encoded

    async def wait(self, job_id: str, after: int, seconds: float) -> bytes:
        """The job as JSON once its `seq` is beyond `after`, it has ended, so many seconds are over, or `close`."""

        end = time.monotonic() + seconds
        while await self._is_awaited(job_id, after) and (left := end - time.monotonic()) > 0:
            with suppress(TimeoutError):
                change = self._shared(("change", job_id, after), lambda: self._change(job_id, after))
                await asyncio.wait_for(change, left)
        return await self.text(job_id)

    async def events(self, job_id: str, after: int) -> AsyncIterator[bytes]:
        """Events after the one of number `after` (0: all), past ones first, some at a time, until the job ends."""
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
        """Return the next look at a job that streams tell of."""
        await asyncio.sleep(_PROGRESS_SECONDS)
        return await self._look(job_id)

    async def _change(self, job_id: str, after: int) -> None:
        """Return at the next change, or after a while: requests that still wait ask again."""
        end = time.monotonic() + _CHANGE_SECONDS
        while await self._is_awaited(job_id, after) and time.monotonic() < end:
            await asyncio.sleep(_FRESH_SECONDS)

    async def _is_awaited(self, job_id: str, after: int) -> bool:
        """Whether a request for something beyond `after` has to go on waiting."""
        look = await self._look(job_id)
        return not (self._is_closing or look.view["seq"] > after or look.has_ended)

    async def _news(self, look: _JobView, place: Place) -> AsyncIterator[_Events]:
        """Yield the events that a client at this place lacks; passes follow the beginning of their attempt."""
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
        """The result of `work`, which runs once for all requests that arrive while it runs."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(self._once(key, work))
        # A request that is cancelled must not cancel the work of the others.
        return asyncio.shield(task)

    async def _once(self, key: Hashable, work: Callable[[], Awaitable]) -> Any:
        """The result of `work`, which nobody finds any more once it has ended: it may be old by then."""
        try:
            return await work()
        finally:
            self._tasks.pop(key)
