"""The errors that users see: a stable code, a message, a hint. api/errors.py translates them to HTTP.

HINTS has the default hints, by code. A hint that is passed to an error replaces the default.
"""

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from streamsvm.storage.errors import NO_ROOM, ROOM_HINT

_MOST_LETTERS = 200  # of a name that is compared
_ROUTES = "All routes are at /reference, for people, and /openapi.json."

HINTS = {
    "answer_too_large": "Send fewer rows a request.",
    "bad_index": 'Name a feature by its number: {"rows": [{"3": 1.5}]}.',
    "bad_request": _ROUTES,
    "body_too_large": "Send less at once. Settings of the service, STREAMSVM_MAX_..._BYTES, raise the limit.",
    "cancelled": "Ask for the prediction again.",
    "demo_failed": "The log above says why.",
    "duplicate_column": "Give every column a name of its own.",
    "duplicate_key": "Give each key of an object once.",
    "duplicate_parameter": "Give each parameter of the query once.",
    "idempotency_key_invalid": "Take a UUID, for instance.",
    "import_invalid": "Name files of the import directory by their paths within it; * matches any characters.",
    "index_duplicate": "Give each feature of a row once.",
    "index_too_large": "Features have numbers below 2147483648.",
    "internal": "The service's log says more: report it with these lines.",
    "machine_left": "Submit the job again when all machines are back.",
    "method_not_allowed": _ROUTES,
    "missing_field": f"Add the field. {_ROUTES}",
    "no_passes": "Try again after its first pass.",
    "no_rows": "Send at least one row.",
    "no_service": "Check the address, and that a service runs there: streamsvm serve starts one.",
    "no_such_route": _ROUTES,
    "not_finite": "Give finite numbers; JSON has no NaN or Infinity.",
    "not_possible": "Look at its state first: streamsvm job show, or GET its URL.",
    "not_ready": "Wait until the dataset is ready: streamsvm data ls and GET /v1/datasets show states and failures.",
    "not_text": "Send text in UTF-8.",
    "process_died": "The end of the log says more.",
    "process_stalled": "The end of the log says more.",
    "request_under_way": "Send it again in a while: the answer is stored.",
    "scope_missing": "Use a token with the scope that is needed: streamsvm token new NAME --scope SCOPE makes one.",
    "too_slow": "Send it again, faster, or less of it at once.",
    "unavailable": "Try again in a while.",
    "unknown_alias": "The model's page, GET /v1/registered-models/NAME and streamsvm model names list its aliases.",
    "unknown_dataset": "streamsvm data ls and GET /v1/datasets list the datasets.",
    "unknown_file": "Check the name: files of the import directory are named by their paths within it.",
    "unknown_job": "streamsvm job ls and GET /v1/jobs list the jobs.",
    "unknown_model": "Give an id, a name, NAME:VERSION or NAME@ALIAS: streamsvm model ls and GET /v1/models list ids.",
    "unknown_model_name": "streamsvm model names and GET /v1/registered-models list the names.",
    "unknown_prediction": "GET /v1/predictions lists the predictions.",
    "unknown_token": "streamsvm token ls shows the tokens.",
    "upload_length_mismatch": "Give Upload-Length the length of the whole file, and leave it out of later parts.",
    "warm_start": "Name a job on the same dataset with the same loss, bias and features that has ended, or none.",
    "wrong_type": f"Send a value of the type that is asked for. {_ROUTES}",
}


def meant(name: str, known: Iterable[str]) -> str:
    """Return "Did you mean X? ", where X is the known name most similar to `name`; "" if no known name is similar."""
    in_small, given = {each.lower(): each for each in known}, name.lower()[:_MOST_LETTERS]
    return "".join(f"Did you mean {in_small[near]}? " for near in get_close_matches(given, [*in_small], 1))


def shown(name: str) -> str:
    """Quote a name that a user sent, for a message; "of this name" if it is long or could not be a field's name."""
    return repr(name) if re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name) else "of this name"


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
