"""The fields of a form for what only some solvers have, made of the job's schema: a new option is there at once."""

from dataclasses import dataclass
from typing import Any

from service.jobs import OPTIONS, JobSpec
from trainer.solvers import SOLVERS


@dataclass(frozen=True)
class Field:
    """
    name     of the option
    choices  what it may be, empty: a number
    step     of a number: 1, or any
    default  as the form shows it, empty: null
    solvers  that have it
    """

    name: str
    choices: tuple[str, ...]
    step: str
    default: str
    solvers: tuple[str, ...]


def solver_fields() -> list[Field]:
    """One for every option, in the order of a job's fields."""
    properties = JobSpec.model_json_schema()["properties"]
    return [_field(name, properties[name]) for name in JobSpec.model_fields if name in OPTIONS]


def loss_solvers() -> dict[str, list[str]]:
    """loss -> the solvers that can minimise it"""
    losses = dict.fromkeys(loss for solver in SOLVERS.values() for loss in solver.losses)
    return {loss: [name for name, solver in SOLVERS.items() if loss in solver.losses] for loss in losses}


def _field(name: str, schema: dict[str, Any]) -> Field:
    # One that may be null is described as anyOf it and null.
    (kind, *_) = schema.get("anyOf", [schema])
    choices = kind.get("enum", ["false", "true"] if kind["type"] == "boolean" else [])
    default = schema.get("default")
    shown = "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
    users = tuple(solver for solver, line in SOLVERS.items() if name in line.options)
    return Field(name, tuple(choices), "1" if kind["type"] == "integer" else "any", shown, users)
