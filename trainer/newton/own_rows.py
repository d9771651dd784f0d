"""Answers the requests of Newton steps for the rows of one machine, by scans of a store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

import numpy as np

from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import CODE, NO_COLUMN, ROW_WEIGHT, TARGET, Segment
from streamsvm.storage.run.state import width_for
from streamsvm.trainer.newton.requests import (
    Asks,
    Look,
    Looked,
    LookKind,
    NewtonFigures,
    Product,
    Reply,
    Request,
    Slope,
    SumOf,
)
from streamsvm.trainer.newton.scans import SUMS, Scans
from streamsvm.trainer.newton.system import Kind, OfFeatures, System, make_system
from streamsvm.trainer.newton.system_kernel import quadratic_forms
from streamsvm.trainer.problem.losses import Loss, make_loss
from streamsvm.trainer.problem.losses.terms import RowTerms, without_zeros
from streamsvm.trainer.problem.objective import add_to_w, dots_of
from streamsvm.trainer.problem.tasks import LabelColumns, Tasks

CHUNK = 1 << 15  # rows of which figures are computed together: their arrays stay in a processor cache
_OWN_BYTES, _TASK_BYTES = 2 * CODE.itemsize, 3 * 8  # of a row; and of its C, its m and the change of m in each task


def row_bytes(n_tasks: int, columns: int) -> int:
    """Return the bytes that Newton steps hold for a row with `columns` optional columns: weights, targets."""
    return _OWN_BYTES + n_tasks * _TASK_BYTES + columns * TARGET.itemsize


class RowLabels:
    """Keeps class code, fold, target and weight of n rows by row id: `take` all rows first, in any order."""

    def __init__(self, n_rows: int) -> None:
        self._labels = LabelColumns(np.zeros(n_rows, CODE), np.zeros(n_rows, CODE), NO_COLUMN, NO_COLUMN)

    def take(self, rows: Segment) -> None:
        """Store the class codes, folds, targets and weights of these rows."""
        n_rows = len(self._labels.class_code)
        if len(rows.target) and not len(self._labels.target):
            self._labels = self._labels._replace(target=np.zeros(n_rows, TARGET))
        if len(rows.weight) and not len(self._labels.weight):
            self._labels = self._labels._replace(weight=np.zeros(n_rows, ROW_WEIGHT))
        for own, given in zip(self._labels, (rows.class_code, rows.fold, rows.target, rows.weight), strict=True):
            if len(own):
                own[rows.row_id] = given

    def C(self, tasks: Tasks, number: int) -> Array:
        """Return C_i of all rows in the task `number`, (n,); one broadcast value if all are equal."""
        n_rows = len(self._labels.class_code)
        C = np.empty(n_rows)
        for chunk in chunks(n_rows):
            C[chunk] = tasks.terms(LabelColumns(*(each[chunk] for each in self._labels))).C[:, number]
        return np.broadcast_to(C[0], n_rows) if n_rows and (C[0] == C).all() else C

    def terms(self, C: Array, chunk: slice) -> RowTerms:
        """Return the terms of a chunk's rows in a task with this C (n,). Signs are 1: m and its change contain them."""
        own = C[chunk]
        return RowTerms(np.broadcast_to(1.0, len(own)), own, self._labels.target[chunk], self._labels.class_code[chunk])

    def accuracy(self, decision_values: Sequence[Array]) -> float:
        """Return the share of rows, by weight, whose class the decision values predict: (n,) each, one for each class.

        Of two classes there is one array.
        """
        right = total = 0.0
        for chunk in chunks(len(self._labels.class_code)):
            code, weight = self._labels.class_code[chunk], self._labels.weight[chunk].astype(float)
            weight = weight if len(weight) else np.ones(len(code))
            values = np.stack([each[chunk] for each in decision_values], axis=1)
            right += float(weight[predicted_classes(values if values.shape[1] > 1 else values[:, 0]) == code].sum())
            total += float(weight.sum())
        return right / total


