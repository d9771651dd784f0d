"""All fields of a job, general ones and options of solvers; an option as a field that pydantic checks."""

from dataclasses import MISSING, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from streamsvm.service.jobs.fields.general import GeneralFields
from streamsvm.storage.options import Option, options_of
from streamsvm.trainer.solvers import OPTIONS, users

GENERAL = options_of(GeneralFields)
FIELDS: dict[str, Option] = GENERAL | {
    name: replace(option, needs={"solver": users(name)}) for name, option in OPTIONS.items()
}


def field_of(option: Option) -> Any:
    """(type, default) of a field, as pydantic's `create_model` takes it."""
    kind: Any = Literal[option.choices] if option.choices else option.kind
    finite = {"allow_inf_nan": False} if option.kind is float else {}
    limited = Annotated[kind, Field(**option.limits, **finite)]
    default = ... if option.default is MISSING else option.default
    return limited | None if option.is_nullable else limited, Field(default, description=option.meaning)
