"""Parameters of an estimator: those that are fields of a job are told in its docstring as the field is described."""

import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any, TypeVar

from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.texts import parameter

_WIDTH = 112
_Kind = TypeVar("_Kind", bound=type)


def described(kind: _Kind) -> _Kind:
    """Replace each line `field NAME` of the docstring by the description of that field, with the default here."""
    defaults = {name: known.default for name, known in inspect.signature(kind).parameters.items()}

    def paragraph(place: re.Match[str]) -> str:
        head, text = parameter(FIELDS[place[1]], defaults[place[1]])
        return f"{head}\n{textwrap.indent(textwrap.fill(text, _WIDTH), ' ' * 4)}"

    if kind.__doc__:  # none with python -OO
        kind.__doc__ = re.sub(r"^field (\w+)$", paragraph, inspect.cleandoc(kind.__doc__), flags=re.MULTILINE)
    return kind


def keep_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Set each parameter that `__init__` was given as the attribute of its name, as scikit-learn asks."""
    vars(estimator).update({name: value for name, value in given.items() if name != "self"})