def chunks(n_rows: int) -> list[slice]:
    """Return slices of at most CHUNK rows, which cover `n_rows` rows in order."""
    return [slice(begin, min(begin + CHUNK, n_rows)) for begin in range(0, n_rows, CHUNK)]


class TaskRows:
    """m and centre of each row in a task. `proximal` computes alpha and h from m and centre when they are needed.

    m       (n,) of each row, see requests.py
    alpha   (n,) in its box: the first centre; later centres are written into this array
    change  (n,) filled by a scan: <vector, x_i>, times the row's sign in classification; or m itself
    """

    def __init__(self, loss: Loss, labels: RowLabels, C: Array, alpha: Array) -> None:
        self._loss = loss
        self._chunks = [(chunk, labels.terms(C, chunk)) for chunk in chunks(len(alpha))]
        self._centre = alpha
        self.m, self.change = np.zeros((2, len(alpha)))

    def proximal(self, terms: RowTerms, rows: Array | slice, sigma: float) -> tuple[Array, Array]:
        """Return alpha and h (k,) of these rows at their m. `terms` has the terms of the rows."""
        return self._loss.proximal(terms, self._centre[rows], sigma, self.m[rows])

    def stand_at_alpha(self, sigma: float) -> None:
        """Take alpha, computed from the present m, centre and `sigma`, as the new centre."""
        for chunk, terms in self._chunks:
            self._centre[chunk], _ = self.proximal(terms, chunk, sigma)

    def answer(self, look: Look) -> Looked:
        """Answer a question about the task, see `LookKind`."""
        if look.kind is LookKind.SLOPE:
            return self._slope(look)
        if look.kind is LookKind.CHECK:
            self.change += self.m  # now m at v, so that no third array is needed
            return self._evaluate(look, self.change, alpha_of=self.m), self._evaluate(look, self.m)
        if look.kind is LookKind.MOVE:
            for chunk, _ in self._chunks:
                self.m[chunk] += look.t * self.change[chunk]
        else:
            self.m[:] = self.change
        before = (self._evaluate(look, self.m, at_centre=True),) if look.kind is LookKind.BEGIN else ()
        return *before, self._evaluate(look, self.m)

    def _slope(self, look: Look) -> Slope:
        first = second = size = 0.0
        for chunk, terms in self._chunks:
            change = self.change[chunk]
            m = self.m[chunk] + look.t * change
            alpha, h = self._loss.proximal(terms, self._centre[chunk], look.sigma, m)
            first += float(alpha @ change)
            second += float(h @ (change * change))
            size += float((np.abs(alpha) + h * np.abs(m)) @ np.abs(change))
        return Slope(first, second, size)

    def _evaluate(
        self, look: Look, every_m: Array, alpha_of: Array | None = None, at_centre: bool = False
    ) -> NewtonFigures:
        """Return sums at m (n,) and an alpha: that of m, of another m (`alpha_of`), or the centre (`at_centre`)."""
        losses = dual = total = moved = 0.0
        free, M_plus, M_minus = 0, -np.inf, np.inf
        for chunk, terms in self._chunks:
            m, centre = every_m[chunk], self._centre[chunk]
            at = m if alpha_of is None else alpha_of[chunk]
            alpha, h = self._loss.proximal(terms, centre, look.sigma, at)
            alpha = centre if at_centre else alpha
            PG = self._loss.projected_gradient(terms, m, alpha)
            losses, dual = losses + float(self._loss.losses(terms, m)), dual + float(self._loss.dual(terms, alpha))
            total += float(alpha.sum())
            moved += float(np.sum((alpha - centre) ** 2 / without_zeros(terms.C)))
            free += int(np.count_nonzero(h))
            M_plus, M_minus = max(M_plus, PG.max(initial=-np.inf)), min(M_minus, PG.min(initial=np.inf))
        return NewtonFigures(losses, dual, total, moved, free, float(M_plus), float(M_minus))


