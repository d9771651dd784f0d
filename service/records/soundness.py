"""Whether the store of a running service is still there, and whole."""

import time
from collections.abc import Callable

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.opening import MISSING, RESTORE, check_sound, is_blank
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings

_SECONDS = 30.0


class Soundness:
    """Watches the store of a data directory; all of it is read at most every so many seconds of the clock."""

    def __init__(
        self, settings: Settings, store: Store, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = settings.database
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self._next = clock() + seconds  # it was read when it was opened

    def check(self) -> None:
        """Raise ServiceError store_missing or store_corrupt, or sqlite3.Error, if records cannot be read."""
        if is_blank(self._path):
            raise ServiceError(MISSING, f"{self._path} is missing or empty", RESTORE)
        if self._clock() >= self._next:
            check_sound(self._path)
            self._next = self._clock() + self._seconds
        self._store.dataset_state("")
