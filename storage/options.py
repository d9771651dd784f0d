"""Options described once: fields of a job, the command line, the form, the estimators and the READMEs come from here.

A class of options is a dataclass with a field made by `option` for each: the options of a solver, those of a feature
map, the general fields of a job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin


@dataclass(frozen=True)
class Spelling:
    """How people write an option.

    flags   its names on a command line; (): its own name with dashes; None: a command line has no such option
    read    makes a value of a text; None: the type of the option does
    word    stands for such a text in the help; "": the name of the option
    part    the part of the form that shows it; None: the form does not
    label   what the form calls it; "": its own name
    values  what it may be, in words; "": its type and limits say it
    """

    flags: tuple[str, ...] | None = ()
    read: Callable[[str], Any] | None = None
    word: str = ""
    part: str | None = "more"
    label: str = ""
    values: str = ""


def option(
    default: Any,
    meaning: str,
    for_reader: bool = False,
    needs: Mapping[str, tuple[str, ...]] | None = None,
    spelling: Spelling = Spelling(),
    **limits: Any,
) -> Any:
    """A field of a class of options.

    default     its default; dataclasses.MISSING: it has to be given
    meaning     a line of Markdown, with units
    for_reader  the reader process is told it, too
    needs       another option -> the values of it that this one is for; (): any value but null
    limits      pydantic's: ge, gt, le, lt of a number, min_length, max_length, pattern
    """
    metadata = {
        "default": default,
        "meaning": meaning,
        "for_reader": for_reader,
        "needs": needs or {},
        "spelling": spelling,
        "limits": limits,
    }
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Option:
    """All that is known of an option; see `option` for what is not here.

    kind         bool, int, float, str, or a type that pydantic checks
    choices      the texts that it may be; empty: anything of its kind within the limits
    is_nullable  whether it may be None as well
    """

    name: str
    kind: Any
    choices: tuple[str, ...]
    is_nullable: bool
    default: Any
    meaning: str
    for_reader: bool
    needs: Mapping[str, tuple[str, ...]]
    spelling: Spelling
    limits: Mapping[str, Any]


def options_of(own: type) -> dict[str, Option]:
    """name -> Option of a class of options."""
    return {known.name: _describe(known) for known in fields(own)}


def _describe(known: Any) -> Option:
    is_nullable = NoneType in get_args(known.type)
    kind = get_args(known.type)[0] if is_nullable else known.type
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return Option(known.name, str if choices else kind, choices, is_nullable, **known.metadata)
