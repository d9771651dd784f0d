"""Options written once: the fields of a job, the command line, the form and the README come from here.

A solver, or a feature map, is or has a frozen dataclass with a field made by `option` for each.
"""

from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, get_args


def option(default: Any, meaning: str, for_reader: bool = False, **limits: float) -> Any:
    """A field of `Options`.

    meaning     a line of Markdown, for people
    for_reader  the reader process is told it, too
    limits      of a number: ge, gt, le, lt
    """
    return field(default=default, metadata={"meaning": meaning, "for_reader": for_reader, "limits": limits})


@dataclass(frozen=True)
class Option:
    """What there is to know of one.

    kind         bool, int, float or str
    choices      what it may be; empty: anything of its kind within the limits
    is_nullable  whether it may be None as well
    """

    name: str
    kind: type
    choices: tuple[str, ...]
    is_nullable: bool
    default: Any
    meaning: str
    for_reader: bool
    limits: dict[str, float]


def options_of(own: type) -> dict[str, Option]:
    """name -> Option of a class of options, whose types are bool, int, float or a Literal, or one of them `| None`."""
    return {known.name: _describe(known) for known in fields(own)}


def _describe(known: Any) -> Option:
    is_nullable = NoneType in get_args(known.type)
    kind = get_args(known.type)[0] if is_nullable else known.type
    choices = get_args(kind)  # of a Literal
    return Option(known.name, str if choices else kind, choices, is_nullable, known.default, **known.metadata)
