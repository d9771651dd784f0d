"""The form of a job, made of the descriptions of its fields: a new field, or a new choice of one, is there at once."""

import json
from dataclasses import dataclass
from typing import Any

from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.from_text import parse_size
from streamsvm.service.jobs.fields.texts import null_words, plain
from streamsvm.storage.options import Option
from streamsvm.trainer.solvers import SOLVERS

_KINDS = {bool: "choice", int: "number", float: "number", list: "list"}


@dataclass(frozen=True)
class FormField:
    """
    name, label   of the field
    meaning       shown beside it
    kind          how home.js reads it: "choice", "number", "size" (in MiB), "list", or "words": numbers or words
    choices       (value, words, needs) of each
    default       value of the default, "": null
    when_empty    what the field means without a value; "" if it has to have one
    limits        attributes of a number: min, max, step
    needs         JSON: name of another field -> values of it that this one is for; []: any
    """

    name: str
    label: str
    meaning: str
    kind: str
    choices: tuple[tuple[str, str, str], ...]
    default: str
    when_empty: str
    limits: dict[str, Any]
    needs: str


def job_form() -> dict[str, list[FormField]]:
    """part of the form -> its fields"""
    parts: dict[str, list[FormField]] = {}
    for option in FIELDS.values():
        if option.part is not None:
            parts.setdefault(option.part, []).append(_field(option))
    return parts


def _field(option: Option) -> FormField:
    is_size = option.read is parse_size
    kind = "size" if is_size else "choice" if option.choices else _kind(option)
    can_be_empty = option.is_nullable or kind == "list"
    return FormField(
        name=option.name,
        label=option.label or f"{option.name[0].upper()}{option.name[1:].replace('_', ' ')}",
        meaning=plain(option.meaning, "empty"),
        kind=kind,
        choices=tuple(_choices(option)),
        default=str(option.default >> 20) if is_size else _value(option.default),
        when_empty=null_words(option) if can_be_empty else "",
        limits={"min": 1, "step": 1} if is_size else _limits(option) if kind == "number" else {},
        needs=json.dumps(option.needs) if option.needs else "",
    )


def _kind(option: Option) -> str:
    return _KINDS.get(getattr(option.kind, "__origin__", option.kind), "words")


def _choices(option: Option) -> list[tuple[str, str, str]]:
    if option.kind is bool:
        return [("true", "yes", ""), ("false", "no", "")]
    empty = [("", null_words(option), "")] if option.is_nullable and option.choices else []
    return empty + [(choice, choice.replace("_", " "), _needs_of(option.name, choice)) for choice in option.choices]


def _needs_of(name: str, choice: str) -> str:
    """A loss is for the solvers that have it."""
    solvers = [solver for solver, known in SOLVERS.items() if choice in known.losses]
    return json.dumps({"solver": solvers}) if name == "loss" else ""


def _limits(option: Option) -> dict[str, Any]:
    named = {"min": option.limits.get("ge"), "max": option.limits.get("le"), "step": 1 if option.kind is int else "any"}
    return {name: limit for name, limit in named.items() if limit is not None}


def _value(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default in (None, []) else str(default)
