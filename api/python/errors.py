"""What an estimator raises: the engine's errors, as the kinds of exception that Python has for them."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from streamsvm.reader.errors import InputError
from streamsvm.service.errors import PROCESS_FAILURES, ModelFormatError, ServiceError
from streamsvm.storage.errors import StorageError

_NOT_THE_INPUT = {*PROCESS_FAILURES, "ingest_failed", "out_of_space"}


class TrainingError(Exception):
    """`code` is stable and says which error it is, `hint` what to do about it."""

    def __init__(self, message: str, code: str, hint: str = "") -> None:
        super().__init__(f"{message} [{code}]" + (f". {hint}" if hint else ""))
        self.code = code
        self.hint = hint


class InvalidInput(TrainingError, ValueError):
    """The data, a file or a parameter is not what it should be."""


class TrainingFailed(TrainingError, RuntimeError):
    """It was not the input: a process died, or a disk is full."""


class SlowerTraining(UserWarning):
    """A faster way to train was given up; the model is the same."""


class InputWarning(UserWarning):
    """A column looks as if it were no feature, or was left out as such."""


def tell(told: Iterable[Mapping[str, str]]) -> None:
    """Warn of what a dataset says, each with a code and message."""
    for each in told:
        warnings.warn(f"{each['message']} [{each['code']}]", InputWarning, 6)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Errors of the engine come out as those above."""
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
