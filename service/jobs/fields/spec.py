"""A job's fields, checked: as they are submitted, and as this version or one before it has stored them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError, model_validator

from streamsvm.service import gone
from streamsvm.service.errors import ServiceError
from streamsvm.service.hints import meant, shown
from streamsvm.service.jobs.fields.counterparts import COUNTERPARTS
from streamsvm.service.jobs.fields.descriptions import FIELDS, KERNEL_TOLERANCE, GeneralFields, form_of
from streamsvm.service.jobs.fields.features import named_maps
from streamsvm.service.jobs.fields.field_rules import KERNEL_SOLVERS, check_rules
from streamsvm.service.jobs.fields.fold_metrics import OF_NUMBERS
from streamsvm.service.jobs.fields.texts import values
from streamsvm.storage.options import options_of, plain
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.solvers import OPTIONS, SOLVERS, users

# Fields whose default follows from others: a client that sends all defaults must not send these.
FOLLOWING = ("solver", "kernel", "bias", "select_by", "tolerance", "relative_gap")

_TOLERANCE = 1e-3  # the default, while jobs had no relative gap unless they were given one

_PLAIN = re.compile(r"-?\d{1,15}(\.\d{1,15})?(e-?\d{1,3})?", re.ASCII)
_OF_A_CHOICE = 2  # parts of the place of a fault: a field, and which of its types was tried

_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_KNOWN = FIELDS | OPTIONS
_OF_TRUTH = {name for name, option in _KNOWN.items() if option.kind is bool}

_RANGE_HINTS = {
    "C": "Give a number above 0 and up to 1e12, or a list of at least one of them.",
    "budget": "Give 2 to 100,000 support vectors: two are merged when there is one too many.",
    "gamma": 'Give a number above 0, or "scale".',
}


def migrate(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the fields of a job that any version has stored into those of this version."""
    if "bias" not in stored:
        stored = {**stored, "bias": None}  # the default, while it was not 1
    if "relative_gap" not in stored:
        stored = {"tolerance": _TOLERANCE, **stored, "relative_gap": None}
    if "eviction" in stored:
        stored = _of_the_first(stored)
    fields = {name: value for name, value in stored.items() if name not in gone.FIELDS}
    return fields if "solver_options" in stored else {**fields, "solver_options": own_options(stored)}


def own_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job's solver, from where earlier versions had the options of all: among the fields."""
    solver = SOLVERS.get(fields.get("solver", FIELDS["solver"].default))
    return {name: fields[name] for name in options_of(solver.options) if name in fields} if solver else {}


