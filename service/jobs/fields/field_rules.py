"""What of a job goes with what. Each check raises a ServiceError."""

from typing import TYPE_CHECKING

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.fold_metrics import OF_CLASSES, OF_NUMBERS
from streamsvm.trainer.problem.objective import REGRESSION
from streamsvm.trainer.problem.problem import LOSSES

if TYPE_CHECKING:
    from streamsvm.service.jobs.fields.spec import JobFields


def check_multiclass(spec: "JobFields", joint_solvers: tuple[str, ...]) -> None:
    """Of all classes as one problem."""
    if spec.is_joint and (spec.solver not in joint_solvers or spec.loss != "hinge"):
        known = " or ".join(joint_solvers)
        raise ServiceError(
            "multiclass_range",
            f'solver "{spec.solver}" with loss "{spec.loss}" has no multiclass "{spec.multiclass}"',
            f"It is of solver {known} with hinge loss.",
        )


def check_machines(spec: "JobFields") -> None:
    """What can be trained in rounds."""
    if spec.machines is None:
        if is_set(spec, "combine"):
            raise ServiceError("machines_range", "one machine has nothing to combine", "Leave combine out.")
        return
    reasons = {
        f'solver "{spec.solver}"': spec.solver != "streamsvm",
        f"{spec.loss} loss": spec.loss not in LOSSES,
        "multiclass crammer_singer": spec.is_joint,
        "class_weight with squared_hinge": spec.class_weight is not None and spec.loss != "hinge",
        "pace fixed": spec.pace == "fixed",
    }
    for name, is_asked in reasons.items():
        if is_asked:
            raise ServiceError(
                "machines_range", f"several machines have no {name}", "Train on one: leave machines out, or change it."
            )


def check_folds(spec: "JobFields") -> None:
    """What goes with what in a cross-validation."""
    if spec.folds is None and spec.probability is None:
        return
    known = OF_NUMBERS if spec.loss in REGRESSION else OF_CLASSES
    if spec.select_by not in known:
        raise ServiceError(
            "select_by_range", f"{spec.loss} loss has no {spec.select_by}", f"Choose one of {', '.join(known)}."
        )
    if spec.probability and spec.loss in REGRESSION:
        raise ServiceError("probability_range", f"{spec.loss} loss predicts numbers", "Leave probability out.")
    if spec.probability and spec.loss == "logistic":
        raise ServiceError("probability_range", "logistic loss has probabilities by itself", "Leave probability out.")
    if spec.probability and not spec.refit:
        raise ServiceError("probability_range", "without refit there is no model to have probabilities", "Leave refit.")
    if spec.warm_start is not None:
        raise ServiceError("warm_start", "there is no warm start with folds", "Leave warm_start out.")
    if spec.select_by == "log_loss" and not (spec.probability or spec.loss == "logistic"):
        raise ServiceError("select_by_range", "log_loss needs probabilities", 'Ask for probability "sigmoid".')


def is_set(spec: "JobFields", name: str) -> bool:
    """Whether a field is not as it is by default."""
    return bool(getattr(spec, name) != type(spec).model_fields[name].default)
