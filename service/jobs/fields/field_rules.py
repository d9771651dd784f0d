"""Which fields of a job exclude each other: one table of rules, the first that is broken is told."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.descriptions import FIELDS, MOST_LABEL, MOST_LABEL_NAME
from streamsvm.service.jobs.fields.fold_metrics import OF_CLASSES, OF_NUMBERS
from streamsvm.service.records.models import is_id
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.solvers import SOLVERS

if TYPE_CHECKING:
    from streamsvm.service.jobs.fields.spec import JobSpec

KERNEL_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.has_kernel)
_JOINT_SOLVERS = tuple(name for name, solver in SOLVERS.items() if solver.has_joint)


class Rule(NamedTuple):
    """
    code       of the ServiceError
    is_broken  whether a job breaks the rule
    message    may name fields, as {spec.solver}
    hint       the same; {losses} are those of the job's solver, {metrics} those of its loss
    """

    code: str
    is_broken: "Callable[[JobSpec], bool]"
    message: str
    hint: str


def check_rules(spec: "JobSpec") -> None:
    """Raise a ServiceError for the first rule that the job breaks."""
    for code, is_broken, message, hint in RULES:
        if is_broken(spec):
            named = {"losses": ", ".join(SOLVERS[spec.solver].losses), "metrics": ", ".join(_metrics(spec))}
            raise ServiceError(code, message.format(spec=spec), hint.format(spec=spec, **named))


def _is_set(spec: "JobSpec", name: str) -> bool:
    """Whether a field differs from its default."""
    return bool(getattr(spec, name) != FIELDS[name].default)


def _is_set_without(spec: "JobSpec", name: str, needed: str, values: tuple[str, ...]) -> bool:
    """Whether a field differs from its default, and the field that it needs has another value than these."""
    return getattr(spec, needed) not in values and _is_set(spec, name)


def _needing(needed: str, code: str) -> list[Rule]:
    """A rule for each field that is for some values of another one."""
    return [
        Rule(
            code,
            partial(_is_set_without, name=name, needed=needed, values=field.needs[needed]),
            f'{needed} "{{spec.{needed}}}" has no {name}',
            f"It is for {needed} {', '.join(field.needs[needed])}.",
        )
        for name, field in FIELDS.items()
        if needed in field.needs
    ]


def _metrics(spec: "JobSpec") -> tuple[str, ...]:
    return OF_NUMBERS if spec.loss in REGRESSION else OF_CLASSES


def _has_folds(spec: "JobSpec") -> bool:
    return spec.folds is not None or spec.probability is not None


def _has_relative_gap(spec: "JobSpec") -> bool:
    return spec.relative_gap is not None


def _without_kernel(name: str, why: str, is_asked: "Callable[[JobSpec], bool] | None" = None) -> Rule:
    def is_broken(spec: "JobSpec") -> bool:
        return spec.kernel == "rbf" and (is_asked(spec) if is_asked else _is_set(spec, name))

    return Rule("kernel_solver", is_broken, f'kernel "rbf" has no {name}: {why}', f"Leave {name} out.")


def _on_one_machine(name: str, is_asked: "Callable[[JobSpec], Any]") -> Rule:
    def is_broken(spec: "JobSpec") -> bool:
        return spec.machines is not None and bool(is_asked(spec))

    told = f"several machines have no {name}"
    return Rule("machines_range", is_broken, told, "Train on one: leave machines out, or change it.")


RULES = (
    Rule("kernel_solver", lambda spec: SOLVERS[spec.solver].has_kernel != (spec.kernel == "rbf"),
         'solver "{spec.solver}" has no kernel "{spec.kernel}"', f"Solvers with rbf: {', '.join(KERNEL_SOLVERS)}."),
    *_needing("kernel", "kernel_solver"),
    _without_kernel("features", "map rows before they are uploaded, or train fourier features with a linear solver"),
    _without_kernel("bias", "a constant feature changes no distance", lambda spec: spec.bias is not None),
    _without_kernel("relative_gap", "nothing bounds the optimum from below", _has_relative_gap),
    _without_kernel("warm_start", "support vectors cannot be scaled"),
    Rule("solver_loss", lambda spec: spec.loss not in SOLVERS[spec.solver].losses,
         'solver "{spec.solver}" has no loss "{spec.loss}"', "It has {losses}."),
    *_needing("loss", "solver_loss"),
    Rule("multiclass_range",
         lambda spec: spec.is_joint and (spec.solver not in _JOINT_SOLVERS or spec.loss != "hinge"),
         'solver "{spec.solver}" with loss "{spec.loss}" has no multiclass "{spec.multiclass}"',
         f"Solver {' or '.join(_JOINT_SOLVERS)} has it, with hinge loss."),
    Rule("select_by_range", lambda spec: _has_folds(spec) and spec.select_by not in _metrics(spec),
         "{spec.loss} loss has no {spec.select_by}", "Choose one of {metrics}."),
    Rule("probability_range", lambda spec: spec.probability is not None and spec.loss in REGRESSION,
         "{spec.loss} loss predicts numbers", "Leave probability out."),
    Rule("probability_range", lambda spec: spec.probability is not None and spec.loss == "logistic",
         "logistic loss has probabilities by itself", "Leave probability out."),
    Rule("probability_range", lambda spec: spec.probability is not None and not spec.refit,
         "without refit there is no model to have probabilities", "Leave refit or probability out."),
    Rule("model_name_range", lambda spec: spec.model_name is not None and is_id(spec.model_name),
         "model_name begins like an id, with mdl_", "Choose another name."),
    Rule("model_name_range", lambda spec: spec.model_name is not None and not spec.refit,
         "without refit there is no model to have a name", "Leave refit or model_name out."),
    Rule("warm_start", lambda spec: _has_folds(spec) and spec.warm_start is not None,
         "there is no warm start with folds", "Leave warm_start out."),
    Rule("select_by_range",
         lambda spec: spec.folds is not None and spec.select_by == "log_loss"
         and spec.probability is None and spec.loss != "logistic",
         "log_loss needs probabilities", 'Ask for probability "sigmoid".'),
    Rule("machines_range", lambda spec: spec.machines is None and _is_set(spec, "combine"),
         "one machine has nothing to combine", "Leave combine out, or name machines."),
    _on_one_machine('solver "{spec.solver}"', lambda spec: spec.solver != "streamsvm"),
    _on_one_machine("multiclass crammer_singer", lambda spec: spec.is_joint),
    _on_one_machine("pace fixed", lambda spec: spec.pace == "fixed"),
    Rule("labels_range",
         lambda spec: any(len(name) > MOST_LABEL_NAME or len(text) > MOST_LABEL for name, text in spec.labels.items()),
         f"labels: a name has up to {MOST_LABEL_NAME} characters, a text up to {MOST_LABEL}",
         "Lists of jobs show them all: keep longer notes elsewhere, and their place here."),
    Rule("memory_bytes_range", lambda spec: spec.memory_bytes is not None and "cache_bytes" in spec.model_fields_set,
         "memory_bytes and cache_bytes exclude each other", "Give one of them."),
)  # fmt: skip
