"""The directory of a prediction under way: a piece for each unit that is done, and what the prediction was asked.

A piece counts when its record, a small file of JSON, is there: it is written after the piece, and both durably.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.storage.files.durable import publish, write_file

_ASKED = "asked.json"
_LOCK = "lock"


class Pieces:
    """The pieces in a directory, which the caller holds alone until `close`.

    asked  JSON that says what is predicted; pieces of another prediction are removed
    Raises ServiceError already_running if another process has the directory.
    """

    def __init__(self, directory: Path, asked: Any) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _held(directory / _LOCK)
        text = json.dumps(asked, sort_keys=True)
        if _read(directory / _ASKED) != text:
            for path in directory.iterdir():
                if path.name != _LOCK:
                    path.unlink()
            with needing_space():
                write_file(directory / _ASKED, [text.encode()])

    def done(self, number: int) -> dict[str, Any] | None:
        """The record of a unit's piece, None if there is none yet."""
        text = _read(self._record(number))
        return None if text is None else json.loads(text)

    def path(self, number: int) -> Path:
        """The file of a unit's piece."""
        return self.directory / f"{number:08}.piece"

    @contextmanager
    def writing(self, number: int, record: dict[str, Any]) -> Iterator[IO[bytes]]:
        """A file for a unit's piece. It counts when the block succeeds, with `record` as the block has filled it.

        Raises ServiceError out_of_space.
        """
        staged = self.path(number).with_suffix(".staged")
        with needing_space():
            with staged.open("wb") as file:
                yield file
            publish(staged, self.path(number))
            write_file(self._record(number), [json.dumps(record).encode()])

    def remove(self) -> None:
        """Remove the directory and all in it."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._lock)

    def _record(self, number: int) -> Path:
        return self.path(number).with_suffix(".json")


def _held(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise ServiceError(
            "already_running", "another process predicts to this destination", "Wait for it, or end it."
        ) from None
    return lock


def _read(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return path.read_text()
    return None