def _of_the_first(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Translate what 0.1.0 alone has stored."""
    # `selection` was something else.
    fields = {name: value for name, value in stored.items() if name != "selection"}
    # With cutting planes the number of threads decides how sums over rows are rounded: it stays. Elsewhere 1 was the
    # default, and other numbers meant something that this version does not have.
    if stored.get("solver") not in ("cpa", "ocas"):
        fields["threads"] = None
    return {**fields, "solver": gone.PAPER, **_as_printed(stored)} if stored["eviction"] == "paper" else fields


def _as_printed(stored: Mapping[str, Any]) -> dict[str, Any]:
    own = {new: stored[old] for old, new in gone.PAPER_FIELDS.items() if old in stored}
    return {name: "pick" if value == "step" else value for name, value in own.items()}


if TYPE_CHECKING:

    class _Fields(GeneralFields, BaseModel): ...

else:
    _Fields = form_of("_Fields", FIELDS)


class JobSpec(_Fields):
    """A job as submitted. Every field but `dataset` has a default; unknown fields are refused."""

    @model_validator(mode="before")
    @classmethod
    def _with_its_end(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        if isinstance(own := given.get("solver_options"), Mapping):
            given = {**given, "solver_options": _with_truths(own)}
        return {**end_of(given), **bias_of(given), **_with_truths(given)}

    @property
    def is_joint(self) -> bool:
        """Whether all classes are in one problem, that of Crammer and Singer."""
        return self.multiclass == "crammer_singer"

    @property
    def options(self) -> Any:
        """The options of the job's solver, an instance of the solver's own Options."""
        own = SOLVERS[self.solver].options
        general = {each.name: getattr(self, each.name) for each in fields(own) if each.name in FIELDS}
        return own(**general, **self.solver_options)


def parse_spec(given: Any) -> JobSpec:
    """A checked JobSpec; raises ServiceError for the first thing wrong with it."""
    try:
        spec = JobSpec.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        # A field that is missing may be there under a mistyped name, which says more.
        first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        raise _explain(first) from None
    spec = _with_options(_complete(spec))
    named_maps(spec.features)
    check_rules(spec)
    return spec


def read_spec(stored: Mapping[str, Any]) -> JobSpec:
    """The job in a record of any version. Raises ServiceError `job_outdated` if this version has no such job."""
    try:
        return _with_options(JobSpec.model_validate(migrate(stored)))
    except (ValidationError, ServiceError) as error:
        place = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ("solver_options",)
        field = f"its {place[0]}" if place else "its fields together"
        message = f"the job was submitted to another version, and this one cannot take {field}"
        raise ServiceError("job_outdated", message, "Submit it anew.") from None


def end_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The end of a job that follows from the fields it is given: a tolerance stands alone unless a relative gap is
    given, too, and a kernel has a tolerance, since it has no gap."""
    if "tolerance" in given:
        return {"relative_gap": None}
    return {} if _is_linear(given) else {"tolerance": KERNEL_TOLERANCE, "relative_gap": None}


def bias_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """No bias where a constant feature changes nothing, or is there already: beside a kernel, or a map of its own."""
    maps = given.get("features")
    names = [list(each) if isinstance(each, dict) else [each] for each in maps] if isinstance(maps, list) else []
    return {"bias": None} if ["bias"] in names or not _is_linear(given) else {}


def _with_truths(given: Mapping[str, Any]) -> dict[str, Any]:
    """Write yes and no, and their like, as true and false where a field is one of the two."""
    truths = {name: _TRUTHS.get(str(given[name]).lower()) for name in given if name in _OF_TRUTH}
    return {**given, **{name: truth for name, truth in truths.items() if truth is not None}}


def _is_linear(given: Mapping[str, Any]) -> bool:
    return given.get("kernel") != "rbf" and given.get("solver") not in KERNEL_SOLVERS


def _complete(spec: JobSpec) -> JobSpec:
    """Fill in fields that follow from others: the solver of a kernel, the kernel of a solver, a regression's metric."""
    given, followed = spec.model_fields_set, dict[str, Any]()
    if spec.loss in REGRESSION and "select_by" not in given:
        followed["select_by"] = OF_NUMBERS[0]
    if spec.kernel == "rbf" and "solver" not in given:
        followed["solver"] = KERNEL_SOLVERS[0]
    if SOLVERS[spec.solver].has_kernel and "kernel" not in given:
        followed["kernel"] = "rbf"
    return spec.model_copy(update=followed)


def _with_options(spec: JobSpec) -> JobSpec:
    """Fill in the options of the job's solver. ServiceError solver_option for the first that it does not have."""
    own = options_of(SOLVERS[spec.solver].options)
    for name in spec.solver_options:
        if name not in own:
            message = f'solver "{spec.solver}" has no option {shown(name)}'
            raise ServiceError("solver_option", message, f"{_place_of(name, own)}It has {', '.join(own) or 'none'}.")
    usual = {name: option.default for name, option in own.items()}
    return spec.model_copy(update={"solver_options": usual | spec.solver_options})


def _place_of(name: str, own: Iterable[str]) -> str:
    """Words for an option that the job's solver does not have: whose it is, or which of its own may be meant."""
    if name in FIELDS:
        return f"{name} is a field of every job: give it beside solver_options. "
    return f"{name} is for solver {', '.join(users(name))}. " if name in OPTIONS else meant(name, own)


def _explain(fault: Any) -> ServiceError:
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
    """Return the field as it is to be written, if a number came as text; a blank is behind it."""
    value = fault["input"]
    if not isinstance(value, str) or not _PLAIN.fullmatch(value) or len(fault["loc"]) > _OF_A_CHOICE:
        return ""
    return f'Write it without quotes: "{field}": {value}. '


def _about(field: str) -> str:
    """Return the values that a field may have and its meaning, for a hint."""
    known = _KNOWN.get(field)
    return f"{field} may be {plain(values(known), 'null')}: {plain(known.meaning, 'null')}." if known else ""


def _known_fields(field: str) -> str:
    if field in COUNTERPARTS:
        return f"{COUNTERPARTS[field]}."
    near = meant(field, FIELDS)
    return f"{near}/reference has all fields." if near else f"Known fields: {', '.join(FIELDS)}."
