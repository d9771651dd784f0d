"""alpha and w of a problem as training changes them, and whether the problem is near enough to its optimum."""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.rows.csr import Array


class Variables:
    """Of one problem: alpha (n_rows,) and w (width,), all that there is so far.

    room  (width,) float64, to be written over while all rows are at hand
    """

    def __init__(self, alpha: Array, w: Array, room: Callable[[], Array]) -> None:
        self.alpha, self.w = alpha, w
        self._room = room

    @property
    def count(self) -> int:
        """Lanes."""
        return 1

    @property
    def is_left(self) -> Array:
        """(count,) bool of those that are trained."""
        return np.ones(1, bool)

    @property
    def earlier_w(self) -> Array:
        """As long as w, to be written over while sweeps follow each other."""
        return self._room()

    @property
    def whole_w(self) -> Array:
        """w of all that is trained, as a checkpoint keeps it; the alpha that is kept is the one that belongs to it."""
        return self.w

    def begin(self) -> None:
        """Sweeps begin."""

    def settle(self, near: Array | bool) -> bool:
        """What is near enough its optimum is left as it is until sweeps `begin` again; whether nothing else is left."""
        return bool(near)

    def end(self) -> None:
        """Sweeps have ended."""