_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class OwnRows:
    """Answers requests, see `requests.ProblemRows`, for all rows of a problem, or for the shard of one machine.

    alpha (n_rows, width): requests write the centres of tasks into this array
    """

    def __init__(self, tasks: Tasks, scans: Scans, alpha: Array, n_features: int) -> None:
        self._tasks, self._scans, self._alpha, self._n_features = tasks, scans, alpha, n_features
        self._loss = make_loss(tasks.loss, tasks.epsilon)
        self._each: dict[int, TaskRows] = {}
        self._labels = RowLabels(0)

    def answer(self, request: Request) -> Reply:
        if request.begins:
            self._labels = labels = RowLabels(len(self._alpha))
            # Columns are made as rows come, by one thread.
            self._scans.each(lambda _, rows: labels.take(rows), n_sums=1)
            for number in request.begins:
                C = labels.C(self._tasks, number)
                self._each[number] = TaskRows(self._loss, labels, C, self._alpha[:, number])
        self._side_by_side(request.centres, TaskRows.stand_at_alpha)
        v, systems = self._sums(request.sums) if request.sums else (None, {})
        if request.products:
            vectors = np.zeros((self._n_features, width_for(len(request.products))))
            for column, each in enumerate(request.products.values()):
                vectors[:, column] = each.vector
            self._scans.each(partial(self._multiply, request.products, vectors))
        looks = self._side_by_side(request.looks, TaskRows.answer)
        return Reply(v, systems, looks)

    def left_out_accuracy(self, numbers: Collection[int]) -> Array:
        """Return the approximate leave-one-out accuracy of each task's model, (width,); nan: not all tasks are given.

        Without row i its margin m_i is, if the loss is smooth, about m_i - alpha_i q_i / (1 - h_i q_i), where q_i is
        x_i' (I + sum_j h_j x_j x_j')^-1 x_i (Rad and Maleki, J. R. Stat. Soc. B 82, 2020). Takes two scans.
        """
        models = [columns for columns in self._tasks.models if set(columns) <= set(numbers)]
        asked = {number: SumOf(np.inf, Kind.FEATURES) for columns in models for number in columns}
        systems = self._sums(asked)[1] if asked else {}
        inverses = {number: cast(OfFeatures, systems.pop(number)).inverse() for number in asked}
        if inverses:
            self._scans.each(partial(self._leave_out, inverses))
        accuracy = np.full(self._tasks.width, np.nan)
        for columns in models:
            accuracy[columns] = self._labels.accuracy([self._each[number].change for number in columns])
        return accuracy

    def _leave_out(self, inverses: Mapping[int, Array], _into: int, rows: Segment) -> None:
        """Write the decision value of each row, approximately as without the row in training, into `change`."""
        terms, q = self._tasks.terms(rows), np.zeros(len(rows))
        for number, inverse in inverses.items():
            own, task = terms.of_task(number), self._each[number]
            alpha, h = task.proximal(own, rows.row_id, np.inf)
            picked = np.flatnonzero(alpha).astype(np.int32)
            quadratic_forms(picked, *rows.csr, inverse, q)
            task.change[rows.row_id] = own.sign * (task.m[rows.row_id] - alpha * q / (1.0 - h * q))

    def _side_by_side(
        self, asked: Mapping[int, _Asked], answer: Callable[[TaskRows, _Asked], _Answer]
    ) -> dict[int, _Answer]:
        """Return the answer of each task; several threads compute answers, each for some of the tasks."""
        answers = self._scans.side_by_side(lambda each: answer(self._each[each[0]], each[1]), list(asked.items()))
        return dict(zip(asked, answers, strict=True))

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

    def _multiply(self, asked: Mapping[int, Product], vectors: Array, _into: int, rows: Segment) -> None:
        terms, dots = self._tasks.terms(rows), dots_of(rows, vectors)
        for column, (number, each) in enumerate(asked.items()):
            own = terms.of_task(number)
            make: Callable = self._loss.m if each.asks is Asks.POINT else self._loss.coefficients
            self._each[number].change[rows.row_id] = make(own, dots[:, column])
