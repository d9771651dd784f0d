"""Tasks: the L >= 1 problems of a job over the same rows, and what a row is in each of them.

A task minimises, over its weights w,

    P(w) = 1/2 |w|^2 + sum_i C_i loss(row i, <w, x_i>)

and the solvers maximise its dual, over alpha within its box:

    D(alpha) = sum_i d_i(alpha_i) - 1/2 |w|^2,   w = sum_i alpha_i y_i x_i,   or sum_i alpha_i x_i in regression

A row has a class code, a fold and maybe a weight (storage.rows.segment). Class code and fold together are its *kind*. A
table says what the rows of each kind are in each task: their sign y, C, the upper bound U of alpha, and the curvature D
of d. A row's weight multiplies C and U and divides D. U = 0 leaves a row out of a task; there is no other way.

alpha has the shape (n_rows, width) and w (features, width). Kernels need certain widths: columns beyond the tasks only
fill the axis, and U is 0 in them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.run.state import width_for
from streamsvm.trainer.problem.losses import KINDS, LOSSES, box_of
from streamsvm.trainer.problem.losses.terms import RowTerms

_LEAST_JOINT, _JOINT_STEP = 4, 8  # widths of the axis of classes are 4 and the multiples of 8


class KindTable(NamedTuple):
    """Sign y, upper bound U and curvature D of each kind of row in each task: (n_kinds, width) float64 each.

    The line of a kind is its class code times n_folds, plus its fold.
    """

    n_folds: int
    sign: Array
    U: Array
    D: Array


class LabelColumns(NamedTuple):
    """The columns of rows that `Tasks.terms` reads, (n,) each or (0,); a Segment has them, see storage.rows.segment."""

    class_code: Array
    fold: Array
    target: Array
    weight: Array


@dataclass(frozen=True)
class Task:
    """One problem: rows of one class against all others.

    positive                code of the class with y = +1; all others have -1
    fold                    number of the fold whose rows are left out; None: no row is left out
    C_positive, C_negative  C of the rows with y = +1 and of those with y = -1
    """

    positive: int
    fold: int | None
    C_positive: float
    C_negative: float

    def __post_init__(self) -> None:
        for C in (self.C_positive, self.C_negative):
            if not (math.isfinite(C) and C > 0):
                raise ValueError(f"C is {C}, it has to be a positive number")


@dataclass(frozen=True)
class Tasks:
    """The problems that a run trains side by side.

    loss      name of the loss, in `trainer.problem.losses`
    each      the tasks; if is_joint, one for each class, whose C_positive is the C of the rows of that class
    labels    the dataset's label of each class code. Empty in regression, and while a dataset is being read in:
              then the largest label is class 0 and all others are class 1
    n_folds   number of folds to which rows are dealt, by `seed`
    epsilon   half the width of regression's tube
    is_joint  all classes are in one problem, that of Crammer and Singer, with one P, one D and one C_i for each row
    """

    loss: str
    each: tuple[Task, ...]
    labels: tuple[float, ...] = ()
    n_folds: int = 1
    seed: int = 0
    epsilon: float = 0.0
    is_joint: bool = False

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {self.loss!r}, known are {', '.join(LOSSES)}")

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Tasks":
        """Return the tasks from which `asdict` has made this document, also after it has been JSON."""
        each = tuple(Task(**task) for task in document["each"])
        return cls(**{**document, "each": each, "labels": tuple(document["labels"])})

    @classmethod
    def single(cls, loss: str, C_positive: float, C_negative: float | None = None, epsilon: float = 0.0) -> "Tasks":
        """Return a single task: on two classes, whose codes are 0 and 1, or in regression."""
        return cls(loss, (Task(0, None, C_positive, C_negative or C_positive),), epsilon=epsilon)

    @property
    def is_regression(self) -> bool:
        return KINDS[self.loss].is_regression

    @property
    def tube(self) -> float:
        """Epsilon of regression, half the width of the tube in which alpha rests at 0; -1 in classification."""
        return self.epsilon if self.is_regression else -1.0

    @property
    def width(self) -> int:
        """Number of columns of alpha and w: one for each task, then columns that only fill the axis."""
        return joint_width(len(self.each)) if self.is_joint else width_for(len(self.each))

    @property
    def count(self) -> int:
        """Number of problems. Each problem has a P, D, M+ and M-, which are called its figures."""
        return 1 if self.is_joint else len(self.each)

    @property
    def n_figures(self) -> int:
        """Length of arrays of figures (P, D, M+, M-): 1 for a joint problem, else the number of columns of w."""
        return 1 if self.is_joint else self.width

    @property
    def leaving_rows_out(self) -> tuple[int, ...]:
        """Numbers of the tasks that leave a fold out, from 0."""
        return tuple(place for place, task in enumerate(self.each) if task.fold is not None)

    @property
    def models(self) -> list[list[int]]:
        """The columns of each model whose tasks all leave no row out, in the order of its classes.

        A model of more than two classes has a task for each; one that lacks some of them is not listed.
        """
        own = [number for number, task in enumerate(self.each) if task.fold is None]
        if self.is_joint:
            return [own if len(own) > 2 else own[:1]] if own else []
        if len(self.labels) <= 2:
            return [[number] for number in own]
        return [columns for columns in self._by_C if len(columns) == len(self.labels)]

    @property
    def parts_of_models(self) -> list[list[int]]:
        """The columns of each model of which other runs train some classes, in the order of the classes of this run."""
        is_apart = len(self.labels) > 2 and not self.is_joint
        return [columns for columns in self._by_C if is_apart and len(columns) < len(self.labels)]

    @property
    def largest_C(self) -> float:
        return max(max(task.C_positive, task.C_negative) for task in self.each)

    @cached_property
    def table(self) -> KindTable:
        U, D = box_of(self.loss, self._C)
        return KindTable(self.n_folds, self._signs, U, D)

    def terms(self, rows: LabelColumns | Segment) -> RowTerms:
        """Return the terms of these rows (sign, C, target, class code) in each task. A row's weight multiplies C."""
        kinds = self._kinds(rows)
        # Columns are contiguous, since losses take the tasks one after the other.
        sign, C = (each.T.take(kinds, axis=1).T for each in (self._signs, self._C))
        if len(rows.weight):
            # Training uses weights in float32, as segments store them.
            C = C * rows.weight.astype(np.float32, copy=False)[:, np.newaxis]
        return RowTerms(sign, C, rows.target, rows.class_code)

    def left_out(self, rows: LabelColumns | Segment) -> Array:
        """Return which rows each task leaves out because of their fold, (n, width) bool."""
        return (self._C == 0.0)[self._kinds(rows)]

    @property
    def _by_C(self) -> list[list[int]]:
        """The columns of the tasks on all rows, of one value of C after the other, in the order of their classes."""
        by_C: dict[float, list[int]] = {}
        for number, task in sorted(enumerate(self.each), key=lambda each: each[1].positive):
            if task.fold is None:
                by_C.setdefault(task.C_negative, []).append(number)  # class weights are in C_positive alone
        return list(by_C.values())

    def _kinds(self, rows: LabelColumns | Segment) -> Array:
        return rows.class_code.astype(np.intp) * self.n_folds + rows.fold

    @property
    def _n_classes(self) -> int:
        return 1 if self.is_regression else max(2, len(self.labels))

    @cached_property
    def _signs(self) -> Array:
        signs = np.ones((self._n_classes, self.width))
        if not self.is_regression:
            positive = [task.positive for task in self.each] + [-1] * (self.width - len(self.each))
            signs = np.where(np.arange(self._n_classes)[:, np.newaxis] == positive, 1.0, -1.0)
        return np.repeat(signs, self.n_folds, axis=0)

    @cached_property
    def _C(self) -> Array:
        """C of the rows of each kind in each task, (n_kinds, width); 0 where the task leaves the rows out."""
        C = np.zeros((len(self._signs), self.width))
        folds = np.tile(np.arange(self.n_folds), self._n_classes)
        for number, task in enumerate(self.each):
            own = np.where(self._signs[:, number] > 0.0, task.C_positive, task.C_negative)
            if self.is_joint:
                own = np.repeat([each.C_positive for each in self.each], self.n_folds)
            C[:, number] = np.where(folds == (-1 if task.fold is None else task.fold), 0.0, own)
        return C


def joint_width(n_classes: int) -> int:
    """Return the number of columns of alpha and w for one problem of `n_classes` classes."""
    return _LEAST_JOINT if n_classes <= _LEAST_JOINT else -(-n_classes // _JOINT_STEP) * _JOINT_STEP
