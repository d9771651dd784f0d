"""Describes a job's fields in words: for READMEs, help, form and docstrings; and what is wrong with a submitted one.

`python -m streamsvm.service.jobs.fields.texts` writes the tables into the READMEs of service, trainer and reader.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from streamsvm.reader.options import OPTIONS as INPUT_OPTIONS
from streamsvm.service import obsolete_names
from streamsvm.service.errors import ServiceError, meant, shown
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.storage.options import Option, default_words, plain, without_null
from streamsvm.trainer.solvers import OPTIONS, users

_KNOWN = FIELDS | OPTIONS
_PLAIN = re.compile(r"-?\d{1,15}(\.\d{1,15})?(e-?\d{1,3})?", re.ASCII)
_OF_A_CHOICE = 2  # parts of a fault's path: a field, and the one of its types that was tried

_RANGE_HINTS = {
    "C": "Give a number above 0 and up to 1e12, or a list of at least one of them.",
    "budget": "Give 2 to 100,000 support vectors: two are merged when there is one too many.",
    "gamma": 'Give a number above 0, or "scale".',
}

# Parameters of LinearSVC, SVC and SGDClassifier that a job has under another name, for hints.
COUNTERPARTS = {
    "tol": "relative_gap is how near to the optimum training ends, tolerance is LIBLINEAR's -e",
    "max_iter": "max_passes is the most passes over the data",
    "random_state": "seed is its counterpart, a number",
    "n_jobs": "threads is its counterpart",
    "fit_intercept": '"bias": null trains without an intercept, "bias": 1.0 with one',
    "intercept_scaling": "bias is its counterpart",
    "penalty": "the penalty is always |w|^2 / 2",
    "dual": "solver chooses among dual and primal solvers",
    "multi_class": "multiclass is its counterpart",
    "cache_size": "cache_bytes is its counterpart, in bytes",
    "alpha": "C is its counterpart: 1 / (alpha * n_rows)",
}


def place_of(name: str, own: Iterable[str]) -> str:
    """Say which solvers have an option that the job's solver lacks, or which option of this solver may be meant."""
    if name in FIELDS:
        return f"{name} is a field of every job: give it beside solver_options. "
    return f"{name} is for solver {', '.join(users(name))}. " if name in OPTIONS else meant(name, own)


def explained(fault: Any) -> ServiceError:
    """Make the error that a client gets of a fault that pydantic found in a field."""
    path = [str(part) for part in fault["loc"]]
    # Names inside other fields are the user's own.
    depth = 1 if path[:1] == ["solver_options"] and len(path) > 1 else 0
    field = path[depth] if path else "the body"
    kind = fault["type"]
    if kind == "extra_forbidden":
        message = f"there is no field {shown(field)} in a job"
        return ServiceError("unknown_field", message, obsolete_names.FIELDS.get(field) or _known_fields(field))
    if kind == "missing":
        return ServiceError("missing_field", f"{field} is missing")
    if kind == "finite_number":
        return ServiceError("not_finite", f"{field} is not a finite number")
    if kind.startswith(("greater_than", "less_than", "too_long", "too_short", "literal_error")):
        return ServiceError(f"{field}_range", f"{field}: {fault['msg']}", _RANGE_HINTS.get(field) or _about(field))
    return ServiceError("wrong_type", f"{field}: {fault['msg']}", f"{_unquoted(field, fault)}{_about(field)}")


def _unquoted(field: str, fault: Any) -> str:
    """Return a hint to write a number without quotes, with a blank at its end, if it came as text; else ""."""
    value = fault["input"]
    if not isinstance(value, str) or not _PLAIN.fullmatch(value) or len(fault["loc"]) > _OF_A_CHOICE:
        return ""
    return f'Write it without quotes: "{field}": {value}. '


def _about(field: str) -> str:
    """Return a hint with the values that a field may have and its meaning; "" for an unknown field."""
    known = _KNOWN.get(field)
    return f"{field} may be {plain(values(known), 'null')}: {plain(known.meaning, 'null')}." if known else ""


def _known_fields(field: str) -> str:
    if field in COUNTERPARTS:
        return f"{COUNTERPARTS[field]}."
    near = meant(field, FIELDS)
    return f"{near}/reference has all fields." if near else f"Known fields: {', '.join(FIELDS)}."


