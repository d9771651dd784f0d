"""Calls the URLs that jobs name in `notify`, in threads of the api process, until each call is settled.

What is due is on record. A service that starts again goes on with it; a receiver may get an event twice, with one id.
"""

import http.client
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from streamsvm.service.errors import ServiceError
from streamsvm.service.notifications.calling import Refused, call
from streamsvm.service.notifications.destinations import Destination, destination
from streamsvm.service.notifications.signing import key_of, signed_headers
from streamsvm.service.records.notifications import Notification
from streamsvm.service.records.stamps import rfc3339
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings

_AT_ONCE, _AT_ONCE_TO_A_HOST = 4, 2
# A host whose last call took so many seconds is slow; all slow hosts together get this many calls at a time.
_SLOW_SECONDS, _AT_ONCE_TO_SLOW = 3.0, 2
_MOST_SLOW = 1000  # hosts that are remembered
_LOOK_SECONDS = 1.0
_log = logging.getLogger("streamsvm.notifier")
Call = Callable[[Destination, Mapping[str, str], bytes], int]


@dataclass(frozen=True)
class Schedule:
    """Seconds: the pause after a first failed call, the longest one, and after which a notification is given up.

    Each pause is three times the one before.
    """

    first: float = 5.0
    longest: float = 4 * 3600.0
    give_up: float = 24 * 3600.0

    def pause(self, attempts: int) -> float:
        """The pause after so many failed calls."""
        return min(self.first * 3.0 ** min(attempts - 1, 30), self.longest)


def check_notify(settings: Settings, url: str | None) -> None:
    """Check the `notify` of a job. Raises ServiceError notify_disabled, notify_invalid, notify_forbidden."""
    if url is None:
        return
    if not settings.notify_hosts or not settings.notify_secret:
        hint = "Whoever runs the service sets STREAMSVM_NOTIFY_HOSTS and STREAMSVM_NOTIFY_SECRET."
        raise ServiceError("notify_disabled", "the service calls no URLs", hint)
    destination(url, settings.notify_hosts)


class Notifier:
    """`start`, then `stop`; in between it makes the calls that are due, a few at a time.

    look  seconds between two looks for jobs that other processes have ended
    Raises ServiceError notify_secret_invalid.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        schedule: Schedule = Schedule(),
        call: Call = call,
        clock: Callable[[], float] = time.time,
        look: float = _LOOK_SECONDS,
    ) -> None:
        self._settings, self._store, self._schedule = settings, store, schedule
        self._call, self._clock, self._look = call, clock, look
        self._key = key_of(settings.notify_secret) if settings.notify_secret else b""
        self._calls = ThreadPoolExecutor(_AT_ONCE, "notify")
        self._lock = threading.Lock()
        self._under_way: dict[str, str] = {}  # id -> host
        self._slow: set[str] = set()  # hosts
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    @property
    def is_needed(self) -> bool:
        """Whether the service calls URLs, or has to give up calls that it was to make under other settings."""
        return bool(self._settings.notify_hosts) or self._store.next_notification() is not None

    def start(self) -> None:
        """Begin to make calls."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no more calls; those under way are made again after the next start, unless they are settled."""
        self._stopping.set()
        self._woken.set()
        self._calls.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                self._begin_calls()
            except (sqlite3.Error, OSError):
                _log.exception("what is due cannot be read now")
            except RuntimeError:
                if not self._stopping.is_set():
                    _log.exception("no thread can be started now")
            self._woken.wait(self._look)

    def _begin_calls(self) -> None:
        while (next_one := self._next()) is not None and next_one.due_at <= self._clock():
            with self._lock:
                self._under_way[next_one.id] = next_one.host
            try:
                self._calls.submit(self._settle, next_one)
            except RuntimeError:
                self._done(next_one)
                raise

    def _next(self) -> Notification | None:
        with self._lock:
            ids, hosts, slow = list(self._under_way), Counter(self._under_way.values()), set(self._slow)
        if len(ids) >= _AT_ONCE:
            return None
        full = {host for host, count in hosts.items() if count >= _AT_ONCE_TO_A_HOST}
        if sum(hosts[host] for host in slow) >= _AT_ONCE_TO_SLOW:
            full |= slow
        return self._store.next_notification(ids, full)

    def _settle(self, notification: Notification) -> None:
        """Make a call, and record its outcome: now, or as soon as the disk takes it."""
        began = time.monotonic()
        try:
            record = self._outcome(notification)
        except Exception as error:
            _log.exception("a notification ended in an error that nobody foresaw")
            record = self._failed(notification, repr(error), False)
        self._note_speed(notification.host, time.monotonic() - began)

        def write() -> None:
            record()
            self._done(notification)

        try:
            self._store.later(write)
        except Exception:
            _log.exception("the outcome of a notification cannot be recorded: it is made again")
            self._done(notification)

    def _note_speed(self, host: str, seconds: float) -> None:
        """Note whether a host is slow: calls to hosts that answer soon do not wait for those to slow ones."""
        with self._lock:
            self._slow.discard(host)
            if seconds >= _SLOW_SECONDS and len(self._slow) < _MOST_SLOW:
                self._slow.add(host)

    def _done(self, notification: Notification) -> None:
        with self._lock:
            self._under_way.pop(notification.id, None)
        self._woken.set()

    def _outcome(self, notification: Notification) -> Callable[[], None]:
        try:
            check_notify(self._settings, notification.url)
            found, body = destination(notification.url, self._settings.notify_hosts), notification.body.encode()
            headers = signed_headers(self._key, notification.id, int(self._clock()), body)
            status = self._call(found, {**headers, "User-Agent": "StreamSVM"}, body)
        except ServiceError as error:
            return self._failed(notification, error.message, True)
        except Refused as error:
            return self._failed(notification, str(error), error.is_final)
        except (OSError, http.client.HTTPException) as error:
            return self._failed(notification, getattr(error, "strerror", None) or str(error) or repr(error), False)
        _log.info("job %s: its end was told to %s", notification.job_id, notification.host)
        return lambda: self._store.settle_notification(notification, "delivered", status=status)

    def _failed(self, notification: Notification, why: str, is_final: bool) -> Callable[[], None]:
        attempts = notification.attempts + 1
        due_at = self._clock() + self._schedule.pause(attempts)
        if is_final or due_at > notification.made_at + self._schedule.give_up:
            _log.error("job %s: %s is not told of its end: %s", notification.job_id, notification.host, why)
            return lambda: self._store.settle_notification(notification, "given_up", failure=why)
        _log.warning("job %s: %s was not told of its end: %s", notification.job_id, notification.host, why)
        again = rfc3339(datetime.fromtimestamp(due_at, UTC))
        return lambda: self._store.delay_notification(notification, due_at, failure=why, next_at=again)
