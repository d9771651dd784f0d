"""An option, written once beside what has it, as a field of a checked document."""

from typing import Annotated, Any, Literal

from pydantic import Field

from streamsvm.storage.options import Option


def field_of(option: Option) -> Any:
    """(Type, default) of the field."""
    kind: Any = Literal[option.choices] if option.choices else option.kind
    finite = {"allow_inf_nan": False} if option.kind is float else {}
    limited = Annotated[kind, Field(**option.limits, **finite)]
    return limited | None if option.is_nullable else limited, Field(option.default, description=option.meaning)
