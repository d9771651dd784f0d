"""Reports the progress of an ingest to other processes, in a file beside its blocks."""

import json
import time
from pathlib import Path

_NAME = "progress"
_SECONDS = 0.5


class IngestProgress:
    """The writer of the progress file. Call `note` after each batch of rows, and `remove` at the end."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / _NAME
        self._due = 0.0

    def note(self, read_bytes: int, rows: int, non_zeros: int, total_bytes: int | None) -> None:
        """Write the counts so far, at most every half second. total_bytes: size of the input; None if unknown."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _SECONDS
        beside = self._path.with_suffix(".new")
        counts = {"read_bytes": read_bytes, "rows": rows, "non_zeros": non_zeros}
        if total_bytes is not None:
            counts["total_bytes"] = total_bytes
        beside.write_text(json.dumps(counts))
        beside.rename(self._path)

    def remove(self) -> None:
        """Delete the progress file, once the whole input has been read."""
        self._path.unlink(missing_ok=True)


def read_progress(staged: Path) -> dict[str, int] | None:
    """Return read_bytes, rows, non_zeros and, if known, total_bytes of the ingest in `staged`; None without a file."""
    try:
        return json.loads((staged / _NAME).read_bytes())
    except FileNotFoundError:
        return None
