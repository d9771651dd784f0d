"""All fields of a job, each described once; options of solvers are described beside each solver."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, create_model
from typing_extensions import TypedDict

from streamsvm.service.jobs.fields import from_text
from streamsvm.service.jobs.fields.from_text import parse_size
from streamsvm.service.jobs.fields.scoring import FIGURE_OF
from streamsvm.service.records.models import MODEL_NAME
from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.options import Option, option, options_of
from streamsvm.trainer.problem.losses import LOSSES, REGRESSION
from streamsvm.trainer.solvers import OPTIONS, SOLVERS, users

# A field may be of two types. The value's own type says by which of them it is checked, and what an error is about.
_ONE_SEVERAL_OR_WORD = Discriminator(
    lambda given: "several" if isinstance(given, list) else "word" if given in from_text.SEARCHES else "one"
)
_WORD_OR_NOT = Discriminator(lambda given: "word" if isinstance(given, str) else "number")
# Clients that are generated from the document do not understand a constant beside numbers: it is a text there.
_AUTO = Annotated[Literal["auto", "auto-1se"], WithJsonSchema({"type": "string", "pattern": "^auto(-1se)?$"})]
_SCALE = Annotated[Literal["scale"], WithJsonSchema({"type": "string", "pattern": "^scale$"})]
_ALL = Annotated[Literal["all"], WithJsonSchema({"type": "string", "pattern": "^all$"})]
_BALANCED = Annotated[Literal["balanced"], WithJsonSchema({"type": "string", "pattern": "^balanced$"})]
_Weight = Annotated[float, Field(allow_inf_nan=False, gt=0, le=1e12)]
_Several = Annotated[list[_Weight], Field(min_length=1)]
_Weights = Annotated[
    Annotated[_Weight, Tag("one")] | Annotated[_Several, Tag("several")] | Annotated[_AUTO, Tag("word")],
    _ONE_SEVERAL_OR_WORD,
]
_WORD_OR_OBJECT = Discriminator(lambda given: "word" if isinstance(given, str) else "object")
_Factors = Annotated[dict[str, _Weight], Field(max_length=1000)]
_ClassWeight = Annotated[Annotated[_Factors, Tag("object")] | Annotated[_BALANCED, Tag("word")], _WORD_OR_OBJECT]
_Gamma = Annotated[Annotated[_Weight, Tag("number")] | Annotated[_SCALE, Tag("word")], _WORD_OR_NOT]
_Count = Annotated[int, Field(ge=1, le=64)]
_Machines = Annotated[Annotated[_Count, Tag("number")] | Annotated[_ALL, Tag("word")], _WORD_OR_NOT]
_Maps = list[str | dict[str, dict[str, Any]]]


def type_of(option: Option) -> Any:
    """Return the type of an option as pydantic checks it, with its limits."""
    kind: Any = Literal[option.choices] if option.choices else option.kind
    finite = {"allow_inf_nan": False} if option.kind is float else {}
    limited = Annotated[kind, Field(**option.limits, **finite)]
    return limited | None if option.is_nullable else limited


def form_of(name: str, options: Mapping[str, Option]) -> type[BaseModel]:
    """Return a pydantic model with a field for each option; it refuses other fields."""
    fields: dict[str, Any] = {
        each.name: (
            type_of(each),
            Field(... if each.default is MISSING else each.default, description=each.meaning),
        )
        for each in options.values()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid", frozen=True, strict=True), **fields)


if TYPE_CHECKING:
    SolverOptions = dict[str, Any]
else:
    # Which solver has which option, and that it has no others, is checked in spec.py.
    SolverOptions = TypedDict(
        "SolverOptions",
        {
            name: Annotated[type_of(each), Field(description=f"of solver {', '.join(users(name))}: {each.meaning}")]
            for name, each in OPTIONS.items()
        },
        total=False,
    )
    SolverOptions.__doc__ = "Options of single solvers; those of the job's solver may be given."
    SolverOptions.__pydantic_config__ = ConfigDict(extra="allow", strict=True)

MOST_LABEL_NAME, MOST_LABEL = 100, 256  # characters
KERNEL_TOLERANCE = 1e-3  # the default where nothing bounds the optimum, so that no gap is known
_FIRST, _CHOOSING = "first", "choosing"  # parts of the form
_FOLDS: dict[str, tuple[str, ...]] = {"folds": (), "validation": ()}  # one of the two


@dataclass  # not frozen, for type checkers: `JobSpec`, made of it, is a class of pydantic's and frozen by itself
class GeneralFields:
    """Fields of a job with their descriptions, as class attributes; there is no instance."""

    dataset: str = option(MISSING, "name of the dataset to train on", flags=None, part=None)
    solver: Literal[tuple(SOLVERS)] = option("streamsvm", "the algorithm that trains")  # type: ignore[valid-type]
    solver_options: SolverOptions = option(
        {}, "options of this job's `solver`; each solver has its own", flags=("--solver-option",),
        read=from_text.option_and_value, word="NAME=VALUE", part=None,
        values='object, option -> value: `{"updates_per_row": 4.0}`',
    )  # fmt: skip
    loss: Literal[LOSSES] = option(  # type: ignore[valid-type]
        "hinge", "what an error of the model costs; the last two are for regression", part=_FIRST
    )
    kernel: Literal["linear", "rbf"] = option(
        "linear",
        '`"rbf"` trains a kernel machine, k(x, z) = exp(-gamma |x - z|^2), by solver `bsca` unless another is named',
        part=_FIRST,
    )  # fmt: skip
    gamma: _Gamma = option(
        "scale", 'gamma of the kernel; `"scale"`: 1 / (features x variance of all values), as in scikit-learn',
        needs={"kernel": ("rbf",)}, flags=("-g", "--gamma"), read=from_text.number_or_scale, part=_FIRST,
        values='number above 0, up to 1e12, or `"scale"`',
    )  # fmt: skip
    budget: int = option(500, "support vectors at most", needs={"kernel": ("rbf",)}, ge=2, le=100_000)
    epsilon: float = option(
        0.1, "residuals up to this size cost nothing", needs={"loss": REGRESSION}, flags=("-p", "--epsilon"), ge=0
    )
    C: _Weights = option(
        1.0, "weight of the losses in the objective 1/2 |w|^2 + C sum loss; several values train a model each; "
        '`"auto"`: rows held out say which is best, of growing values until `scoring` falls, or rises no more; '
        '`"auto-1se"`: of these the smallest within one standard error of the best, over folds',
        flags=("-C", "-c"), read=from_text.numbers, word="NUMBER,...", part=_FIRST,
        values='number above 0, up to 1e12, a list of them: `[0.1, 1, 10]`, or `"1e-3:10:9"`, `"auto"`, `"auto-1se"`',
    )  # fmt: skip
    multiclass: Literal["one_vs_rest", "crammer_singer"] = option(
        "one_vs_rest",
        'with more than two labels: `"one_vs_rest"` trains a problem for each label; `"crammer_singer"` one of all '
        "labels, LIBLINEAR's `-s 4`",
        part=_CHOOSING, label="More than two labels",
    )  # fmt: skip
    folds: int | None = option(
        None,
        "number of folds of a cross-validation; null: no cross-validation",
        part=_CHOOSING, ge=2, le=100,
    )  # fmt: skip
    validation: float | None = option(
        None,
        "share of the rows, rounded to 1/k, that is held out to judge models and to choose `C`; null: no rows are held "
        "out", part=_FIRST, label="Share held out to judge", ge=0.01, le=0.5,
    )  # fmt: skip
    refit: bool = option(
        True, "whether a model is trained on all rows as well", needs=_FOLDS, part=_CHOOSING, label="Train on all rows"
    )
    scoring: Literal[tuple(FIGURE_OF)] = option(  # type: ignore[valid-type]
        "accuracy",
        "the `C` that wins is best by this score, in scikit-learn's words, on rows held out, by its mean over folds; "
        "`roc_auc` and `average_precision` are for two classes, `neg_log_loss` for probabilities, the last three for "
        "regression, where `neg_mean_squared_error` is the default",
        needs=_FOLDS, part=_CHOOSING, label="C that wins has the best",
    )  # fmt: skip
    keep: Literal["selected", "all"] = option(
        "selected", "which models of all rows are published: that of the `C` that wins, or that of each `C`",
        needs=_FOLDS, part=_CHOOSING, label="Models kept",
    )  # fmt: skip
    probability: Literal["sigmoid"] | None = option(
        None,
        '`"sigmoid"` fits probabilities by Platt\'s method, on rows held out, in 5 folds unless `folds` says otherwise'
        "; null: no probabilities", part=_CHOOSING, label="Probabilities",
    )  # fmt: skip
    features: _Maps = option(
        [], f"feature maps that rows go through before training, in the order given, of {', '.join(FEATURE_MAPS)}",
        read=from_text.names_or_json, word="MAP,...",
        label="Feature maps",
        values='list of up to 8 names, or objects of a name and its options: `["scale", {"pairs": {"bits": 18}}]`',
        max_length=8,
    )  # fmt: skip
    bias: float | None = option(
        1.0, "value of a constant feature, whose weight is regularised like all others (LIBLINEAR's `-B`); "
        "null: no constant feature, as with a kernel or a `bias` among `features`", ge=-1e9, le=1e9,
    )  # fmt: skip
    class_weight: _ClassWeight | None = option(
        None, "factors of `C` for the rows of labels; `\"balanced\"`: rows / (labels * rows of the label); "
        "null: 1 for every label", read=from_text.label_and_number, word="LABEL=NUMBER", part=None,
        values='object, label -> number above 0, up to 1e12: `{"1": 10}`; or `"balanced"`, or null',
    )  # fmt: skip
    tolerance: float | None = option(
        None,
        "training stops when M+ - M-, the largest minus the smallest projected gradient, is at most this (`cpa` and "
        f"`ocas`: their bounds, relative to P(0); with a kernel, default {KERNEL_TOLERANCE:g}: the change of the "
        "logarithm of the gradients' spread); null: never",
        flags=("-e", "--tolerance"), label="Tolerance of M\u207a - M\u207b", gt=0,
    )  # fmt: skip
    relative_gap: float | None = option(
        1e-4,
        "training stops when the relative duality gap (P - D) / P is certified to be at most this; null, if only "
        "`tolerance` is given; if both are numbers, both have to hold; null: never",
        gt=0,
    )  # fmt: skip
    max_passes: int = option(
        100, "training stops after this many passes over the data", label="Most passes", ge=1, le=1_000_000
    )
    max_seconds: float | None = option(
        None, "training stops after this many seconds, those of all models of a job together; null: no limit",
        label="Most seconds", gt=0,
    )  # fmt: skip
    priority: int = option(
        0, "queued jobs of the highest priority begin first, the oldest of them first of all",
        part=None, ge=-1000, le=1000,
    )  # fmt: skip
    seed: int = option(0, "seed of everything random", ge=0, lt=1 << 63)
    cache_bytes: int = option(
        256 << 20, "most bytes of the cache file; on several machines, of the cache file of each",
        flags=("--cache",), read=parse_size, word="SIZE", label="Cache, MiB", ge=1, le=1 << 44,
    )  # fmt: skip
    memory_bytes: int | None = option(
        None,
        "most bytes of all that a job holds in memory, in place of `cache_bytes`: the cache gets what the rest leaves; "
        "null: `cache_bytes` is the limit", flags=("--memory",), read=parse_size, word="SIZE",
        part=None, ge=1, le=1 << 44,
    )  # fmt: skip
    pace: Literal["adaptive", "fixed"] = option(
        "adaptive", '`"fixed"` makes the same model to the byte at every run, on every machine, and takes longer'
    )
    threads: int | None = option(
        None,
        "threads that work at once in reader and trainer; null: all cores. With `pace` fixed the trainer has one, but "
        "for a kernel machine with `cache_bytes`", ge=1, le=1024,
    )  # fmt: skip
    machines: _Machines | None = option(
        None, 'number of machines of a Ray cluster that train, or `"all"`; null: this machine trains alone',
        read=from_text.number_or_all, part=None, values='whole number, 1 to 64, or `"all"`, or null',
    )  # fmt: skip
    combine: Literal["line_search", "average"] = option(
        "line_search",
        '`"line_search"` takes the best common step after each round, to the optimum; `"average"` once the mean of '
        "what each machine finds alone: quick, and on text far from the optimum",
        needs={"machines": ()}, part=None,
    )  # fmt: skip
    checkpoint_seconds: float = option(
        60.0, "seconds of training that a crash may cost: a checkpoint is made after so many, and at the end of a pass "
        "(`cpa` and `ocas`: only then)", part=None, gt=0, le=86400,
    )  # fmt: skip
    warm_start: str | None = option(
        None,
        "id of a job that has ended, on the same dataset: training begins with its solution; null: training "
        "begins at zero", word="JOB", part=None,
        values="id of a job, or null", pattern="^job_[0-9A-Z]{26}$",
    )  # fmt: skip
    model_name: str | None = option(
        None, "the model of the job becomes the next version of this name; null: the model has an id alone",
        word="NAME", label="Name of the model", values="name of a model, or null",
        pattern=MODEL_NAME,
    )  # fmt: skip
    labels: dict[str, str] = option(
        {},
        f"notes of your own, name -> text; a name has up to {MOST_LABEL_NAME} characters, a text up to {MOST_LABEL}",
        flags=None, part=None, values="object of up to 64 texts", max_length=64,
    )  # fmt: skip


FIELDS = options_of(GeneralFields)
