"""The fields of a job, checked: as they are submitted, and as this version or an earlier one has stored them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, PrivateAttr, ValidationError, model_validator

from streamsvm.service import obsolete_names
from streamsvm.service.errors import ServiceError, shown
from streamsvm.service.jobs.fields.descriptions import (
    FIELDS,
    KERNEL_TOLERANCE,
    MOST_LABEL,
    MOST_LABEL_NAME,
    GeneralFields,
    form_of,
)
from streamsvm.service.jobs.fields.features import named_maps
from streamsvm.service.jobs.fields.from_text import SEARCHES, grid
from streamsvm.service.jobs.fields.scoring import BEFORE, OF_CLASSES, OF_NUMBERS
from streamsvm.service.jobs.fields.texts import explained, place_of
from streamsvm.service.records.models import is_id
from streamsvm.storage.options import options_of
from streamsvm.trainer.problem.losses import KINDS, Loss
from streamsvm.trainer.solvers import OPTIONS, SOLVERS

# Fields whose default follows from others: a client that sends all defaults must not send these.
FOLLOWING = ("solver", "kernel", "bias", "scoring", "tolerance", "relative_gap")

_TOLERANCE = 1e-3  # the default, while jobs had no relative gap unless they were given one

_USUAL_FOLDS = 5
_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_OF_TRUTH = {name for name, option in (FIELDS | OPTIONS).items() if option.kind is bool}


def migrate(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the fields of a job that any version has stored into those of this version."""
    if "bias" not in stored:
        stored = {**stored, "bias": None}  # the default in versions before it was 1
    if "relative_gap" not in stored:
        stored = {"tolerance": _TOLERANCE, **stored, "relative_gap": None}
    if "select_by" in stored:
        stored = {**stored, "scoring": BEFORE.get(stored["select_by"], stored["select_by"])}
    if "eviction" in stored:
        stored = _of_the_first(stored)
    fields = {name: value for name, value in stored.items() if name not in obsolete_names.FIELDS}
    if "solver_options" in stored:
        return fields
    # Earlier versions had the options of all solvers among the fields.
    solver = SOLVERS.get(stored.get("solver", FIELDS["solver"].default))
    own = options_of(solver.options) if solver else ()
    return {**fields, "solver_options": {name: stored[name] for name in own if name in stored}}


def _of_the_first(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the fields of a job that version 0.1.0 has stored."""
    # `selection` meant something else then.
    fields = {name: value for name, value in stored.items() if name != "selection"}
    # With cutting planes the number of threads decides how sums over rows are rounded: it stays. Elsewhere 1 was the
    # default, and other numbers meant something that this version does not have.
    if stored.get("solver") not in ("cpa", "ocas"):
        fields["threads"] = None
    if stored["eviction"] != "paper":
        return fields
    own = {new: stored[old] for old, new in obsolete_names.PAPER_FIELDS.items() if old in stored}
    printed = {name: "pick" if value == "step" else value for name, value in own.items()}
    return {**fields, "solver": obsolete_names.PAPER, **printed}


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
        if isinstance(C := given.get("C"), str):
            given = {**given, "C": grid(C)}
        if isinstance(own := given.get("solver_options"), Mapping):
            given = {**given, "solver_options": _with_truths(own)}
        return {**end_of(given), **bias_of(given), **_with_truths(given)}

    _ladder: tuple[float, ...] = PrivateAttr(())

    @property
    def Cs(self) -> tuple[float, ...]:
        """The values of C in ascending order, without duplicates; where `searches_C`, those of `with_ladder`."""
        if self.searches_C:
            return self._ladder
        return tuple(sorted(set(self.C))) if isinstance(self.C, list) else (float(self.C),)

    @property
    def searches_C(self) -> bool:
        """Whether the job looks for the best C itself."""
        return self.C in SEARCHES

    def with_ladder(self, values: tuple[float, ...]) -> "JobSpec":
        """The same job with the values of C to try, ascending."""
        spec = self.model_copy()
        spec._ladder = values
        return spec

    @property
    def n_folds(self) -> int:
        """Number of folds of the cross-validation; 0: there is no cross-validation."""
        if self.validation is not None:
            return round(1.0 / self.validation)
        return self.folds or (_USUAL_FOLDS if self.probability or self.searches_C else 0)

    @property
    def held_out(self) -> range:
        """The folds that are held out, each by lanes of its own: all, or the first one for validation."""
        return range(self.n_folds) if self.validation is None else range(1)

    @property
    def takes_smallest(self) -> bool:
        """Whether the smallest C within one standard error of the best wins (Breiman et al. 1984)."""
        return self.C in SEARCHES[1:]

    @property
    def loss_kind(self) -> type[Loss]:
        """The class of the job's loss. Its attributes, such as `is_regression`: see trainer.problem.losses.Loss."""
        return KINDS[self.loss]

    @property
    def is_joint(self) -> bool:
        """Whether all classes are in one problem (Crammer and Singer)."""
        return self.multiclass == "crammer_singer"

    @property
    def options(self) -> Any:
        """The options of the job's solver, an instance of the solver's Options class."""
        own = SOLVERS[self.solver].options
        general = {each.name: getattr(self, each.name) for each in fields(own) if each.name in FIELDS}
        return own(**general, **self.solver_options)


KERNEL_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.has_kernel)
_JOINT_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.has_joint)


