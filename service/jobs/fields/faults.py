"""Explains what is wrong with a submitted field of a job, and what the field may be."""

import re
from collections.abc import Iterable
from typing import Any

from streamsvm.service import gone
from streamsvm.service.errors import ServiceError
from streamsvm.service.hints import meant, shown
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.texts import values
from streamsvm.storage.options import plain
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
        return ServiceError("unknown_field", message, gone.FIELDS.get(field) or _known_fields(field))
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
