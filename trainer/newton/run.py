"""The phase of Newton steps: all tasks of a job side by side over a store that holds all rows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from streamsvm.storage.rows.axis import width_for
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.newton.rows import RowLabels
from streamsvm.trainer.newton.scans import SUMS, Scans
from streamsvm.trainer.newton.system import LARGEST, System, make_system
from streamsvm.trainer.newton.task import Asks, Figures, IsNear, TaskSteps
from streamsvm.trainer.problem.losses import make_loss
from streamsvm.trainer.problem.objective import add_to_w, dots_of
from streamsvm.trainer.problem.tasks import Tasks


class NewtonSteps:
    """`step` until all tasks are done or stuck.

    alpha (n_rows, width) and w (features, width): where it begins. Steps write the centres of tasks into alpha; w is
    the w of this alpha only after `put_back`.
    numbers  of the tasks that are trained
    most     equations that a system may have
    """

    def __init__(
        self,
        tasks: Tasks,
        scans: Scans,
        alpha: Array,
        w: Array,
        numbers: list[int],
        is_near: IsNear,
        most: int = LARGEST,
    ) -> None:
        self._tasks, self._scans, self._most = tasks, scans, most
        self._all_w = w
        self._loss = make_loss(tasks.loss, tasks.epsilon)
        self._labels = RowLabels(len(alpha))
        scans.each(lambda _, rows: self._labels.take(rows), n_sums=1)  # columns are made as rows come, by one thread
        self.each = {
            number: TaskSteps(
                self._loss, self._labels, self._labels.C(tasks, number), w[:, number].copy(), alpha[:, number], is_near
            )
            for number in numbers
        }  # fmt: skip
        self._products()

    @property
    def active(self) -> list[int]:
        """Numbers of the tasks that still go on."""
        return [number for number, task in self.each.items() if not (task.is_done or task.is_stuck)]

    def step(self) -> None:
        """Two scans: for v and the systems, then for the products that tasks ask for. Raises Interrupted, TooLarge."""
        self._sums()
        self._products()

    def put_back(self) -> list[Figures]:
        """Write the w of the present alpha into the array passed in; returns the figures of each task there."""
        for number, task in self.each.items():
            self._all_w[:, number] = task.centre_w
        return [task.reached for task in self.each.values()]

    def _sums(self) -> None:
        numbers, n_features = self.active, len(self._all_w)
        systems = {number: make_system(n_features, self.each[number].found.free, self._most) for number in numbers}
        v = [np.zeros((n_features, width_for(len(numbers)))) for _ in range(SUMS)]
        n_sums = min(system.n_sums for system in systems.values())
        self._scans.each(partial(self._add, numbers, systems, v), n_sums)
        total = v[0]
        for other in v[1:]:
            total += other
        for column, number in enumerate(numbers):
            self.each[number].take_sums(np.ascontiguousarray(total[:, column]), systems[number].solve)

    def _add(self, numbers: list[int], systems: dict[int, System], v: list[Array], into: int, rows: Segment) -> None:
        terms = self._tasks.terms(rows)
        coefficients = np.zeros((len(rows), v[into].shape[1]))
        for column, number in enumerate(numbers):
            task = self.each[number]
            own = terms.of_task(number)
            alpha, h = task.proximal(own, rows.row_id)
            coefficients[:, column] = self._loss.coefficients(own, alpha)
            picked = np.flatnonzero(h).astype(np.int32)
            if len(picked):
                systems[number].add(into, rows, picked, h[picked])
        add_to_w(rows, coefficients, v[into])

    def _products(self) -> None:
        numbers = self.active
        if not numbers:
            return
        vectors = np.zeros((len(self._all_w), width_for(len(numbers))))
        for column, number in enumerate(numbers):
            vectors[:, column] = self.each[number].vector
        self._scans.each(partial(self._multiply, numbers, vectors))
        for number in numbers:
            self.each[number].take_products()

    def _multiply(self, numbers: list[int], vectors: Array, _into: int, rows: Segment) -> None:
        terms, dots = self._tasks.terms(rows), dots_of(rows, vectors)
        for column, number in enumerate(numbers):
            task, own = self.each[number], terms.of_task(number)
            make: Callable = self._loss.m if task.asks is Asks.POINT else self._loss.coefficients
            task.change[rows.row_id] = make(own, dots[:, column])