class FieldRule(NamedTuple):
    """A rule that the fields of a job have to keep.

    code       code of the ServiceError
    is_broken  function that returns whether a job breaks the rule
    message    may name fields, as {spec.solver}
    hint       may name fields, too; {losses} are those of the job's solver, {metrics} those of its loss
    """

    code: str
    is_broken: Callable[[JobSpec], bool]
    message: str
    hint: str


def check_rules(spec: JobSpec) -> None:
    """Raise a ServiceError for the first rule that the job breaks."""
    for code, is_broken, message, hint in RULES:
        if is_broken(spec):
            named = {"losses": ", ".join(SOLVERS[spec.solver].losses), "metrics": ", ".join(_metrics(spec))}
            raise ServiceError(code, message.format(spec=spec), hint.format(spec=spec, **named))


def _is_set(spec: JobSpec, name: str) -> bool:
    """Return whether a field differs from its default."""
    return bool(getattr(spec, name) != FIELDS[name].default)


def _is_set_without(spec: JobSpec, name: str, needed: str, values: tuple[str, ...]) -> bool:
    """Return whether a field differs from its default, and the field `needed` has none of `values`."""
    return getattr(spec, needed) not in values and _is_set(spec, name)


def _needing(needed: str, code: str) -> list[FieldRule]:
    """Return a rule for each field that only some values of the field `needed` allow."""
    return [
        FieldRule(
            code,
            partial(_is_set_without, name=name, needed=needed, values=field.needs[needed]),
            f'{needed} "{{spec.{needed}}}" has no {name}',
            f"It is for {needed} {', '.join(field.needs[needed])}.",
        )
        for name, field in FIELDS.items()
        if needed in field.needs
    ]


def _metrics(spec: JobSpec) -> dict[str, str]:
    return OF_NUMBERS if spec.loss_kind.is_regression else OF_CLASSES


def _has_folds(spec: JobSpec) -> bool:
    return spec.n_folds > 0


def _without_kernel(name: str, why: str, is_asked: Callable[[JobSpec], bool] | None = None) -> FieldRule:
    def is_broken(spec: JobSpec) -> bool:
        return spec.kernel == "rbf" and (is_asked(spec) if is_asked else _is_set(spec, name))

    return FieldRule("kernel_solver", is_broken, f'kernel "rbf" has no {name}: {why}', f"Leave {name} out.")


