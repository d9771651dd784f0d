"""A job's fields, checked: as they are submitted, and as this version or one before it has stored them."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model, model_validator

from streamsvm.service import gone
from streamsvm.service.errors import ServiceError
from streamsvm.service.hints import meant, shown
from streamsvm.service.jobs.fields.counterparts import COUNTERPARTS
from streamsvm.service.jobs.fields.descriptions import FIELDS, KERNEL_TOLERANCE, GeneralFields, field_of
from streamsvm.service.jobs.fields.features import named_maps
from streamsvm.service.jobs.fields.field_rules import KERNEL_SOLVERS, check_rules
from streamsvm.service.jobs.fields.fold_metrics import OF_NUMBERS
from streamsvm.service.jobs.fields.texts import values
from streamsvm.storage.options import plain
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.solvers import SOLVERS

# Fields whose default follows from others: a client that sends all defaults must not send these.
FOLLOWING = ("solver", "kernel", "bias", "select_by", "tolerance", "relative_gap")

_TOLERANCE = 1e-3  # the default, while jobs had no relative gap unless they were given one

_PLAIN = re.compile(r"-?\d{1,15}(\.\d{1,15})?(e-?\d{1,3})?", re.ASCII)
_OF_A_CHOICE = 2  # parts of the place of a fault: a field, and which of its types was tried

_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_OF_TRUTH = {name for name, option in FIELDS.items() if option.kind is bool}

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
    fields = {name: value for name, value in stored.items() if name not in gone.FIELDS}
    if "eviction" not in stored:
        return fields
    fields.pop("selection", None)  # it is an option of another solver now, with another meaning
    # With cutting planes the number of threads decides how sums over rows are rounded: it stays. Elsewhere 1 was the
    # default, and other numbers meant something that this version does not have.
    if stored.get("solver") not in ("cpa", "ocas"):
        fields["threads"] = None
    if stored["eviction"] == "paper":
        fields |= {"solver": gone.PAPER, **_as_printed(stored)}
        # `screening` had no effect on this solver, and this version refuses it there.
        fields.pop("screening", None)
    return fields


def _as_printed(stored: Mapping[str, Any]) -> dict[str, Any]:
    own = {new: stored[old] for old, new in gone.PAPER_FIELDS.items() if old in stored}
    return {name: "pick" if value == "step" else value for name, value in own.items()}


if TYPE_CHECKING:

    class _Fields(GeneralFields, BaseModel): ...

else:
    _Fields = create_model(
        "_Fields",
        __config__=ConfigDict(extra="forbid", frozen=True, strict=True),
        **{name: field_of(option) for name, option in FIELDS.items()},
    )


class JobSpec(_Fields):
    """A job as submitted. Every field but `dataset` has a default; unknown fields are refused."""

    @model_validator(mode="before")
    @classmethod
    def _with_its_end(cls, given: Any) -> Any:
        return {**end_of(given), **bias_of(given), **_with_truths(given)} if isinstance(given, Mapping) else given

    @property
    def is_joint(self) -> bool:
        """Whether all classes are in one problem, that of Crammer and Singer."""
        return self.multiclass == "crammer_singer"

    @property
    def options(self) -> Any:
        """The options of the job's solver, an instance of the solver's own Options."""
        own = SOLVERS[self.solver].options
        return own(**{option.name: getattr(self, option.name) for option in fields(own)})


def parse_spec(given: Any) -> JobSpec:
    """A checked JobSpec; raises ServiceError for the first thing wrong with it."""
    try:
        spec = JobSpec.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        # A field that is missing may be there under a mistyped name, which says more.
        first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        raise _explain(first) from None
    spec = _complete(spec)
    named_maps(spec.features)
    check_rules(spec)
    return spec


def read_spec(stored: Mapping[str, Any]) -> JobSpec:
    """The job in a record of any version. Raises ServiceError `job_outdated` if this version has no such job."""
    try:
        return JobSpec.model_validate(migrate(stored))
    except ValidationError as error:
        place = error.errors()[0]["loc"]
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


def _explain(fault: Any) -> ServiceError:
    path = [str(part) for part in fault["loc"]]
    # The first part alone: names inside a field are the user's own.
    field = path[0] if path else "the body"
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
    known = FIELDS.get(field)
    return f"{field} may be {plain(values(known), 'null')}: {plain(known.meaning, 'null')}." if known else ""


def _known_fields(field: str) -> str:
    if field in COUNTERPARTS:
        return f"{COUNTERPARTS[field]}."
    near = meant(field, FIELDS)
    return f"{near}/reference has all fields." if near else f"Known fields: {', '.join(FIELDS)}."
