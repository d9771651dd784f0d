"""The fields of a job as options of `streamsvm train`: made of the fields' descriptions, and LIBLINEAR's short options.

LIBLINEAR's are -s 3 -c 1 -e 0.1 -p 0.1 -B 1 -w1 10 -v 5.
"""

import argparse
import re
from collections.abc import Callable
from typing import Any

from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.from_text import format_size, parse_size
from streamsvm.service.jobs.fields.texts import default, values
from streamsvm.storage.options import Option, plain

_NONE = "none"
# -s: the losses of LIBLINEAR's L2-regularised linear models of classes and of regression, whatever the algorithm.
LIBLINEAR_LOSSES = {
    "0": "logistic",
    "1": "squared_hinge",
    "2": "squared_hinge",
    "3": "hinge",
    "4": "hinge",
    "7": "logistic",
    "11": "squared_epsilon_insensitive",
    "12": "squared_epsilon_insensitive",
    "13": "epsilon_insensitive",
}
_JOINT = "4"  # all classes in one problem, Crammer and Singer's


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field that has one, and the short options of LIBLINEAR."""
    for field in FIELDS.values():
        if field.flags is not None:
            _add_field(parser, field)
    parser.add_argument("--no-bias", dest="bias", action="store_const", const=_NONE, help="--bias none")
    known = ", ".join(LIBLINEAR_LOSSES)
    liblinear = parser.add_argument_group("other options of LIBLINEAR")
    liblinear.add_argument(
        "-s", dest="loss", action=_LossNumber, metavar="NUMBER", help=f"--loss by its number: {known}"
    )
    liblinear.add_argument("-v", dest="folds", action=_Folds, type=int, metavar="N", help="--folds N --no-refit")
    liblinear.add_argument("-B", dest="bias", action=_BiasValue, type=float, help="--bias; none if it is negative")


def given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that the command line gave, by name; the word none becomes None."""
    given = {name: getattr(options, name, None) for name in FIELDS}
    return {name: None if value == _NONE else value for name, value in given.items() if value is not None}


def _add_field(parser: Any, field: Option) -> None:
    flags = field.flags or (_flag(field.name),)
    more: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": None}
    if field.kind is not bool:
        choices = (*field.choices, _NONE) if field.is_nullable and field.choices else field.choices
        more = {"type": _reader(field), "choices": choices or None, "metavar": field.word or None}
    if field.name in ("class_weight", "solver_options"):
        more["action"] = _Merge
    parser.add_argument(*flags, dest=field.name, help=_help(field), **more)


def _reader(field: Option) -> Callable[[str], Any]:
    """Return a function that reads the field's value from a text, and accepts `none` if the field may be null."""
    read_value = field.read or field.kind

    def read(text: str) -> Any:
        if field.is_nullable and text == _NONE:
            return _NONE
        try:
            return read_value(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: it may be {_in_dashes(values(field))}") from None

    return read


def _help(field: Option) -> str:
    needed = "; ".join(" ".join([_flag(name), ", ".join(values)]).strip() for name, values in field.needs.items())
    usual = default(field)
    if field.read is parse_size and field.default is not None:
        usual = format_size(field.default)
    said = _in_dashes(f"{field.meaning} (default: {usual})")
    return (f"with {needed}: {said}" if needed else said).replace("%", "%%")


def _in_dashes(text: str) -> str:
    """Rewrite a text about fields for the command line: names of fields become options, words lose their quotes."""

    def as_option(word: re.Match[str]) -> str:
        flag = _flag(word[1]) if word[1] in FIELDS else ""
        return flag if flag.startswith("--") else word[1]

    return plain(re.sub(r"`(\w+)`", as_option, re.sub(r'`"(\w+)"`', r"\1", text)), _NONE)


def _flag(name: str) -> str:
    return (FIELDS[name].flags or (f"--{name.replace('_', '-')}",))[-1]


class _Merge(argparse.Action):
    """Merges the objects that several mentions of an option give; a word replaces the value."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        before = getattr(options, self.dest)
        setattr(options, self.dest, before | value if isinstance(before, dict) and isinstance(value, dict) else value)


class _Folds(argparse.Action):
    """Sets the number of folds, and asks for cross-validation without a final model, as LIBLINEAR's -v."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        options.folds, options.refit = value, False


class _LossNumber(argparse.Action):
    """Sets the loss that a number of LIBLINEAR's -s stands for, and Crammer and Singer's problem for 4."""

    def __call__(self, parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        if value not in LIBLINEAR_LOSSES:
            parser.error(f"-s {value} is not trained here; {', '.join(LIBLINEAR_LOSSES)} are")
        options.loss = LIBLINEAR_LOSSES[value]
        options.multiclass = "crammer_singer" if value == _JOINT else options.multiclass


class _BiasValue(argparse.Action):
    """Sets the value of the constant feature; a negative value means no such feature, as in LIBLINEAR."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        options.bias = value if value >= 0 else _NONE
