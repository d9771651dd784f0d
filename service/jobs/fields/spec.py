"""What a job may ask for: the fields of every job, and the options of the solvers."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, create_model

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import MOST_MAPS, named_maps
from streamsvm.service.jobs.fields.field_rules import check_folds, check_machines, check_multiclass, is_set
from streamsvm.service.jobs.fields.fold_metrics import OF_CLASSES, OF_NUMBERS
from streamsvm.service.jobs.fields.option_fields import field_of
from streamsvm.service.jobs.fields.spec_migrations import GONE
from streamsvm.storage.options import options_of
from streamsvm.trainer.problem.objective import OBJECTIVES, REGRESSION
from streamsvm.trainer.solvers import OPTIONS, SOLVERS, users

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Finite, Field(gt=0)]
Weight = Annotated[Positive, Field(le=1e12)]
# One, or several; which of the two is told by what is given, so that errors are of that one.
Weights = Annotated[
    Annotated[Weight, Tag("one")] | Annotated[list[Weight], Field(min_length=1), Tag("several")],
    Discriminator(lambda given: "several" if isinstance(given, list) else "one"),
]


Gamma = Annotated[
    Annotated[Weight, Tag("number")] | Annotated[Literal["scale"], Tag("text")],
    Discriminator(lambda given: "text" if isinstance(given, str) else "number"),
]

# How many, or all there are.
Machines = Annotated[
    Annotated[int, Field(ge=1, le=64), Tag("number")] | Annotated[Literal["all"], Tag("text")],
    Discriminator(lambda given: "text" if isinstance(given, str) else "number"),
]

MOST_LABEL_NAME, MOST_LABEL = 100, 256  # characters
JOINT_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.has_joint)
KERNEL_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.has_kernel)


class JobFields(BaseModel):
    """A job as submitted. Every field but `dataset` has a default; unknown fields are refused.

    kernel            "rbf" trains a kernel machine, k(x, z) = exp(-gamma |x - z|^2), on a budget of support vectors
    gamma             of the kernel; "scale": 1 / (features x variance of all values), as in scikit-learn
    epsilon           of the losses of regression: residuals up to it cost nothing
    C                 weight of the losses, in the sum form 1/2 |w|^2 + C sum loss; several: a model for each, in
                      ascending order, each begun where the last one ended
    multiclass        with more than two labels: "one_vs_rest", a problem for each label against the rest, or
                      "crammer_singer", one problem of all of them
    folds             cross-validation: a model for each fold, trained on the rows of the others; null: none
    refit             with folds: train on all rows, too
    select_by         with folds: which C wins, by the mean over them; by "mse" in regression if nothing is said
    keep              with folds: models of the C that wins alone, or of all
    probability       "sigmoid" makes probabilities of decision values, fitted on rows held out, in 5 folds if none are
                      asked for
    features          maps that make of stored rows those that are trained on, in order: names, or objects of a name and
                      its options; models carry them
    bias              value of a constant feature, regularised as in LIBLINEAR; null: none
    class_weight      label -> factor of C
    tolerance         stop at M+ - M- <= tolerance; of cpa and ocas: at bounds so near, relative to P(0); null: never
    relative_gap      stop at a certified (P - D) / P <= relative_gap; null: never
    cache_bytes       bound on the cache file
    memory_bytes      bound on all a job holds: the cache gets what the rest leaves; null: cache_bytes counts
    threads           that work at once in reader and trainer; null: as many as there are cores to use
    pace              "fixed" makes the same model to the byte at every run: threads share no work that would change it
    machines          of a Ray cluster to train on, or "all" of them; null: this one alone. cache_bytes is of each
    combine           with machines: "line_search" takes the best common step after each round, to the optimum;
                      "average" is the mean of what each finds alone, once
    checkpoint_seconds  what a crash may cost: a checkpoint is made after so long, or at the end of a pass
    warm_start        a job that has ended, on the same dataset: begin with what it found; rows may have come and gone
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dataset: str
    solver: Literal[tuple(SOLVERS)] = "streamsvm"  # type: ignore[valid-type]
    loss: Literal[tuple(OBJECTIVES)] = "hinge"  # type: ignore[valid-type]
    kernel: Literal["linear", "rbf"] = "linear"
    gamma: Gamma = "scale"
    epsilon: Annotated[Finite, Field(ge=0)] = 0.1
    C: Weights = 1.0
    multiclass: Literal["one_vs_rest", "crammer_singer"] = "one_vs_rest"
    folds: Annotated[int, Field(ge=2, le=100)] | None = None
    refit: bool = True
    select_by: Literal[OF_CLASSES + OF_NUMBERS] = "accuracy"  # type: ignore[valid-type]
    keep: Literal["selected", "all"] = "selected"
    probability: Literal["sigmoid"] | None = None
    features: Annotated[list[str | dict[str, dict[str, Any]]], Field(max_length=MOST_MAPS)] = []
    bias: Annotated[Finite, Field(ge=-1e9, le=1e9)] | None = None
    class_weight: Annotated[dict[str, Weight], Field(max_length=1000)] | None = None
    tolerance: Positive | None = 1e-3
    relative_gap: Positive | None = None
    max_passes: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    max_seconds: Positive | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    cache_bytes: Annotated[int, Field(ge=1, le=1 << 44)] = 256 << 20
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 44)] | None = None
    pace: Literal["adaptive", "fixed"] = "adaptive"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    machines: Machines | None = None
    combine: Literal["line_search", "average"] = "line_search"
    checkpoint_seconds: Annotated[Finite, Field(gt=0, le=86400)] = 60.0
    warm_start: Annotated[str, Field(pattern="^job_[0-9A-Z]{26}$")] | None = None
    labels: Annotated[dict[str, str], Field(max_length=64)] = {}

    @property
    def is_joint(self) -> bool:
        """All classes are one problem."""
        return self.multiclass == "crammer_singer"

    @property
    def options(self) -> Any:
        """What the job says of its solver's options: the solver's own Options."""
        own = SOLVERS[self.solver].options
        return own(**{option.name: getattr(self, option.name) for option in fields(own)})


