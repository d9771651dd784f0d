"""Rows in memory as a store of segments, and Newton steps over them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.rows.csr import INDEX, VALUE
from streamsvm.storage.rows.segment import CODE, NORM, OFFSET, ROW_ID, ROW_WEIGHT, TARGET, Segment
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.run import NewtonSteps
from streamsvm.trainer.newton.scans import Scans
from streamsvm.trainer.newton.system import no_matter
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.sweeps.sweep import ALONE, Threads
from tests.reference.newton import MARGIN, Problem


@dataclass
class Rows:
    """Rows and what they are; `segments` of some rows each, in an order of their own.

    y        +1 and -1: class codes 0 and 1; in regression numbers
    reads    how often `in_order` has been called
    """

    X: np.ndarray
    y: np.ndarray
    loss: str
    fold: np.ndarray | None = None
    weight: np.ndarray | None = None
    per_segment: int = 7
    segments: list[Segment] = field(init=False)
    reads: int = field(init=False, default=0)

    def __post_init__(self):
        self.X = self.X.astype(VALUE)
        order = np.random.default_rng(len(self.X)).permutation(len(self.X))
        step = self.per_segment
        self.segments = [self._segment(order[begin : begin + step]) for begin in range(0, len(order), step)]

    def _segment(self, some):
        X = sparse.csr_matrix(self.X[some])
        is_margin = self.loss in MARGIN
        code = (self.y[some] < 0).astype(CODE) if is_margin else np.zeros(len(some), CODE)
        fold = np.zeros(len(some), CODE) if self.fold is None else self.fold[some].astype(CODE)
        return Segment(
            some.astype(ROW_ID), code, fold, np.asarray(X.multiply(X).sum(axis=1)).ravel().astype(NORM),
            X.indptr.astype(OFFSET), X.indices.astype(INDEX), X.data.astype(VALUE),
            np.empty(0, TARGET) if is_margin else self.y[some].astype(TARGET),
            np.empty(0, ROW_WEIGHT) if self.weight is None else self.weight[some].astype(ROW_WEIGHT),
        )  # fmt: skip

    @property
    def n_bytes(self) -> int:
        """So many that threads share scans over them."""
        return 1 << 40

    def in_order(self) -> Iterator[Segment]:
        self.reads += 1
        return iter(self.segments)

    def problem(self, tasks: Tasks, number: int = 0) -> Problem:
        """What the reference is to solve."""
        task = tasks.each[number]
        C = np.where(self.y > 0, task.C_positive, task.C_negative) if self.loss in MARGIN else task.C_positive
        C = np.broadcast_to(C, len(self.y)).astype(float)
        if self.weight is not None:
            C = C * self.weight.astype(ROW_WEIGHT)
        if task.fold is not None:
            C = np.where(self.fold == task.fold, 0.0, C)
        y = self.y if self.loss in MARGIN else self.y.astype(TARGET).astype(float)
        return Problem(self.loss, self.X.astype(float), y, C, tasks.epsilon)


@dataclass
class Found:
    """Where training has been put back to, and the steps that led there."""

    alpha: np.ndarray
    w: np.ndarray
    steps: NewtonSteps

    def model_w(self, number=0):
        """Return the w that the model of a task is made of."""
        best = self.steps.each[number].best
        return self.w[:, number] if best is None else best.w


def begin(
    rows, tasks, is_near, threads=ALONE, going=iter, alpha=None, numbers=None, left=None, go_on=no_matter
) -> Found:
    """Steps of these tasks, or all, that have not been made yet, from alpha (n, width) or 0, or where they were."""
    n = len(rows.X)
    alpha = np.zeros((n, tasks.width)) if alpha is None else alpha.copy()
    w = np.zeros((rows.X.shape[1], tasks.width))
    for number in range(len(tasks.each)):
        sign = rows.y if rows.loss in MARGIN else 1.0
        w[:, number] = rows.X.astype(float).T @ (sign * alpha[:, number])
    numbers = list(range(len(tasks.each))) if numbers is None else numbers
    scans = Scans(rows, n, UNMAPPED, threads, going)
    own = OwnRows(tasks, scans, alpha, len(w))
    apart = scans.side_by_side
    steps = NewtonSteps(tasks, own, w, numbers, is_near, left=left or {}, go_on=go_on, side_by_side=apart)
    return Found(alpha, w, steps)


def solve(rows, tasks, relative_gap=1e-6, threads=1, after_step=lambda found: None, alpha=None) -> Found:
    """Take steps until the relative gap is reached, or all tasks are stuck."""
    with ExitStack() as stack:
        own = ALONE if threads == 1 else Threads(threads, stack.enter_context(ThreadPoolExecutor(threads)))
        found = begin(rows, tasks, lambda _distance, gap: gap <= relative_gap, own, alpha=alpha)
        while found.steps.active:
            found.steps.step()
            found.steps.put_back()
            after_step(found)
        return found
