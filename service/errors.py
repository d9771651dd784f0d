"""What a user can do wrong, or meet: a stable code, a sentence, a hint. Translated to HTTP in `api.errors`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamsvm.storage.errors import NO_ROOM, ROOM_HINT


class ServiceError(Exception):
    """`code` is one of a fixed set, `at` a place in the input if there is one."""

    def __init__(self, code: str, message: str, hint: str = "", at: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.at = at or {}
        # Seconds after which a service that was asked may be asked again.
        self.retry_after: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.hint, self.at)

    def problem(self) -> dict[str, Any]:
        """As JSON can say it."""
        return {"code": self.code, "detail": self.message, "hint": self.hint, "at": self.at}

    @classmethod
    def of(cls, problem: dict[str, Any]) -> "ServiceError":
        """The error another process described."""
        return cls(problem["code"], problem["detail"], problem.get("hint", ""), problem.get("at"))


class Crash(ServiceError):
    """An attempt at a job came to an end that another one may not come to."""


# Of a reader or trainer.
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


@contextmanager
def needing_space() -> Iterator[None]:
    """A full disk is the ServiceError out_of_space."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise ServiceError("out_of_space", "the disk is full", ROOM_HINT) from error
