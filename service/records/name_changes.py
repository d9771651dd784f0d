"""Tells by the time of a file that names of models have changed: a look at it is no query, and waits for no writer."""

import os
import time
from contextlib import suppress
from pathlib import Path

FILE = "names-changed"


class NameChanges:
    """The file FILE beside the records; whoever changes names, versions or aliases notes it once they are recorded."""

    def __init__(self, records: Path) -> None:
        self._path = str(records.with_name(FILE))

    def mark(self) -> int | None:
        """A number that differs after each change of any process; None if there is no file."""
        try:
            return os.stat(self._path).st_mtime_ns  # noqa: PTH116 - many times a second
        except OSError:
            return None

    def note(self) -> None:
        """Note a change, before the client is told. On a disk that fails, readers see it a little later."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Clocks can be set back, and a file's own clock ticks.
                at = max(time.time_ns(), os.fstat(descriptor).st_mtime_ns + 1)
                os.utime(descriptor, ns=(at, at))
            finally:
                os.close(descriptor)
