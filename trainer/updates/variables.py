"""alpha and w of the tasks in training. Tasks that are near enough to their optimum are trained no further.

When the tasks that are still trained would fit into a narrower axis of tasks, they are packed into one: visits to half
of the columns take half of the time.
"""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import width_for, zeros
from streamsvm.trainer.problem.tasks import KindTable, Tasks

_ROWS_AT_ONCE = 256


class Variables:
    """alpha (n_rows, width) and w (features, width) of all tasks or, packed, of those that are still trained.

    before        alpha before momentum moved it; alpha itself while momentum has not moved it
    table         KindTable with a column for each column of w; U is 0 in tasks that are not trained
    is_trained    (count,) bool: which tasks are trained; count: length of arrays of figures (trainer.problem.tasks)
    scratch_w     returns an array as large as all of w that may be overwritten while the trainer has all rows
    is_converged  returns which tasks have converged and are not trained again, (count,) bool
    """

    def __init__(
        self,
        tasks: Tasks,
        alpha: Array,
        w: Array,
        scratch_w: Callable[[], Array] | None = None,
        is_converged: Callable[[], Array] | None = None,
    ) -> None:
        self.tasks, self.count = tasks, tasks.n_figures
        self._scratch, self._is_converged = scratch_w, is_converged
        self._all_alpha, self._all_w = self.alpha, self.w = alpha, w
        self._second_half = w
        self.end()

    @property
    def earlier_w(self) -> Array:
        """Memory of w's shape for a copy of an earlier w; a run of sweeps may overwrite it."""
        return self._second_half if self._is_packed else self._scratch_w()

    @property
    def whole_w(self) -> Array:
        """w of all tasks, for a checkpoint; also copies packed alpha back into the state's alpha."""
        if not self._is_packed:
            return self.w
        self._put_back()
        return self._scratch_w()

    def begin(self) -> None:
        """Begin a run of sweeps: train all tasks that have not converged."""
        self._unpack()
        self._train(self._unconverged())

    def settle(self, near: Array) -> bool:
        """Stop training the tasks that are `near` (count,) their optima, in this run; return whether none is left."""
        left = self.is_trained & ~near
        if left.any() and not np.array_equal(left, self.is_trained):
            self._train(left)
        return not left.any()

    def end(self) -> None:
        """End a run of sweeps: unpack all tasks."""
        self._unpack()
        self._leave_others(self._unconverged())

    def figures_of_all(self, figures: Array, others: float) -> Array:
        """Return figures (count,) of all tasks, given one for each column of w; tasks without a column get `others`."""
        if self.count == 1:
            return figures
        of_all = np.full(self.count, others)
        of_all[self._columns] = figures[: len(self._columns)]
        return of_all

    def figures_of_packed(self, figures: Array) -> Array:
        """Return one figure for each column of w, given figures (count,) of all tasks; 0 for tasks not trained."""
        if self.count == 1:
            return figures
        packed = np.zeros(self.w.shape[1])
        packed[: len(self._columns)] = np.where(self.is_trained, figures, 0.0)[self._columns]
        return packed

    @property
    def _is_packed(self) -> bool:
        return self.w.shape[1] < self._all_w.shape[1]

    def _scratch_w(self) -> Array:
        assert self._scratch is not None
        return self._scratch()

    def _unconverged(self) -> Array:
        exists = np.arange(self.count) < self.tasks.count
        if self.count == 1 or self._is_converged is None:
            return exists
        return exists & ~self._is_converged()

    def _train(self, left: Array) -> None:
        # The packed w and its second half share the memory of w.
        if self.count > 1 and 2 * width_for(max(1, int(np.count_nonzero(left)))) <= self.w.shape[1]:
            self._unpack()
            self._pack(np.flatnonzero(left))
        self._leave_others(left)

    def _leave_others(self, left: Array) -> None:
        """Train only the tasks `left` (count,) bool, all of which have a column."""
        self.is_trained = left
        is_left = self.figures_of_packed(left) != 0
        self.table = self._whole_table._replace(U=np.where(is_left, self._whole_table.U, 0.0))

    def _pack(self, places: Array) -> None:
        """Pack the tasks of these numbers: only they have columns of alpha and w from now on.

        The packed w takes the first half of w's memory; the second half holds the earlier w of momentum. The w of all
        tasks is in the scratch array until they are unpacked.
        """
        width, size = width_for(len(places)), len(self._all_w)
        self._scratch_w()[:] = self._all_w
        flat = self._all_w.reshape(-1)
        w = flat[: size * width].reshape(size, width)
        self._second_half = flat[size * width : 2 * size * width].reshape(size, width)
        _take(self._scratch_w(), places, w)
        self._use(_taken(self._all_alpha, places), w)
        table = self.tasks.table
        columns = (_taken(column, places) for column in (table.sign, table.U, table.D))
        self._whole_table, self._columns = KindTable(table.n_folds, *columns), places

    def _unpack(self) -> None:
        if self._is_packed:
            self._put_back()
            self._all_w[:] = self._scratch_w()
        self._use(self._all_alpha, self._all_w)
        self._whole_table, self._columns = self.tasks.table, np.arange(self.count)

    def _put_back(self) -> None:
        """Copy the packed columns back: alpha into alpha of all tasks, w into the scratch array."""
        columns = slice(len(self._columns))
        _copy(self._scratch_w(), self._columns, self.w, columns)
        _copy(self._all_alpha, self._columns, self.alpha, columns)

    def _use(self, alpha: Array, w: Array) -> None:
        self.alpha = self.before = alpha
        self.w = w


def _taken(every: Array, places: Array) -> Array:
    packed = zeros(len(every), width_for(len(places)))
    _take(every, places, packed)
    return packed


def _take(every: Array, places: Array, packed: Array) -> None:
    packed[:, len(places) :] = 0.0
    _copy(packed, slice(len(places)), every, places)


def _copy(to: Array, places: Array | slice, of: Array, columns: Array | slice) -> None:
    """Copy `columns` of an array into the columns `places` of another, so many rows at a time as fit into the cache."""
    for begin in range(0, len(to), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        to[rows, places] = of[rows, columns]