def _on_one_machine(name: str, is_asked: Callable[[JobSpec], Any]) -> FieldRule:
    def is_broken(spec: JobSpec) -> bool:
        return spec.machines is not None and bool(is_asked(spec))

    told = f"several machines have no {name}"
    return FieldRule("machines_range", is_broken, told, "Train on one: leave machines out, or change it.")


RULES = (
    FieldRule("kernel_solver", lambda spec: SOLVERS[spec.solver].has_kernel != (spec.kernel == "rbf"),
         'solver "{spec.solver}" has no kernel "{spec.kernel}"', f"Solvers with rbf: {', '.join(KERNEL_SOLVERS)}."),
    *_needing("kernel", "kernel_solver"),
    _without_kernel("features", "map rows before they are uploaded, or train fourier features with a linear solver"),
    _without_kernel("bias", "a constant feature changes no distance", lambda spec: spec.bias is not None),
    _without_kernel("relative_gap", "nothing bounds the optimum from below",
                    lambda spec: spec.relative_gap is not None),
    _without_kernel("warm_start", "support vectors cannot be scaled"),
    FieldRule("solver_loss", lambda spec: spec.loss not in SOLVERS[spec.solver].losses,
         'solver "{spec.solver}" has no loss "{spec.loss}"', "It has {losses}."),
    *_needing("loss", "solver_loss"),
    FieldRule("multiclass_range",
         lambda spec: spec.is_joint and (spec.solver not in _JOINT_SOLVERS or not spec.loss_kind.has_joint),
         'solver "{spec.solver}" with loss "{spec.loss}" has no multiclass "{spec.multiclass}"',
         f"Solver {' or '.join(_JOINT_SOLVERS)} has it, with hinge loss."),
    FieldRule("scoring_range", lambda spec: _has_folds(spec) and spec.scoring not in _metrics(spec),
         "{spec.loss} loss has no {spec.scoring}", "Choose one of {metrics}."),
    FieldRule("probability_range", lambda spec: spec.probability is not None and spec.loss_kind.is_regression,
         "{spec.loss} loss predicts numbers", "Leave probability out."),
    FieldRule("probability_range", lambda spec: spec.probability is not None and spec.loss_kind.has_probabilities,
         "logistic loss has probabilities by itself", "Leave probability out."),
    FieldRule("probability_range", lambda spec: spec.probability is not None and not spec.refit,
         "without refit there is no model to have probabilities", "Leave refit or probability out."),
    FieldRule("model_name_range", lambda spec: spec.model_name is not None and is_id(spec.model_name),
         "model_name begins like an id, with mdl_", "Choose another name."),
    FieldRule("model_name_range", lambda spec: spec.model_name is not None and not spec.refit,
         "without refit there is no model to have a name", "Leave refit or model_name out."),
    FieldRule("folds_range", lambda spec: spec.folds is not None and spec.validation is not None,
         "folds and validation exclude each other", "Give one of them."),
    FieldRule("folds_range", lambda spec: spec.takes_smallest and spec.validation is not None,
         "rows that are held out once have no standard error over folds", 'Give folds, or C "auto".'),
    FieldRule("warm_start", lambda spec: _has_folds(spec) and spec.warm_start is not None,
         "there is no warm start with folds", "Leave warm_start out."),
    FieldRule("scoring_range",
         lambda spec: _has_folds(spec) and spec.scoring == "neg_log_loss"
         and spec.probability is None and not spec.loss_kind.has_probabilities,
         "neg_log_loss needs probabilities", 'Ask for probability "sigmoid".'),
    FieldRule("machines_range", lambda spec: spec.machines is None and _is_set(spec, "combine"),
         "one machine has nothing to combine", "Leave combine out, or name machines."),
    _on_one_machine('solver "{spec.solver}"', lambda spec: spec.solver != "streamsvm"),
    _on_one_machine("multiclass crammer_singer", lambda spec: spec.is_joint),
    _on_one_machine('C "auto"', lambda spec: spec.searches_C),
    _on_one_machine("pace fixed", lambda spec: spec.pace == "fixed"),
    FieldRule("labels_range",
         lambda spec: any(len(name) > MOST_LABEL_NAME or len(text) > MOST_LABEL for name, text in spec.labels.items()),
         f"labels: a name has up to {MOST_LABEL_NAME} characters, a text up to {MOST_LABEL}",
         "Lists of jobs show them all: keep longer notes elsewhere, and their place here."),
    FieldRule("memory_bytes_range",
         lambda spec: spec.memory_bytes is not None and "cache_bytes" in spec.model_fields_set,
         "memory_bytes and cache_bytes exclude each other", "Give one of them."),
)  # fmt: skip


