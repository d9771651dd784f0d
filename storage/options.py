"""Options are described once; fields of a job, command line, form, estimators and READMEs use this description.

A class of options is a dataclass whose fields `option` makes. There are such classes for the options of each solver, of
each feature map, and of an input, and for the general fields of a job.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin

_NOTHING: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class Option:
    """The description of an option.

    kind         type of the value: bool, int, float, str, or a type that pydantic checks
    choices      the allowed values; empty: any value of the kind within the limits
    is_nullable  whether None is allowed, too
    default      the default value; dataclasses.MISSING: the option is required
    meaning      a line of Markdown, with units
    for_reader   the settings of the reader process contain the option, too
    needs        name of another option -> its values that allow this one, (): any but null; one of several is enough
    flags        names on a command line; (): the option's name with dashes; None: no command line has the option
    read         converts a text to a value; None: `kind` does
    word         placeholder of the value in a command's help; "": the option's name
    part         the part of the web form that shows the option; None: the form does not show it
    label        the option's label in the form; "": its name
    values       description of the allowed values; "": `kind` and `limits` describe them
    limits       pydantic's limits: ge, gt, le, lt of a number, max_length, pattern
    """

    name: str
    kind: Any
    choices: tuple[str, ...]
    is_nullable: bool
    default: Any
    meaning: str
    for_reader: bool
    needs: Mapping[str, tuple[str, ...]]
    flags: tuple[str, ...] | None
    read: Callable[[str], Any] | None
    word: str
    part: str | None
    label: str
    values: str
    limits: Mapping[str, Any]


def option(
    default: Any,
    meaning: str,
    for_reader: bool = False,
    needs: Mapping[str, tuple[str, ...]] = _NOTHING,
    flags: tuple[str, ...] | None = (),
    read: Callable[[str], Any] | None = None,
    word: str = "",
    part: str | None = "more",
    label: str = "",
    values: str = "",
    **limits: Any,
) -> Any:
    """Make a field of a class of options. The arguments are those of `Option`."""
    described = dict(locals())
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=described)
    return field(default=default, metadata=described)


def options_of(kind: type) -> dict[str, Option]:
    """Return the Options of a class of options by name, without the fields that `option` did not make."""
    return {known.name: _option(known) for known in fields(kind) if known.metadata}


def plain(text: str, null: str) -> str:
    """Return a meaning without Markdown, with the argument `null`, such as "None", in place of the word null."""
    return re.sub(r"\bnull\b", null, text.replace("`", ""))


def null_words(option: Option) -> str:
    """Return the part of the option's meaning that follows "null: ", which says what None means; else "none"."""
    said = re.search(r"\bnull: ([^;.(]*)", option.meaning)
    return plain(said[1], "none").strip() if said else "none"


def without_null(option: Option) -> str:
    """Return the option's meaning without the part "; null: ...", for texts that state the default separately."""
    return re.sub(r"; null: [^;.(]*", "", option.meaning)


def default_words(option: Option) -> str:
    """Return the default as text; for the default None, the meaning of null."""
    return null_words(option) if option.default is None else str(option.default)


def _option(known: Any) -> Option:
    is_nullable = NoneType in get_args(known.type)
    kind = get_args(known.type)[0] if is_nullable else known.type
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return Option(known.name, str if choices else kind, choices, is_nullable, **known.metadata)