if TYPE_CHECKING:
    JobSpec = JobFields
else:
    own_fields = {name: field_of(option) for name, option in OPTIONS.items()}
    JobSpec = create_model("JobSpec", __base__=JobFields, __doc__=JobFields.__doc__, **own_fields)


def parse_spec(fields: Any) -> JobSpec:
    """A checked JobSpec; raises ServiceError for the first thing wrong with it."""
    try:
        spec = JobSpec.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise _explain(first) from None
    if spec.loss in REGRESSION and "select_by" not in spec.model_fields_set:
        spec = spec.model_copy(update={"select_by": OF_NUMBERS[0]})
    spec = _with_kernel(spec)
    named_maps(spec.features)
    _check_together(spec)
    _check_labels(spec.labels)
    if spec.memory_bytes is not None and "cache_bytes" in spec.model_fields_set:
        raise ServiceError("memory_bytes_range", "memory_bytes and cache_bytes exclude each other", "Give one of them.")
    return spec


def _check_labels(labels: Mapping[str, str]) -> None:
    """Lists of jobs show them all."""
    if any(len(name) > MOST_LABEL_NAME or len(text) > MOST_LABEL for name, text in labels.items()):
        longest = f"a name has up to {MOST_LABEL_NAME} characters, a text up to {MOST_LABEL}"
        raise ServiceError("labels_range", f"labels: {longest}", "Keep longer notes elsewhere, and their place here.")


def _check_together(spec: JobSpec) -> None:
    """Every solver has options of its own."""
    solver = SOLVERS[spec.solver]
    if spec.loss not in solver.losses:
        known = ", ".join(solver.losses)
        raise ServiceError("solver_loss", f'solver "{spec.solver}" has no loss "{spec.loss}"', f"It has {known}.")
    if spec.loss not in REGRESSION and is_set(spec, "epsilon"):
        losses = " and ".join(REGRESSION)
        raise ServiceError("solver_loss", f'loss "{spec.loss}" has no epsilon', f"Losses with one are {losses}.")
    check_multiclass(spec, JOINT_SOLVERS)
    check_folds(spec)
    check_machines(spec)
    for name in sorted(OPTIONS.keys() - options_of(solver.options)):
        if is_set(spec, name):
            known = ", ".join(users(name))
            raise ServiceError("solver_option", f'solver "{spec.solver}" has no {name}', f"It is an option of {known}.")


def _with_kernel(spec: JobSpec) -> JobSpec:
    """Of solver and kernel one tells the other; raises ServiceError if they do not go together."""
    if spec.kernel == "rbf" and "solver" not in spec.model_fields_set:
        spec = spec.model_copy(update={"solver": KERNEL_SOLVERS[0]})
    if SOLVERS[spec.solver].has_kernel and "kernel" not in spec.model_fields_set:
        spec = spec.model_copy(update={"kernel": "rbf"})
    if SOLVERS[spec.solver].has_kernel != (spec.kernel == "rbf"):
        known = " and ".join(KERNEL_SOLVERS)
        raise ServiceError(
            "kernel_solver", f'solver "{spec.solver}" has no kernel "{spec.kernel}"', f"Solvers with rbf are {known}."
        )
    if spec.kernel != "rbf" and is_set(spec, "gamma"):
        raise ServiceError("kernel_solver", f'kernel "{spec.kernel}" has no gamma', 'It is of kernel "rbf".')
    if spec.kernel == "rbf":
        for name, why in _NOT_OF_KERNELS.items():
            if is_set(spec, name):
                raise ServiceError("kernel_solver", f'kernel "rbf" has no {name}: {why}', f"Leave {name} out.")
    return spec


_NOT_OF_KERNELS = {
    "features": "map rows before they are uploaded, or train fourier features with a linear solver",
    "bias": "a constant feature changes no distance",
    "relative_gap": "nothing bounds the optimum from below",
    "warm_start": "support vectors cannot be scaled",
}


_RANGE_HINTS = {
    "C": "Give a number above 0 and up to 1e12, or a list of at least one of them.",
    "budget": "Give 2 to 100,000 support vectors: two are merged when there is one too many.",
    "gamma": 'Give a number above 0, or "scale".',
}


def _explain(fault: Any) -> ServiceError:
    path = [str(part) for part in fault["loc"]]
    # Not what is inside: there may be names a user chose.
    field = path[0] if path else "the body"
    kind = fault["type"]
    if kind == "extra_forbidden":
        return ServiceError("unknown_field", "there is no such field in a job", GONE.get(field) or _known_fields(field))
    if kind == "missing":
        return ServiceError("missing_field", f"{field} is missing")
    if kind == "finite_number":
        return ServiceError("not_finite", f"{field} is not a finite number")
    if kind.startswith(("greater_than", "less_than", "too_long", "too_short", "literal_error")):
        return ServiceError(f"{path[0]}_range", f"{field}: {fault['msg']}", _RANGE_HINTS.get(field, ""))
    return ServiceError("wrong_type", f"{field}: {fault['msg']}")


def _known_fields(field: str) -> str:
    meant = "".join(f"Did you mean {name}? " for name in get_close_matches(field, JobSpec.model_fields, 1))
    return f"{meant}Known fields: {', '.join(JobSpec.model_fields)}."