def parse_spec(given: Any) -> JobSpec:
    """Return the fields of a job as a checked JobSpec. Raises ServiceError for the first fault."""
    try:
        spec = JobSpec.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        # A field that is missing may be there under a mistyped name, which says more.
        first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        raise explained(first) from None
    spec = _with_options(_complete(spec))
    named_maps(spec.features)
    check_rules(spec)
    return spec


def read_spec(stored: Mapping[str, Any]) -> JobSpec:
    """Return the job in a record of any version. Raises ServiceError `job_outdated` if this version has no such job."""
    try:
        return _with_options(JobSpec.model_validate(migrate(stored)))
    except (ValidationError, ServiceError) as error:
        place = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ("solver_options",)
        field = f"its {place[0]}" if place else "its fields together"
        message = f"the job was submitted to another version, and this one cannot take {field}"
        raise ServiceError("job_outdated", message, "Submit it anew.") from None


def end_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of tolerance and relative_gap that follow from the given fields: a given tolerance has no
    relative gap beside it, and a kernel machine, which has no duality gap, has a tolerance."""
    if "tolerance" in given:
        return {"relative_gap": None}
    return {} if _is_linear(given) else {"tolerance": KERNEL_TOLERANCE, "relative_gap": None}


def bias_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"bias": None} where a constant feature has no effect (with a kernel) or a map `bias` makes it; or {}."""
    maps = given.get("features")
    names = [list(each) if isinstance(each, dict) else [each] for each in maps] if isinstance(maps, list) else []
    return {"bias": None} if ["bias"] in names or not _is_linear(given) else {}


def _with_truths(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace yes and no, and their like, by true and false in the fields that are true or false."""
    truths = {name: _TRUTHS.get(str(given[name]).lower()) for name in given if name in _OF_TRUTH}
    return {**given, **{name: truth for name, truth in truths.items() if truth is not None}}


def _is_linear(given: Mapping[str, Any]) -> bool:
    return given.get("kernel") != "rbf" and given.get("solver") not in KERNEL_SOLVERS


def _complete(spec: JobSpec) -> JobSpec:
    """Fill in fields that follow from others: the solver of a kernel, the kernel of a solver, a regression's metric."""
    given, followed = spec.model_fields_set, dict[str, Any]()
    if spec.loss_kind.is_regression and "scoring" not in given:
        followed["scoring"] = next(iter(OF_NUMBERS))
    if spec.kernel == "rbf" and "solver" not in given:
        followed["solver"] = KERNEL_SOLVERS[0]
    if SOLVERS[spec.solver].has_kernel and "kernel" not in given:
        followed["kernel"] = "rbf"
    return spec.model_copy(update=followed)


def _with_options(spec: JobSpec) -> JobSpec:
    """Fill in defaults of the solver's options. Raises ServiceError solver_option for the first unknown option."""
    own = options_of(SOLVERS[spec.solver].options)
    for name in spec.solver_options:
        if name not in own:
            message = f'solver "{spec.solver}" has no option {shown(name)}'
            raise ServiceError("solver_option", message, f"{place_of(name, own)}It has {', '.join(own) or 'none'}.")
    usual = {name: option.default for name, option in own.items()}
    return spec.model_copy(update={"solver_options": usual | spec.solver_options})
