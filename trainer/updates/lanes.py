"""A group of lanes: alpha and w have an axis of lanes, a row is visited in all of them at once, lanes that are done go.

See trainer.problem.lanes. Where the lanes that are left fill less than half of the axis, they are packed into a
narrower one. Visits then take half of the time.
"""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.rows.axis import width_for, zeros
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.kernels.visit_lanes import Terms
from streamsvm.trainer.problem.lanes import Group
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.updates.variables import Variables


def terms_of(group: Group, loss: str, weight: Array) -> Terms:
    """What rows of each kind are in each lane; weight (n_rows,), or (0,)."""
    sign = group.signs
    U, D = np.zeros_like(sign), np.zeros_like(sign)
    for number, lane in enumerate(group.lanes):
        box = Problem(loss, lane.C_positive, lane.C_negative).box
        U[:, number] = np.where(sign[:, number] > 0, box.U_positive, box.U_negative)
        D[:, number] = np.where(sign[:, number] > 0, box.D_positive, box.D_negative)
    return Terms(sign, U, D, weight)


class Lanes(Variables):
    """alpha (n_rows, width) and w (features, width), of all lanes or, packed, of those that are left.

    is_converged  (count,) bool of all: these are left as they are for good
    room          (features, count), see Variables
    terms         of the lanes as they are packed
    """

    def __init__(
        self, terms: Terms, alpha: Array, w: Array, room: Callable[[], Array], is_converged: Callable[[], Array]
    ) -> None:
        super().__init__(alpha, w, room)
        self._all_terms, self._all_alpha, self._all_w = terms, alpha, w
        self._is_converged = is_converged
        self._exists = (terms.sign != 0).any(axis=0)
        self.end()

    @property
    def count(self) -> int:
        """Lanes of all, those that only fill the axis included."""
        return self._all_w.shape[1]

    @property
    def is_left(self) -> Array:
        return self._is_left

    @property
    def earlier_w(self) -> Array:
        return self._second_half if self._is_packed else self._room()

    @property
    def whole_w(self) -> Array:
        if not self._is_packed:
            return self.w
        self._put_back()
        return self._room()

    @property
    def _is_packed(self) -> bool:
        return self.w.shape[1] < self.count

    def begin(self) -> None:
        self._unpack()
        self._train(self._exists & ~self._is_converged())

    def settle(self, near: Array | bool) -> bool:
        left = self._is_left & ~np.broadcast_to(near, self.count)
        if left.any() and not np.array_equal(left, self._is_left):
            self._train(left)
        return not left.any()

    def end(self) -> None:
        """All lanes but those that have converged are trained, none is packed."""
        self._unpack()
        self._leave(self._exists & ~self._is_converged())

    def of_all(self, figures: Array, others: float) -> Array:
        """Of figures (width,) of the lanes as they are packed, those of all lanes, (count,)."""
        found = np.full(self.count, others)
        found[self._columns] = figures[: len(self._columns)]
        return found

    def of_left(self, figures: Array) -> Array:
        """Of figures (count,) of all lanes, those of the lanes as they are packed, (width,); 0 for one that is left."""
        found = np.zeros(self.w.shape[1])
        found[: len(self._columns)] = np.where(self._is_left, figures, 0.0)[self._columns]
        return found

    def _train(self, left: Array) -> None:
        if width_for(max(1, int(np.count_nonzero(left)))) < self.w.shape[1]:
            self._unpack()
            self._pack(np.flatnonzero(left))
        self._leave(left)

    def _leave(self, left: Array) -> None:
        """Train these lanes (count,) bool; all of them have a column."""
        self._is_left = left
        self.terms = self._columns_of_terms._replace(sign=self._columns_of_terms.sign * (self.of_left(left) != 0))

    def _pack(self, places: Array) -> None:
        """Have columns for the lanes at these places alone.

        Those of w lie in its first half, and the other one is for the earlier w of momentum. All lanes are in the room
        meanwhile.
        """
        width, size = width_for(len(places)), len(self._all_w)
        self._room()[:] = self._all_w
        flat = self._all_w.reshape(-1)
        self.w = flat[: size * width].reshape(size, width)
        self._second_half = flat[size * width : 2 * size * width].reshape(size, width)
        _take(self._room(), places, self.w)
        self.alpha = _taken(self._all_alpha, places)
        every = self._all_terms
        sign, U, D = (_taken(each, places) for each in (every.sign, every.U, every.D))
        self._columns_of_terms = Terms(sign, U, D, every.weight)
        self._columns = places

    def _unpack(self) -> None:
        if self._is_packed:
            self._put_back()
            self.alpha, self.w = self._all_alpha, self._all_w
            self._all_w[:] = self._room()
        self._columns_of_terms, self._columns = self._all_terms, np.arange(self.count)

    def _put_back(self) -> None:
        """The columns there are, among those of all lanes: alpha where it is kept, w in the room."""
        for column, place in enumerate(self._columns):
            self._room()[:, place] = self.w[:, column]
            self._all_alpha[:, place] = self.alpha[:, column]


def _taken(every: Array, places: Array) -> Array:
    packed = zeros(len(every), width_for(len(places)))
    _take(every, places, packed)
    return packed


def _take(every: Array, places: Array, packed: Array) -> None:
    packed[:, len(places) :] = 0.0
    for column, place in enumerate(places):
        packed[:, column] = every[:, place]
