"""Turns the errors of reader, service and storage into the exceptions that an estimator raises."""

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import OPTIONS
from streamsvm.service.errors import PROCESS_FAILURES, ModelFormatError, ServiceError
from streamsvm.storage.errors import StorageError

# Input options that have an argument of their own; all other options are keys of `input_options`.
_ARGUMENTS = {"label_column": "y", "weight_column": "sample_weight"}
_LIST_OF_ONE = re.compile(r'"(\w+)": (\["\w+"\])')
# A name without a value counts as an option only if it is no English word.
_OPTION = re.compile(
    rf"(?<!['?])\b(?:({'|'.join(OPTIONS)})=(-?\w+(?:-\w+)*)|({'|'.join(name for name in OPTIONS if '_' in name)})\b)"
)
_FIELD = re.compile(r'(?<!\{)"(\w+)": (\[[^\]]*\]|"[^"]*"|null|true|false|-?[\d.e-]*\d)')  # not one inside an object
_AS_PYTHON = {"null": "None", "true": "True", "false": "False"}
_VALUE_OF_OPTION = re.compile(rf"(?<!')\b({'|'.join(OPTIONS)})=(-?\w+(?:-\w+)*)")
# Modules between a caller and a warning.
_BETWEEN = (f"{__name__.partition('.')[0]}.", "sklearn.callback.")
_NOT_THE_INPUT = {*PROCESS_FAILURES, "ingest_failed", "out_of_space"}


def in_python(hint: str) -> str:
    """Rewrite a hint about fields of JSON for an estimator: `"features": ["scale"]` becomes `features=["scale"]`.

    `label_type=string` becomes `input_options={"label_type": "string"}`, `label_column=-1` becomes `y=-1`.
    """
    return _OPTION.sub(_argument, _LIST_OF_ONE.sub(r"\1=\2", hint))


def as_arguments(hint: str) -> str:
    """Rewrite a hint about fields of JSON for calls of a client, which has an argument for each field.

    `"bias": null` becomes `bias=None`, `label_type=string` becomes `label_type="string"`.
    """
    hint = _FIELD.sub(lambda field: f"{field[1]}={_AS_PYTHON.get(field[2], field[2])}", hint)
    return _VALUE_OF_OPTION.sub(lambda option: f"{option[1]}={_quoted(option[2])}", hint)


def _quoted(value: str) -> str:
    return value if value.lstrip("-").isdecimal() else f'"{value}"'


def _argument(field: re.Match[str]) -> str:
    name, value = field[1] or field[3], field[2]
    if value is None:
        return _ARGUMENTS.get(name, f'input_options["{name}"]')
    written = _quoted(value)
    return f"{_ARGUMENTS[name]}={written}" if name in _ARGUMENTS else f'input_options={{"{name}": {written}}}'


class TrainingError(Exception):
    """An error of reading or training: `code` identifies the error and never changes, `hint` says what to do."""

    def __init__(self, message: str, code: str, hint: str = "") -> None:
        hint = in_python(hint)
        super().__init__(f"{message} [{code}]" + (f". {hint}" if hint else ""))
        self.code = code
        self.hint = hint


class InvalidInput(TrainingError, ValueError):
    """The data, a file or a parameter is wrong."""


class TrainingFailed(TrainingError, RuntimeError):
    """Training failed though the input is right: a process died, or a disk is full."""


class SlowerTraining(UserWarning):
    """Training could not use a faster method; the model is the same."""


class InputWarning(UserWarning):
    """A warning about a column: it may be no feature, such as a row number, or has words unknown to the model."""


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the line that called this package, however many functions are in between.

    Scikit-learn's wrapper of methods that call callbacks also counts as in between.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and f"{frame.f_globals.get('__name__', '')}.".startswith(_BETWEEN):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, level)


def tell_slower(slowdowns: Iterable[Mapping[str, str]]) -> None:
    """Issue a warning for each cause of slower training, a dict with code, message and hint."""
    for each in slowdowns:
        warn(f"{each['message']}. {in_python(each['hint'])} [{each['code']}]", SlowerTraining)


def tell(warned: Iterable[Mapping[str, str]]) -> None:
    """Issue the warnings of a dataset, dicts with code and message."""
    for each in warned:
        warn(f"{in_python(each['message'])} [{each['code']}]", InputWarning)


@contextmanager
def told_plainly() -> Iterator[None]:
    """In the `with` statement, turn errors of reader, service and storage into the exceptions of this module."""
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
