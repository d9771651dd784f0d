"""Passes the error that ends a process of a run to the process that started it, in a file of the run directory."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from streamsvm.storage.errors import NO_ROOM, ROOM_HINT, OutOfSpace, StorageError

_FILE = "failure.json"


@contextmanager
def telling(run: Path) -> Iterator[None]:
    """If a StorageError with an exit code, or a full disk, ends the block: write it for `told`, exit with its code."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _end(run, OutOfSpace("the disk is full"))
    except StorageError as error:
        if error.exit_code is None:
            raise
        _end(run, error)


def _end(run: Path, error: StorageError) -> NoReturn:
    leave_word(run, error.code, error.message, error.hint)
    say(error.message)
    # sys.exit would flush files first; if the disk refuses that, Python ends with another exit code.
    os._exit(error.exit_code or 1)


def say(message: str) -> None:
    """Write a line to the job's log (stderr); ignore OSError, since a full disk must not end the process."""
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def leave_word(run: Path, code: str, message: str, hint: str) -> None:
    """Write an error's code, message and hint to the file of the run directory that `told` reads."""
    # If the disk is full, `told` finds the error by the exit code.
    with suppress(OSError):
        (run / _FILE).write_text(json.dumps({"code": code, "message": message, "hint": hint}))


def told(run: Path, exit_code: int) -> dict[str, Any] | None:
    """Return code, message and hint of the error with which `telling` ended a process of the run; None without one."""
    try:
        return json.loads((run / _FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        found = (kind for kind in _kinds(StorageError) if kind.exit_code == exit_code)
        hint = ROOM_HINT if exit_code == OutOfSpace.exit_code else ""
        return next(({"code": kind.code, "message": kind.__doc__, "hint": hint} for kind in found), None)


def _kinds(kind: type[StorageError]) -> Iterator[type[StorageError]]:
    yield kind
    for special in kind.__subclasses__():
        yield from _kinds(special)
