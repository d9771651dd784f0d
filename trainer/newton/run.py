"""Makes Newton steps of all tasks of a job side by side, over all rows, on whatever machines the rows are."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.newton.requests import NewtonFigures, ProblemRows, Reply, Request, SumOf
from streamsvm.trainer.newton.system import LARGEST, SMALL, GoOn, kind_of, no_matter
from streamsvm.trainer.newton.task import IsNear, Left, TaskSteps
from streamsvm.trainer.problem.losses import make_loss
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.model_weights import ModelWeights
from streamsvm.trainer.updates.progress import TaskStep

SideBySide = Callable[[Callable[[Any], Any], Sequence[Any]], object]
_NEARER = 0.9  # share of the targets to reach: a certificate adds up in another order, and may be a little higher


def near_by(targets: StoppingTargets) -> IsNear:
    """Return a function that tells whether steps are near enough for a certificate to reach these targets."""

    def is_near(distance: float, relative_gap: float) -> bool:
        return bool(targets.reached(distance / _NEARER, relative_gap / _NEARER))

    return is_near


def one_by_one(make: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Return the result of `make` for each item."""
    return [make(item) for item in items]


class NewtonSteps:
    """Newton steps of some tasks: call `step` until all tasks are done or stuck.

    w (features, width): the w of the rows' alpha at the beginning, and again only after `put_back`
    numbers  numbers of the tasks that are trained
    most     most equations that a system may have
    left     states from which some tasks go on; other tasks begin at w
    go_on    is called now and then while systems are solved, see `trainer.newton.system.OfFeatures.solve`
    side_by_side  calls a function for each item of a list, perhaps by several threads: for small systems
    scans    number of scans made; requests: number of requests answered
    """

    def __init__(
        self,
        tasks: Tasks,
        rows: ProblemRows,
        w: Array,
        numbers: list[int],
        is_near: IsNear,
        most: int = LARGEST,
        left: Mapping[int, Left] = MappingProxyType({}),
        go_on: GoOn = no_matter,
        side_by_side: SideBySide = one_by_one,
    ) -> None:
        self._rows, self._most, self._all_w, self._go_on = rows, most, w, go_on
        self._side_by_side = side_by_side
        self.scans = self.requests = 0
        loss = make_loss(tasks.loss, tasks.epsilon)
        self._may_iterate = loss.is_smooth
        self.each = {n: TaskSteps(loss, w[:, n].copy(), is_near, left.get(n)) for n in numbers}
        if numbers:
            self._ask(Request(begins=tuple(numbers)))
            for task in self.each.values():
                task.begin()
            self._products()

    @property
    def active(self) -> dict[int, TaskSteps]:
        """The tasks that are neither done nor stuck, by number."""
        return {number: task for number, task in self.each.items() if not (task.is_done or task.is_stuck)}

    def taking_part(self) -> dict[int, TaskStep]:
        """Return the tasks that take part in the next step, by their numbers."""
        return {number: TaskStep(task.found.free, task.sigma) for number, task in self.active.items()}

    def left(self) -> dict[int, Left]:
        """Return the states of active tasks, from which later steps go on, by number. Call `put_back` before."""
        return {number: task.left for number, task in self.active.items()}

    def step(self) -> None:
        """Make two scans: for v and systems, then for the products that tasks ask for. Raises Interrupted, TooLarge."""
        self._sums()
        self._products()

    def put_back(self) -> list[NewtonFigures]:
        """Make the rows' alpha the last centre of each task, and write its w into `w`; return each task's figures.

        A step may have been interrupted between its two scans.
        """
        self._tell_centres()
        for number, task in self.each.items():
            self._all_w[:, number] = task.centre_w
        return [task.reached for task in self.each.values()]

    def offer_best(self, model: ModelWeights) -> None:
        """Offer to `model` the best w that each task has reached."""
        for number, task in self.each.items():
            if task.is_done:
                model.forget(number)  # of earlier steps: this end is near enough
            if task.best is not None:
                model.offer(number, *task.best)

    def _sums(self) -> None:
        active, n_features = self.active, len(self._all_w)
        sums = {
            number: SumOf(task.sigma, kind_of(n_features, task.found.free, self._most, self._may_iterate))
            for number, task in active.items()
        }
        reply = self._ask(Request(sums=sums))
        equations = max((min(n_features, task.found.free) for task in active.values()), default=0)
        each = self._side_by_side if equations <= SMALL else one_by_one
        each(partial(self._take_sums, reply), list(enumerate(active)))

    def _take_sums(self, reply: Reply, place: tuple[int, int]) -> None:
        """Have a task go on with its sums. `place`: the task's column in v, and its number."""
        column, number = place
        assert reply.v is not None
        solve = partial(reply.systems[number].solve, go_on=self._go_on)
        self.each[number].take_sums(np.ascontiguousarray(reply.v[:, column]), solve)

    def _products(self) -> None:
        """Have rows multiplied by the tasks' vectors, then ask the tasks' questions until no task has another."""
        active = self.active
        products = {number: task.product for number, task in active.items() if task.product is not None}
        while looks := {number: task.look for number, task in active.items() if task.look is not None}:
            reply = self._ask(Request(centres=self._centres(), products=products, looks=looks))
            products = {}
            for number, looked in reply.looks.items():
                self.each[number].take(looked)
        self._tell_centres()

    def _tell_centres(self) -> None:
        if centres := self._centres():
            self._ask(Request(centres=centres))

    def _centres(self) -> dict[int, float]:
        """Return the sigma of each centre that the rows have yet to make, by number of task, and forget it."""
        centres = {number: task.centre for number, task in self.each.items() if task.centre is not None}
        for number in centres:
            self.each[number].centre = None
        return centres

    def _ask(self, request: Request) -> Reply:
        self.scans += request.scans
        self.requests += 1
        return self._rows.answer(request)
