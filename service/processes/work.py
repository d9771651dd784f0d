"""The loop of jobs and predictions of files: takes each from the queue, watches it, and records its end.

After a crash, or an error that nobody foresaw, the work is queued again, until that has happened too often without
progress. If the disk is full, it is queued again, and waits for a while. After any other error of our own it fails.
"""

import errno
import logging
import sqlite3
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from streamsvm.service.errors import Crash, ServiceError, is_full
from streamsvm.service.processes.background import Backoff
from streamsvm.service.processes.logs import JobLog
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import LastRead
from streamsvm.service.records.work import Kind
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import OutOfSpace, StorageError

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_MOST_LOOKED_AT = 50  # of those that wait
_IN_ONE_PASS = 10
INTERNAL = "internal"
SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_STORE_BUSY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)
_NOTHING: Mapping[str, Any] = {}
_log = logging.getLogger("streamsvm.worker")


class Needs(NamedTuple):
    """The resources that a job or prediction takes while it runs.

    memory_bytes  of a job by its plan
    has_cluster   whether it runs on the Ray cluster, which one job has at a time
    is_alone      whether no other job may run: one of those that ran when a worker died, which may die of it again
    """

    memory_bytes: int = 0
    has_cluster: bool = False
    is_alone: bool = False


class Work:
    """One kind of work of a data directory: `recover` once, then `step` at each look, `attend` now and then.

    Subclasses say which of those that wait is next, how it begins and is watched, how far it is, and what it leaves.
    What runs has a `record`, `needs`, and `end`, which returns the seconds that it has trained, if known.

    kind      of the records; `reached` is their column that has how far the work was at its last crash
    died      the error of what its worker has died with
    is_vital  whether the worker ends if records cannot be read, rather than do other work
    root      has a directory for each
    most      how many run at a time; `active` has them by id
    """

    kind: ClassVar[Kind]
    reached: ClassVar[str]
    died: ClassVar[Crash]
    is_vital: ClassVar[bool]

    def __init__(
        self, settings: Settings, store: Store, root: Path, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._store, self._root, self._most, self._clock = settings, store, root, most, clock
        self.active: dict[str, Any] = {}
        self._waiting = LastRead(store, lambda: store.waiting(_MOST_LOOKED_AT, self.kind))
        self._requests = LastRead(store, lambda: store.requests(self.kind))
        self._pauses: dict[str, tuple[Backoff, float]] = {}  # of what lacked something: its pauses, the end of the last
        self._queued: dict[str, dict[str, Any]] = {}  # records of what has run before
        self._is_told = False

    @property
    def needs(self) -> list[Needs]:
        """Return what each running job or prediction needs."""
        return [running.needs for running in self.active.values()]

    def recover(self) -> None:
        """Clean up after a worker that has died, and queue again what it had running."""
        running = self._store.jobs("running", kind=self.kind)
        if len(running) > 1:
            # One of these jobs may have killed the worker: each now runs alone, so that a crash shows which job it was.
            for record in running:
                self._store.requeue(record["id"], kind=self.kind, reason=self.died.code, alone=True)
            running = []
        # Crashes are counted before files are read: the worker may have died of reading them.
        times = [self._store.count_crash(record["id"], self.kind) for record in running]
        too_often = [record for record, n in zip(running, times, strict=True) if n > self._settings.max_crashes]
        trained = [(record, self._trained(record)) for record in running if record not in too_often]
        self._sweep()
        for record, seconds in trained:
            self.settle(record, self.died, seconds)
        for record in too_often:  # without reading its files: that may be what kills the worker
            self._store.later(partial(self._give_up, record, self.died))

    def step(self, beside: Collection[Needs] = ()) -> None:
        """Look after what runs, and begin what is next, as long as there is room.

        beside  the needs of other kinds of work that run
        """
        for running in list(self.active.values()):
            with self._settling(running.record):
                self._watch(running)
        while len(self.active) < self._most and (record := self._take(beside)) is not None:
            with self._settling(record):
                self.active[record["id"]] = self._begin(record)
            if record["id"] not in self.active:
                return  # the rest is left to the next step

    def attend(self) -> None:
        """Tidy up after what was cancelled in the queue. After a failure it has files."""
        try:
            queued = {record["id"]: record for record in self._store.queued_again(self.kind)}
            for record in [record for key, record in self._queued.items() if key not in queued]:
                with self._tidying(record):
                    if self._is_cancelled(record["id"]):
                        self._tidy(record)
            self._queued = queued
        except Exception:
            _log.exception("not done now, tried again")

    def shutdown(self) -> None:
        """Hand what runs back to the queue; the next worker goes on with it."""
        for key, running in list(self.active.items()):
            self._drop(key)
            self._store.requeue(key, self._handed_back(running.record), self.kind)

    def settle(self, record: dict[str, Any], error: BaseException, trained: float | None = None) -> None:
        """See to work whose attempt ended with this error, after so many seconds of training, if known."""
        if not _is_foreseen(error):
            with suppress(OSError):
                self._directory(record).mkdir(exist_ok=True)
                with (self._directory(record) / "log").open("a") as log:
                    log.writelines(traceback.format_exception(error))
            self._told(record).error("nobody foresaw this", exc_info=error)
        self._store.later(partial(self._settle, record, error, trained))

    def _next(self, waiting: list[dict[str, Any]], beside: Collection[Needs]) -> str | None:
        """The id of the first that waits and has room."""
        raise NotImplementedError

    def _begin(self, record: dict[str, Any]) -> Any:
        """Begin what has been recorded as running; returns what runs."""
        raise NotImplementedError

    def _watch(self, running: Any) -> None:
        """Look after what runs: end it if it is through or somebody has `_requested` that. Raises what is wrong."""
        raise NotImplementedError

    def _how_far(self, record: dict[str, Any], trained: float | None) -> tuple[int, dict[str, Any]]:
        """A number that grows as the work gets on, and facts for the transition after a crash."""
        raise NotImplementedError

    def _tidy(self, record: dict[str, Any]) -> None:
        """Remove what work that failed or was cancelled leaves behind."""
        raise NotImplementedError

    def _sweep(self) -> None:
        """Remove what a worker that died has left half-done."""
        raise NotImplementedError

    def _trained(self, _record: dict[str, Any]) -> float | None:
        """The seconds of training that an attempt had when its worker died."""
        return None

    def _handed_back(self, _record: dict[str, Any]) -> Mapping[str, Any]:
        """Columns of a record that is handed back to the queue."""
        return _NOTHING

    def _directory(self, record: dict[str, Any]) -> Path:
        return self._root / record["id"]

    def _take(self, beside: Collection[Needs]) -> dict[str, Any] | None:
        """Record what is next as running; None if nothing waits that has room, or the disk is full.

        A full disk must not end the worker: that would count as a crash of all work whose end is not recorded yet. Nor
        may the worker end if the records cannot be read while jobs run.
        """
        now = self._clock()
        try:
            waiting = [each for each in self._waiting() if now >= self._pauses.get(each["id"], (None, now))[1]]
            key = self._next(waiting, beside)
            record = None if key is None else self._store.claim(key, self.kind)
        except Exception as error:
            if self.is_vital and not is_full(error) and not self.active:
                raise
            if not self._is_told:
                _log.warning("no %s is begun while %s", self.kind, "the disk is full" if is_full(error) else error)
            self._is_told = True
            return None
        self._is_told = False
        return record

    @contextmanager
    def _settling(self, record: dict[str, Any]) -> Iterator[None]:
        """Settle a failure in the block as one of this job or prediction alone."""
        try:
            yield
        except BaseException as error:
            # Any error: if it ended this process, the same work would cause it again, and no other work would run.
            self.settle(record, error, self._drop(record["id"]))

    def _drop(self, key: str) -> float | None:
        """End what runs, if it does; returns the seconds that it has trained."""
        running = self.active.pop(key, None)
        return None if running is None else running.end()

    def _requested(self, record: dict[str, Any]) -> str | None:
        with suppress(sqlite3.Error):  # a store that cannot be read now is asked the next time
            return self._requests().get(record["id"])
        return None

    def _is_cancelled(self, key: str) -> bool:
        try:
            return self._store.job(key, self.kind)["state"] == "cancelled"
        except ServiceError:  # the job was deleted, too
            return True

    def _cancel(self, record: dict[str, Any]) -> None:
        self._drop(record["id"])
        self._store.later(partial(self._end, record, "cancelled"))

    def _settle(self, record: dict[str, Any], error: BaseException, trained: float | None) -> None:
        failure = describe(error)
        if isinstance(error, Crash):
            self._retry(record, error, trained)
        elif not _is_foreseen(error):
            # Without its whole text, which may name files of this machine.
            message, hint = f"the worker met an error: {failure['message']}", "The end of the job's log says where."
            self._retry(record, Crash(failure["code"], message, hint), trained)
            if lacks(error):
                self._pause(record["id"])
        elif failure["code"] != OutOfSpace.code:
            self._fail(record, failure)
        else:
            self._told(record).warning("paused: %s", failure["message"])
            self._requeue(record, reason=failure["code"])
            self._pause(record["id"])

    def _retry(self, record: dict[str, Any], error: Crash, trained: float | None = None) -> None:
        """Queue work again, unless it has crashed too often without getting any further."""
        reached, because = self._how_far(record, trained)
        crashes = 1 if reached > record[self.reached] else record["crashes"] + 1
        self._told(record).warning("%s, crash %s", error.message, crashes)
        if is_stuck(crashes, because.get("pass"), record, self._settings.max_crashes):
            self._give_up(record, error)
        else:
            self._requeue(record, {"crashes": crashes, self.reached: reached}, reason=error.code, **because)

    def _requeue(self, record: dict[str, Any], columns: Mapping[str, Any] = _NOTHING, **because: Any) -> None:
        self._store.requeue(record["id"], columns, self.kind, **because)
        self._queued = {**self._queued, record["id"]: record}  # it may be cancelled before `attend` sees it

    def _pause(self, key: str) -> None:
        """Others go before this one for a while."""
        backoff, _ = self._pauses.get(key, (Backoff(_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), 0.0))
        now = self._clock()
        # Pauses that ended long ago are dropped: their work has run since, or was cancelled.
        still = {key: each for key, each in self._pauses.items() if now < each[1] + _LONGEST_PAUSE_SECONDS}
        self._pauses = {**still, key: (backoff, now + backoff.next())}

    def _give_up(self, record: dict[str, Any], error: Crash) -> None:
        message = f"{error.message}, again and again, and the {self.kind} got no further"
        self._fail(record, {"code": "crash_loop", "message": message, "hint": error.hint})

    def _fail(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        self._end(record, "failed", failure=failure)

    def _end(self, record: dict[str, Any], state: str, **columns: Any) -> None:
        """Record the end of a job or prediction, then remove its pieces and unfinished files."""
        self._store.finish(record["id"], state, kind=self.kind, **columns)
        self._told(record).info("%s", f"failed: {columns['failure']['message']}" if state == "failed" else state)
        with self._tidying(record):
            self._tidy(record)

    @contextmanager
    def _tidying(self, record: dict[str, Any]) -> Iterator[None]:
        """Let an error in the block change nothing in how the job or prediction ended."""
        try:
            yield
        except Exception:
            self._told(record).exception("some of what it left stays")

    def _told(self, record: dict[str, Any]) -> JobLog:
        """The log, for messages about this job or prediction."""
        return JobLog(_log, record["id"], self.kind)


def is_stuck(crashes: int, pass_: int | None, record: dict[str, Any], most: int) -> bool:
    """Whether work has crashed `most` times without getting on, or a job ten times as often in one pass.

    Each attempt begins its pass anew. A job may always crash in the same pass although it makes checkpoints within the
    pass: so crashes in one pass are counted, too.
    """
    in_pass = sum(step.get("pass") == pass_ for step in record.get("transitions", ()))
    return crashes >= most or (pass_ is not None and in_pass + 1 >= _IN_ONE_PASS * most)


def describe(error: BaseException) -> dict[str, Any]:
    """Code, message and hint, as a record has them."""
    if isinstance(error, ServiceError | StorageError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    code = OutOfSpace.code if is_full(error) else "io_error" if isinstance(error, OSError) else INTERNAL
    # The whole text would show names of files on this machine.
    return {"code": code, "message": getattr(error, "strerror", None) or type(error).__name__, "hint": ""}


def _is_foreseen(error: BaseException) -> bool:
    """Return whether the error is one of the package's own, or says in any form that the disk is full."""
    return isinstance(error, ServiceError | StorageError) or is_full(error)


def lacks(error: BaseException) -> bool:
    """Return whether the machine lacks something that it may have later: descriptors, processes, memory, locks."""
    store_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return getattr(error, "errno", None) in SCARCE or store_code in _STORE_BUSY
