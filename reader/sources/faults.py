"""Translates the errors of stores. Texts of libraries are not passed on: they may hold user names and keys."""

import time
from collections.abc import Callable
from typing import TypeVar

from streamsvm.reader.errors import InputError

PAUSES = (0.1, 0.3, 1.0, 3.0, 10.0)  # seconds before each new try; the fault after the last one is raised
Answer = TypeVar("Answer")

# Names of exceptions of botocore, google-auth and azure, which need not be installed.
_WITHOUT_RIGHTS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError",
    "ProfileNotFound", "NoAuthTokenError", "DefaultCredentialsError", "RefreshError", "ClientAuthenticationError",
}  # fmt: skip
_NOT_THERE = {"ResourceNotFoundError"}
_WRONG_STATUS = {401: "source_denied", 403: "source_denied", 404: "source_not_found"}


def fault_code(error: BaseException) -> str:
    """The code for an error of a store; after `source_unavailable` a new try may succeed."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, PermissionError) or kinds & _WITHOUT_RIGHTS:
        return "source_denied"
    if isinstance(error, FileNotFoundError | NotADirectoryError) or kinds & _NOT_THERE:
        return "source_not_found"
    if isinstance(error, ValueError):
        return "source_invalid"
    if isinstance(error, IsADirectoryError):
        return "source_is_folder"
    status = getattr(error, "code", None) or getattr(error, "status_code", None)
    return _WRONG_STATUS.get(status, "source_unavailable") if isinstance(status, int) else "source_unavailable"


def fault(error: Exception, url: str) -> InputError:
    """The InputError for an error of a store."""
    code = fault_code(error)
    said = {
        "source_denied": f"{url} may not be read",
        "source_not_found": f"there is no {url}",
        "source_invalid": f"{url} cannot be the name of a file there",
        "source_is_folder": f"{url} is no file",
        "source_unavailable": f"{url} cannot be read ({type(error).__name__})",
    }
    return InputError(code, said[code])


def persistently(call: Callable[[], Answer], url: str, sleep: Callable[[float], None] = time.sleep) -> Answer:
    """Call a store, again after each of PAUSES while it is unavailable. InputError about the file `url`."""
    for pause in (*PAUSES, None):
        try:
            return call()
        except Exception as error:
            translated = fault(error, url)
            if translated.code != "source_unavailable" or pause is None:
                raise translated from None
            sleep(pause)
    raise AssertionError
