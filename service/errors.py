"""The errors that users see: a stable code, a message, a hint. api/errors.py translates them to HTTP."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamsvm.service.hints import HINTS, meant, shown
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT


class ServiceError(Exception):
    """An error for a user; `at` says where in the input it is, such as {"row": 3}; hint: else the code's."""

    def __init__(self, code: str, message: str, hint: str = "", at: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint or HINTS.get(code, "")
        self.at = at or {}
        # Seconds to wait before the same request is sent again; None: do not repeat it.
        self.retry_after: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.hint, self.at)

    def problem(self) -> dict[str, Any]:
        """Return the error as an object for JSON; `of` turns it into an error again."""
        return {"code": self.code, "detail": self.message, "hint": self.hint, "at": self.at}

    @classmethod
    def of(cls, problem: dict[str, Any]) -> "ServiceError":
        """Make the error from the object that its method `problem` returned, such as in another process."""
        return cls(problem["code"], problem["detail"], problem.get("hint", ""), problem.get("at"))


def unknown(code: str, message: str, name: str, known: Iterable[str]) -> ServiceError:
    """Make the error for a name that is not in `known`; its hint suggests the most similar known name."""
    return ServiceError(code, message, f"{meant(name, known)}{HINTS[code]}")


class Crash(ServiceError):
    """An attempt at a job failed in a way that another attempt may not."""


# Codes of a reader or trainer that died or fell silent.
PROCESS_FAILURES = DIED, STALLED = "process_died", "process_stalled"


class ModelFormatError(Exception):
    """A file is no model of its format, or a model cannot be written in a format.

    `code` is stable, `hint` says what to do.
    """

    code = "bad_model"

    def __init__(
        self, message: str, hint: str = "export the model again, and check that all of the file arrived"
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_full(error: BaseException) -> bool:
    """Return whether the error says that a disk is full, by the system's code or by SQLite's."""
    store_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return getattr(error, "errno", None) in NO_ROOM or store_code == sqlite3.SQLITE_FULL


@contextmanager
def needing_space() -> Iterator[None]:
    """In the `with` statement, turn the error of a full disk, OSError or SQLite's, into ServiceError out_of_space."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        if not is_full(error):
            raise
        raise ServiceError("out_of_space", "the disk is full", ROOM_HINT) from error


@contextmanager
def refusing(*kinds: type[Any]) -> Iterator[None]:
    """In the `with` statement, turn errors of these kinds, of reader or storage, into ServiceError."""
    try:
        yield
    except kinds as error:
        at = error.problem()["at"] if hasattr(error, "problem") else None  # an error of the reader has a place
        raise ServiceError(error.code, error.message, error.hint, at) from error


def refuse_other_fields(fields: Mapping[str, Any], known: Collection[str], hint: str) -> None:
    """Raise ServiceError unknown_field, with this hint, for the first of the fields that is not in `known`."""
    for field in fields:
        if field not in known:
            message = f"there is no field {shown(field)} here"
            raise ServiceError("unknown_field", message, f"{meant(field, known)}{hint}")
