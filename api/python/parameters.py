"""Parameters of an estimator: those that are fields of a job have the field's description and its defaults."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np

from streamsvm.errors import as_arguments
from streamsvm.service.jobs.fields.counterparts import COUNTERPARTS
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.spec import end_of
from streamsvm.service.jobs.fields.texts import parameter

AUTO = "auto"  # relative_gap follows from the tolerance and the kernel
_WIDTH = 112
_Kind = TypeVar("_Kind", bound=type)


def described(kind: _Kind) -> _Kind:
    """Replace each line `field NAME` of the docstring by the description of that field, with the default here."""
    _show_known(kind)
    defaults = {name: known.default for name, known in inspect.signature(kind).parameters.items()}

    def paragraph(place: re.Match[str]) -> str:
        head, text = parameter(FIELDS[place[1]], defaults[place[1]])
        return f"{head}\n{textwrap.indent(textwrap.fill(text, _WIDTH), ' ' * 4)}"

    if kind.__doc__:  # none with python -OO
        kind.__doc__ = re.sub(r"^field (\w+)$", paragraph, inspect.cleandoc(kind.__doc__), flags=re.MULTILINE)
    return kind


def _show_known(kind: type) -> None:
    """Leave out of the signature that `__init__` takes other parameters, only to refuse them with a hint."""
    init: Any = kind.__init__  # type: ignore[misc]
    signature = inspect.signature(init)
    known = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    init.__signature__ = signature.replace(parameters=known)


def keep_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Set each parameter that `__init__` was given as the attribute of its name, as scikit-learn asks.

    TypeError for one that the estimator does not have, with the name of its counterpart.
    """
    for name in given["unknown"]:
        raise TypeError(f"{type(estimator).__name__} has no parameter {name!r}{_instead(name, given)}")
    vars(estimator).update({name: value for name, value in given.items() if name not in ("self", "unknown")})


def _instead(name: str, known: Iterable[str]) -> str:
    """The counterpart of a parameter of scikit-learn's, or the likely meaning of a mistyped one, for a message."""
    if name in COUNTERPARTS:
        return f": {as_arguments(COUNTERPARTS[name])}"
    if name == "warm_start":
        return ": partial_fit goes on from the rows before"
    near = get_close_matches(name, {*known} - {"self", "unknown"}, 1)
    return f": did you mean {near[0]!r}?" if near else ""


def given_ends(tolerance: float | None, relative_gap: float | str | None) -> dict[str, Any]:
    """The fields that these parameters set in a job, which fills in all others itself."""
    if relative_gap != AUTO:
        return {"tolerance": tolerance, "relative_gap": relative_gap}
    return {} if tolerance is None else {"tolerance": tolerance}


def ends(tolerance: float | None, relative_gap: float | str | None, kernel: str) -> tuple[float | None, float | None]:
    """The tolerance and the relative gap of a job of these parameters."""
    given = given_ends(tolerance, relative_gap)
    known = {name: FIELDS[name].default for name in ("tolerance", "relative_gap")}
    found = {**known, **end_of({"kernel": kernel, **given}), **given}
    return found["tolerance"], found["relative_gap"]


def are_reached(wanted: tuple[float | None, float | None], gap: float, relative_gap: float) -> bool:
    """Whether M+ - M- and the relative gap are both as small as is wanted; None: that one does not matter."""
    pairs = [(now, most) for now, most in zip((gap, relative_gap), wanted, strict=True) if most is not None]
    return bool(pairs) and all(now <= most for now, most in pairs)


def as_python(value: Any) -> Any:
    """Convert numbers and vectors of numpy to Python's own, since a job is JSON."""
    if isinstance(value, np.ndarray | tuple):
        value = list(value)
    if isinstance(value, list):
        return [as_python(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value
