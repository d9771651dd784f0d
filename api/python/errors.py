"""Turns the engine's errors into the exceptions that an estimator raises."""

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from streamsvm.reader.errors import InputError
from streamsvm.service.errors import PROCESS_FAILURES, ModelFormatError, ServiceError
from streamsvm.storage.errors import StorageError

_NOT_THE_INPUT = {*PROCESS_FAILURES, "ingest_failed", "out_of_space"}


class TrainingError(Exception):
    """An error of the engine: `code` identifies it and never changes, `hint` says what to do."""

    def __init__(self, message: str, code: str, hint: str = "") -> None:
        super().__init__(f"{message} [{code}]" + (f". {hint}" if hint else ""))
        self.code = code
        self.hint = hint


class InvalidInput(TrainingError, ValueError):
    """The data, a file or a parameter is wrong."""


class TrainingFailed(TrainingError, RuntimeError):
    """Training failed though the input is right: a process died, or a disk is full."""


class SlowerTraining(UserWarning):
    """The engine gave up a faster way to train; the model is the same."""


class InputWarning(UserWarning):
    """A column does not look like a feature, such as a row number; the engine may have left it out."""


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the line which called this package, however many functions are in between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, level)


def tell(warned: Iterable[Mapping[str, str]]) -> None:
    """Issue the warnings of a dataset, each of which has a code and a message."""
    for each in warned:
        warn(f"{each['message']} [{each['code']}]", InputWarning)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Raise errors of the engine as the exceptions of this module."""
    try:
        yield
    except InputError as error:
        raise InvalidInput(f"{error.where}{error.message}", error.code, error.hint) from error
    except ServiceError as error:
        kind = TrainingFailed if error.code in _NOT_THE_INPUT else InvalidInput
        tail = error.at.get("log_tail", "")
        raise kind(f"{error.message}{tail and f': {tail}'}", error.code, error.hint) from error
    except ModelFormatError as error:
        raise InvalidInput(error.message, error.code, error.hint) from error
    except StorageError as error:
        raise TrainingFailed(error.message, error.code, error.hint) from error
