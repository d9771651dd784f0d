"""The problems of a job, all over the same rows: a lane for each class, fold and value of C.

The values of C run side by side or in turn. Side by side, one pass over the data serves all lanes, and each lane begins
at zero. In turn, each value of C begins at the solution of the next smaller one. From zero a large C takes thousands of
sweeps over the rows, unless Newton steps end them; from the solution at a smaller C, a fraction of them. With few rows,
sweeps take most of the time; but each turn starts its own processes and makes a pass and a certificate.

A search for C has turns of several values, powers of 4: first all small ones, whose lanes need few sweeps from zero,
then two at a time, which show whether the metric rises; last the powers of 2 beside the best one. Its lanes leave folds
out; those over all rows come when it has ended.
"""

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import mean_Qii
from streamsvm.service.jobs.fields.scoring import OF_TWO_CLASSES
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.rows.segment import TARGET
from streamsvm.trainer.solvers import SOLVERS

MOST_LANES = 1000
_VALUES_SHOWN = 10
_NO_CLASSES = (
    "If the last column of a table has the labels, read it in with label_column=-1. "
    "If labels are numbers to be predicted, choose a loss of regression."
)
# Measured, see section "C in turn" of tests/bench/HISTORY.md.
_FEW_BYTES = 64 << 20  # of decoded rows
# With C "auto": number of values of C of a turn after the first; values are this power of 2 apart, from one power below
# 1 / mean of |x|^2 to one above, and in any case to LIBLINEAR's largest, 2^10: where one column is much larger than the
# others, the mean says nothing of these. Below, down to n_rows, there are powers of 8.
_IN_TURN, _STEP, _BELOW, _ABOVE, _LARGEST, _STEP_BELOW = 2, 2, 6, 16, 10, 3
_LARGE = 200.0  # C times the mean squared norm of the rows: scaling the features does not change it


@dataclass(frozen=True)
class Lane:
    """One problem of a job.

    positive                the stored label whose rows have y = +1, all other rows have y = -1; None in regression,
                            where y is the label, and where one problem has all classes (Crammer and Singer)
    label                   the label `positive` as the input has it
    fold                    the cross-validation fold that training leaves out; None: training is on all rows
    C                       weight of the losses: one of the job's values of C
    C_positive, C_negative  C times the class weight of rows with y = +1 and y = -1; where one problem has all classes,
                            both are C times the largest class weight
    """

    positive: float | None
    label: float | str | None
    fold: int | None
    C: float
    C_positive: float
    C_negative: float

    @property
    def view(self) -> dict[str, Any]:
        """The lane as a dict, as job results and pages show it."""
        return {"class": self.label, "fold": self.fold, "C": self.C}


def labels_of(spec: JobSpec, manifest: Manifest) -> tuple[float, ...]:
    """Return the labels of the model: of two, the larger (positive) one first; more, ascending; none in regression.

    Raises ServiceError: single_class, too_many_classes, unknown_label, label_not_numeric, label_too_large.
    """
    if spec.loss_kind.is_regression:
        _check_targets(spec, manifest)
        return ()
    values = sorted(manifest.labels)
    if len(values) == 1:
        raise ServiceError(
            "single_class",
            f"all rows have the label {manifest.label_text(values[0])}",
            "Training needs two classes: check that what was read as the label is the label.",
        )
    if not values:
        raise ServiceError("too_many_classes", "the dataset has too many labels for classes", _NO_CLASSES)
    if len(values) > 2 and 2 * len(values) > manifest.n_rows:
        raise ServiceError(
            "too_many_classes",
            f"{len(values)} labels in {manifest.n_rows} rows: nearly every row has its own",
            _NO_CLASSES,
        )
    if spec.is_joint and len(values) > MOST_LANES:
        raise ServiceError(
            "too_many_classes", f"{len(values)} labels in one problem", f"There may be {MOST_LANES}; or one_vs_rest."
        )
    return (values[1], values[0]) if len(values) == 2 else tuple(values)


