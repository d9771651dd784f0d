"""What the form of a job offers: a new option of a solver, or a new choice of a field, is there at once."""

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.options import Option
from streamsvm.trainer.solvers import OPTIONS, SOLVERS, users


@dataclass(frozen=True)
class Field:
    """
    name     of the option
    meaning  of it, for people
    choices  what it may be, empty: a number
    step     of a number: 1, or any
    default  as the form shows it, empty: null
    solvers  that have it
    """

    name: str
    meaning: str
    choices: tuple[str, ...]
    step: str
    default: str
    solvers: tuple[str, ...]


def solver_fields() -> list[Field]:
    """One for every option."""
    return [_field(option) for option in OPTIONS.values()]


def loss_solvers() -> dict[str, list[str]]:
    """loss -> the solvers that can minimise it"""
    losses = dict.fromkeys(loss for solver in SOLVERS.values() for loss in solver.losses)
    return {loss: [name for name, solver in SOLVERS.items() if loss in solver.losses] for loss in losses}


def choices() -> dict[str, tuple[str, ...]]:
    """field of a job -> what it may be, of the fields that have a choice; null is not among them"""
    found = {name: _literal(field.annotation) for name, field in JobSpec.model_fields.items()}
    return {name: words for name, words in found.items() if words}


def _literal(annotation: Any) -> tuple[str, ...]:
    kinds = (kind for kind in (annotation, *get_args(annotation)) if get_origin(kind) is Literal)
    return next(map(get_args, kinds), ())


def _field(option: Option) -> Field:
    is_switch = option.kind is bool
    choices = ("false", "true") if is_switch else option.choices
    default = "" if option.default is None else str(option.default).lower() if is_switch else str(option.default)
    step = "1" if option.kind is int else "any"
    return Field(option.name, option.meaning.replace("`", ""), choices, step, default, users(option.name))