_ROOT = Path(__file__).resolve().parents[3]
_NUMBERS = {int: "whole number", float: "number", str: "text"}
_BAR = r"\|"  # a bar within a cell
_EDGES = {"gt": "above", "ge": "at least", "lt": "below", "le": "up to"}


def needed(option: Option) -> str:
    """Return the other fields that the option needs, with their values, as Markdown: "" or "solver `bsca`, `bsgd`"."""
    return "; ".join(
        f"{name} {', '.join(f'`{value}`' for value in values)}" if values else f"`{name}`"
        for name, values in option.needs.items()
    )


def values(option: Option) -> str:
    """Return the values that the option may have, as Markdown."""
    if option.values:
        return option.values
    if option.choices:
        words = ", ".join(f"`{json.dumps(choice)}`" for choice in option.choices)
    elif option.kind is bool:
        words = "true, false"
    else:
        words = f"{_NUMBERS[option.kind]}{_edges(option.limits)}"
    return f"{words}, or null" if option.is_nullable else words


def default(option: Option) -> str:
    """Return the option's default, as Markdown; "" if it has none."""
    if option.default is MISSING:
        return ""
    text = json.dumps(option.default)
    return f"`{text}`" if isinstance(option.default, str) else text


def parameter(option: Option, default: Any) -> tuple[str, str]:
    """Return an estimator's parameter in the form of numpydoc: (name, type and default; meaning)."""
    kind = _python_type(Literal[option.choices] if option.choices else option.kind)
    needs = [f"{name} {' or '.join(json.dumps(value) for value in values)}" for name, values in option.needs.items()]
    meaning = plain(option.meaning, "None")
    text = f"With {', '.join(needs)}: {meaning}" if needs else f"{meaning[0].upper()}{meaning[1:]}"
    return f"{option.name} : {kind}{' or None' * option.is_nullable}, default={_python(default)}", f"{text}."


def _python_type(kind: Any) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _python_type(inside[0])
    if origin is Literal:
        words = ", ".join(map(json.dumps, inside))
        return words if len(inside) == 1 else f"{{{words}}}"
    if origin is list:
        return f"list of {_python_type(inside[0])}"
    return " or ".join(map(_python_type, inside)) if inside else kind.__name__


def _python(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def general_table() -> str:
    """Return the table of service/README.md: the fields of a job."""
    return _table(FIELDS, "field")


def option_table() -> str:
    """Return the table of trainer/README.md: the options of solvers."""
    return _table({name: replace(each, needs={"solver": users(name)}) for name, each in OPTIONS.items()}, "option")


def input_table() -> str:
    """Return the table of reader/README.md: the options of an input."""
    rows = [[f"`{each.name}`", default_words(each), without_null(each)] for each in INPUT_OPTIONS.values()]
    return _rows(["option", "default", "meaning"], rows)


def _edges(limits: Mapping[str, Any]) -> str:
    """Return the limits of a number as the words after its type: ", 1 to 64", or " above 0"."""
    if limits.keys() == {"ge", "le"}:
        return f", {_number(limits['ge'])} to {_number(limits['le'])}"
    return "".join(f" {_EDGES[edge]} {_number(limit)}" for edge, limit in limits.items())


def _number(limit: float) -> str:
    if not isinstance(limit, int):
        return f"{limit:g}"
    is_power = limit > 1 << 20 and limit.bit_count() == 1
    return f"2^{limit.bit_length() - 1}" if is_power else f"{limit:,}"


def _table(options: dict[str, Option], title: str) -> str:
    rows = [
        [f"`{name}`", needed(option), values(option), default(option), option.meaning]
        for name, option in options.items()
    ]
    return _rows([title, "for", "may be", "default", "meaning"], rows)


def _rows(titles: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown."""
    cells = [titles, ["---"] * len(titles), *([cell.replace("|", _BAR) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _write(page: str, table: str) -> None:
    """Replace the table in a README that has the same titles."""
    path, titles = _ROOT / page, re.escape(table.partition("\n")[0])
    text, n_tables = re.subn(rf"^{titles}\n(\|.*\n)+", lambda _: f"{table}\n", path.read_text(), flags=re.MULTILINE)
    assert n_tables == 1, f"{page} has {n_tables} such tables"
    path.write_text(text)


if __name__ == "__main__":
    _write("service/README.md", general_table())
    _write("trainer/README.md", option_table())
    _write("reader/README.md", input_table())
