"""Shows other processes how far an ingest has come, in a file beside its blocks."""

import json
import time
from pathlib import Path

_NAME = "progress"
_SECONDS = 0.5


class IngestProgress:
    """Call `note` after each batch, which writes at most every half second; call `remove` at the end."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / _NAME
        self._due = 0.0

    def note(self, read_bytes: int, rows: int, non_zeros: int, total_bytes: int | None) -> None:
        """Write how much has been read, and of how many bytes if `total_bytes` is known."""
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
        """Delete the file: the input has been read."""
        self._path.unlink(missing_ok=True)


def read_progress(staged: Path) -> dict[str, int] | None:
    """read_bytes, rows, non_zeros and perhaps total_bytes of the dataset in `staged`; None before the first note."""
    try:
        return json.loads((staged / _NAME).read_bytes())
    except FileNotFoundError:
        return None