def _check_targets(spec: JobSpec, manifest: Manifest) -> None:
    """Raise ServiceError unless labels are numbers within float32, as regression needs, and have no class weights."""
    if spec.class_weight:
        raise ServiceError("unknown_label", "regression has no classes to weigh", "Leave class_weight out.")
    if manifest.label_names:
        raise ServiceError(
            "label_not_numeric", f"labels are strings, {spec.loss} loss needs numbers", "Choose a loss of two classes."
        )
    largest = max(map(abs, manifest.label_range))
    if largest > np.finfo(TARGET).max:
        raise ServiceError("label_too_large", f"a label of {largest:g} is beyond float32", "Scale the labels.")


def shown(label: float, manifest: Manifest) -> float | str:
    """Return a label as the input has it: its name if labels are strings, else the number."""
    return manifest.label_text(label) if manifest.label_names else label


def lanes_of(spec: JobSpec, labels: tuple[float, ...], manifest: Manifest) -> tuple[Lane, ...]:
    """The lanes in the order in which they run: class by class, fold by fold, from the smallest C to the largest.

    Where values of C run in turn, all classes and folds of one C come before the next C.

    Raises ServiceError: unknown_label, lanes_range, scoring_range, empty_fold, fold_without_class.
    """
    classes: tuple[float | None, ...] = labels if len(labels) > 2 else (labels[0] if labels else None,)
    if spec.is_joint:
        classes = (None,)
    # The folds that are left out, one after the other; None stands for training on all rows.
    has_models = not spec.n_folds or (spec.refit and not spec.searches_C)
    folds = (*spec.held_out, *((None,) if has_models else ()))
    n_lanes = len(classes) * len(spec.Cs) * len(folds)
    # A search for C, which has ended before it comes to most values, is of one value at a time.
    if n_lanes > MOST_LANES * (len(spec.Cs) if spec.searches_C else 1):
        times = f" x {len(folds)} folds, all rows among them" if len(folds) > 1 else ""
        hint = f"A job may have {MOST_LANES}." + (f" {_NO_CLASSES}" if len(classes) > MOST_LANES else "")
        raise ServiceError(
            "lanes_range",
            f"{len(classes)} classes x {len(spec.Cs)} values of C{times} are {n_lanes} problems",
            hint,
        )
    if spec.scoring in OF_TWO_CLASSES and len(labels) > 2:
        raise ServiceError("scoring_range", f"{spec.scoring} is of two classes", "Choose accuracy, or f1.")
    if spec.n_folds > manifest.n_rows:
        folds_of = f"{spec.n_folds} folds of {manifest.n_rows} rows: some have none"
        raise ServiceError("empty_fold", folds_of, "Ask for fewer folds.")
    for label in labels if spec.n_folds else ():
        if manifest.labels[label] == 1:
            raise ServiceError(
                "fold_without_class",
                f"one row alone has the label {manifest.label_text(label)}: without its fold there is none",
                "Leave the row out, or have more of its label.",
            )
    weights = class_weights(spec, labels, manifest)
    lanes = [_lane(label, fold, C, labels, weights, manifest) for label in classes for fold in folds for C in spec.Cs]
    turn = {C: bisect(turns_of(spec, manifest), place) for place, C in enumerate(spec.Cs)}
    return tuple(sorted(lanes, key=lambda lane: turn[lane.C]))


def with_ladder(spec: JobSpec, manifest: Manifest) -> JobSpec:
    """A job with C "auto" with powers of 2 to try first: C times the mean of |x|^2 is from 1 / n_rows to 2^16 or more.

    At 1 / (n_rows * mean of |x|^2) the losses begin to count beside |w|^2: LIBLINEAR's -C begins at most at this value.
    """
    if not spec.searches_C:
        return spec
    mean = 1.0 if spec.kernel == "rbf" else mean_Qii(spec, manifest)
    middle = -round(log2(min(max(mean, 1e-9), 1e9)))
    powers = (*_powers_tried_first(spec, manifest), *range(_STEP, max(_ABOVE, _LARGEST - middle) + _STEP, _STEP))
    return spec.with_ladder(tuple(2.0 ** (middle + power) for power in powers))


