"""The rows of one machine, which answer the requests of Newton steps by scans of a store."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from streamsvm.storage.rows.axis import width_for
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.newton.requests import Asks, Product, Reply, Request, SumOf
from streamsvm.trainer.newton.rows import RowLabels
from streamsvm.trainer.newton.scans import SUMS, Scans
from streamsvm.trainer.newton.system import System, make_system
from streamsvm.trainer.newton.task_rows import TaskRows
from streamsvm.trainer.problem.losses import make_loss
from streamsvm.trainer.problem.objective import add_to_w, dots_of
from streamsvm.trainer.problem.tasks import Tasks

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class OwnRows:
    """See `requests.Rows`: all rows of a problem, or those that one of several machines has.

    alpha (n_rows, width): requests write the centres of tasks into it
    """

    def __init__(self, tasks: Tasks, scans: Scans, alpha: Array, n_features: int) -> None:
        self._tasks, self._scans, self._alpha, self._n_features = tasks, scans, alpha, n_features
        self._loss = make_loss(tasks.loss, tasks.epsilon)
        self._each: dict[int, TaskRows] = {}

    def answer(self, request: Request) -> Reply:
        if request.begins:
            self._begin(request.begins)
        self._side_by_side(request.centres, TaskRows.stand_at_alpha)
        v, systems = self._sums(request.sums) if request.sums else (None, {})
        if request.products:
            self._products(request.products)
        looks = self._side_by_side(request.looks, TaskRows.answer)
        return Reply({number: self._each[number].largest_C for number in request.begins}, v, systems, looks)

    def _side_by_side(
        self, asked: Mapping[int, _Asked], answer: Callable[[TaskRows, _Asked], _Answer]
    ) -> dict[int, _Answer]:
        """The answers of tasks; several threads find them, each those of some tasks."""
        answers = self._scans.side_by_side(lambda each: answer(self._each[each[0]], each[1]), list(asked.items()))
        return dict(zip(asked, answers, strict=True))

    def _begin(self, numbers: tuple[int, ...]) -> None:
        labels = RowLabels(len(self._alpha))
        self._scans.each(lambda _, rows: labels.take(rows), n_sums=1)  # columns are made as rows come, by one thread
        for number in numbers:
            self._each[number] = TaskRows(self._loss, labels, labels.C(self._tasks, number), self._alpha[:, number])

    def _sums(self, asked: Mapping[int, SumOf]) -> tuple[Array, dict[int, System]]:
        systems = {number: make_system(self._n_features, of.kind, len(asked)) for number, of in asked.items()}
        v = [np.zeros((self._n_features, width_for(len(asked)))) for _ in range(SUMS)]
        n_sums = min(system.n_sums for system in systems.values())
        self._scans.each(partial(self._add, asked, systems, v), n_sums)
        total = v[0]
        for other in v[1:]:
            total += other
        return total, systems

    def _add(
        self, asked: Mapping[int, SumOf], systems: Mapping[int, System], v: list[Array], into: int, rows: Segment
    ) -> None:
        terms = self._tasks.terms(rows)
        coefficients = np.zeros((len(rows), v[into].shape[1]))
        for column, (number, of) in enumerate(asked.items()):
            own = terms.of_task(number)
            alpha, h = self._each[number].proximal(own, rows.row_id, of.sigma)
            coefficients[:, column] = self._loss.coefficients(own, alpha)
            picked = np.flatnonzero(h).astype(np.int32)
            if len(picked):
                systems[number].add(into, rows, picked, h[picked])
        add_to_w(rows, coefficients, v[into])

    def _products(self, asked: Mapping[int, Product]) -> None:
        vectors = np.zeros((self._n_features, width_for(len(asked))))
        for column, each in enumerate(asked.values()):
            vectors[:, column] = each.vector
        self._scans.each(partial(self._multiply, asked, vectors))

    def _multiply(self, asked: Mapping[int, Product], vectors: Array, _into: int, rows: Segment) -> None:
        terms, dots = self._tasks.terms(rows), dots_of(rows, vectors)
        for column, (number, each) in enumerate(asked.items()):
            own = terms.of_task(number)
            make: Callable = self._loss.m if each.asks is Asks.POINT else self._loss.coefficients
            self._each[number].change[rows.row_id] = make(own, dots[:, column])
