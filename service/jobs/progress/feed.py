"""Feeds the changes of jobs to all who watch: each job is read at most ten times a second, however many watch it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from streamsvm.service.jobs.progress.events import Event, Part, Place, begun_last, read_part, to_json
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.jobs.progress.views import history_bytes, history_file, job_view
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings

_FRESH_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_CHANGE_SECONDS = 10.0
_TICKS_A_PING = 30
_MOST_KEPT = 256

_PING = Event("ping", "")  # so that nobody takes a silent connection for a dead one


@dataclass(frozen=True)
class _Look:
    """A job at a time: as recorded, as shown, as JSON, and how long its history is."""

    change: tuple[int, ...]
    at: float
    record: dict[str, Any]
    view: dict[str, Any]
    text: str
    history_bytes: int

    @cached_property
    def encoded(self) -> bytes:
        """The text as it is sent."""
        return self.text.encode()

    @cached_property
    def progress(self) -> Event:
        """The event of the job's progress, one object for all readers."""
        return Event("progress", to_json({"phase": self.view["phase"], **self.view["progress"]}))

    @cached_property
    def end(self) -> Event:
        """The event of the job's end, one object for all readers."""
        return Event("end", self.text)

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
        self._looks: dict[str, _Look] = {}
        self._tasks: dict[Hashable, asyncio.Task] = {}
        self._is_closing = False

    def close(self) -> None:
        """Answer all waiting requests now."""
        self._is_closing = True

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

    async def events(self, job_id: str, after: int) -> AsyncIterator[tuple[Event, ...]]:
        """Events after the one of number `after` (0: all), past ones first, some at a time, until the job ends."""
        silent_ticks, place = 0, Place(after)
        while True:
            look = await self._look(job_id)
            async for events in self._news(look, place):
                if events:
                    yield events
            if look.has_ended:
                yield (look.end,)
                return
            if look.view["progress"]:
                yield (look.progress,)
            elif (silent_ticks := silent_ticks + 1) % _TICKS_A_PING == 0:
                yield (_PING,)
            await asyncio.sleep(_PROGRESS_SECONDS)

    async def _change(self, job_id: str, after: int) -> None:
        """Return at the next change, or after a while: requests that still wait ask again."""
        end = time.monotonic() + _CHANGE_SECONDS
        while await self._is_awaited(job_id, after) and time.monotonic() < end:
            await asyncio.sleep(_FRESH_SECONDS)

    async def _is_awaited(self, job_id: str, after: int) -> bool:
        """Whether a request for something beyond `after` has to go on waiting."""
        look = await self._look(job_id)
        return not (self._is_closing or look.view["seq"] > after or look.has_ended)

    async def _news(self, look: _Look, place: Place) -> AsyncIterator[tuple[Event, ...]]:
        """Yield the events that a client at this place lacks; passes follow the beginning of their attempt."""
        transitions = look.view["transitions"]
        place.begin(begun_last(transitions))
        yield place.states(transitions, place.begun)
        if place.begun and not look.is_between_runs:
            async for part in self._parts(look, place):
                yield place.unseen(part.events)
        yield place.states(transitions, len(transitions))

    async def _parts(self, look: _Look, place: Place) -> AsyncIterator[Part]:
        """The history from the place on, in parts that all clients share: it may be long, and clients many."""
        path, end = history_file(self._settings, look.view["id"]), look.history_bytes
        place.offset = min(place.offset, end)
        while place.offset < end:
            key = path, place.begun, place.offset, end
            part = await self._shared(key, partial(asyncio.to_thread, read_part, *key))
            if part.end == place.offset:
                return
            place.offset = part.end
            yield part
            await asyncio.sleep(0)  # other clients are served between two parts

    async def _look(self, job_id: str) -> _Look:
        look = self._looks.get(job_id)
        if look and look.change == self._store.change() and time.monotonic() - look.at < _FRESH_SECONDS:
            return look
        # SQLite may wait for a writer: not in the event loop.
        return await self._shared(job_id, lambda: asyncio.to_thread(self._read, job_id))

    def _read(self, job_id: str) -> _Look:
        change, at = self._store.change(), time.monotonic()
        before = self._looks.get(job_id)
        record = before.record if before and before.change == change else self._store.job(job_id)
        view = job_view(self._settings, record)
        look = _Look(change, at, record, view, to_json(view), history_bytes(self._settings, job_id))
        if len(self._looks) >= _MOST_KEPT:
            self._looks.clear()
        self._looks[job_id] = look
        return look

    def _shared(self, key: Hashable, work: Callable[[], Awaitable]) -> Awaitable:
        """The result of `work`, which runs once for all requests that arrive while it runs."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(work())
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        # A request that is cancelled must not cancel the work of the others.
        return asyncio.shield(task)
