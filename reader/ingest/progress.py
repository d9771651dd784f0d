"""How far reading in has come: a file beside the blocks, for others to look at."""

import json
import time
from pathlib import Path

_NAME = "progress"
_SECONDS = 0.5


class Progress:
    """`note` it, at most every half second; `remove` it in the end."""

    def __init__(self, staged: Path) -> None:
        self._path = staged / _NAME
        self._due = 0.0

    def note(self, read_bytes: int, rows: int, non_zeros: int, total_bytes: int | None) -> None:
        """So much has been read, of so many bytes if that is known."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _SECONDS
        beside = self._path.with_suffix(".new")
        known = {"read_bytes": read_bytes, "rows": rows, "non_zeros": non_zeros}
        if total_bytes is not None:
            known["total_bytes"] = total_bytes
        beside.write_text(json.dumps(known))
        beside.rename(self._path)

    def remove(self) -> None:
        """It has been read."""
        self._path.unlink(missing_ok=True)


def read_progress(staged: Path) -> dict[str, int] | None:
    """read_bytes, rows, non_zeros, total_bytes if known, of a dataset that is staged there; None: not known yet."""
    try:
        return json.loads((staged / _NAME).read_bytes())
    except FileNotFoundError:
        return None