def _powers_tried_first(spec: JobSpec, manifest: Manifest) -> list[int]:
    """Return the powers of 2 that a search tries in any case. Where lanes run one by one, each takes its time."""
    least = round(log2(manifest.n_rows)) if has_lanes(spec) else 0
    return [*reversed(range(-_BELOW - _STEP_BELOW, -least - 1, -_STEP_BELOW)), *range(-_BELOW, 1, _STEP)]


def order_note(C: float | list[float] | str) -> str | None:
    """Return a message on the order in which values of C run, if `C` lists them in another order or twice; or None."""
    if not isinstance(C, list) or sorted(set(C)) == C:
        return None
    values = sorted(set(C))
    shown = ", ".join(f"{value:g}" for value in values[:_VALUES_SHOWN]) + ", ..." * (len(values) > _VALUES_SHOWN)
    return f"C was not in ascending order, each value once; it runs as {shown}"


def _lane(
    positive: float | None,
    fold: int | None,
    C: float,
    labels: tuple[float, ...],
    weights: Mapping[float, float],
    manifest: Manifest,
) -> Lane:
    if positive is None:
        largest = C * max(weights.values(), default=1.0)
        return Lane(None, None, fold, C, largest, largest)
    # Where the rest is several classes, their class weights do not count, as in LIBLINEAR.
    rest = weights[labels[1]] if len(labels) == 2 else 1.0
    return Lane(positive, shown(positive, manifest), fold, C, C * weights[positive], C * rest)


def class_weights(spec: JobSpec, labels: tuple[float, ...], manifest: Manifest) -> dict[float, float]:
    """Return each label's class weight, a factor of C. Raises ServiceError unknown_label, weights_not_supported."""
    if spec.class_weight == "balanced":
        if manifest.weights is not None:
            raise ServiceError(
                "weights_not_supported",
                "balanced counts rows, and these have weights",
                "Give each label its factor: class_weight.",
            )
        total = sum(manifest.labels[label] for label in labels)
        return {label: total / (len(labels) * manifest.labels[label]) for label in labels}
    weights = dict.fromkeys(labels, 1.0)
    for label, weight in (spec.class_weight or {}).items():
        value = manifest.label_of(label)
        if value is None or value not in weights:
            known = ", ".join(map(manifest.label_text, sorted(labels)))
            raise ServiceError("unknown_label", "class_weight names a label the data does not have", f"Labels: {known}")
        weights[value] = weight
    return weights


def turns_of(spec: JobSpec, manifest: Manifest) -> tuple[int, ...]:
    """Return for each turn the index in `spec.Cs` of its first C. Lanes of a turn run side by side, as memory allows.

    Solvers that cannot train lanes side by side have one turn: each lane begins at the solution of the lane before it.
    """
    if spec.machines is not None:
        return (0,)
    if spec.searches_C:
        return (0, *range(len(_powers_tried_first(spec, manifest)), len(spec.Cs), _IN_TURN))
    pays = manifest.decoded_bytes <= _FEW_BYTES and spec.Cs[-1] * mean_Qii(spec, manifest) > _LARGE
    return tuple(range(len(spec.Cs))) if has_lanes(spec) and is_scaled(spec, manifest) and pays else (0,)


def has_lanes(spec: JobSpec) -> bool:
    """Return whether the job's solver trains several lanes side by side."""
    return SOLVERS[spec.solver].has_lanes and not spec.is_joint


def is_scaled(spec: JobSpec, manifest: Manifest) -> bool:
    """Return whether bounds of all dual variables are proportional to C, as `service.jobs.lanes.warm_start` needs."""
    is_plain = spec.class_weight is None and manifest.weights is None
    return spec.loss_kind.is_quadratic and is_plain and not SOLVERS[spec.solver].has_kernel
