"""The objective of Crammer and Singer's machine as reader and trainer share it, see trainer.problem.objective.

A row's y has a number for each class: the row's weight, with a plus for its own class and a minus for others. m is its
margin over each class, z_own - z_m, infinite over its own: at 1 and more over all others the row costs nothing.
"""

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.crammer_singer import CrammerSinger
from streamsvm.trainer.problem.lanes import targets

_ROUNDING = 1e-12  # of C_i, in an alpha_i that is inside its bounds


class ClassObjective:
    """y, m, alpha are (n, width); sums are numbers.

    weight  (n_rows,) of the rows, by id, or (0,): each has weight 1
    """

    def __init__(self, classes: Classes, weight: Array) -> None:
        self._signs = classes.signs
        self._weight = weight
        self._n_classes = len(classes.labels)
        self._machine = CrammerSinger(np.array(classes.C))

    @property
    def upper(self) -> tuple[Array, Array]:
        """No alpha is at these: a row rests where it has none, and is far enough from all other classes."""
        none = np.full(self._signs.shape[1], np.inf)
        return none, none

    def targets(self, rows: Segment) -> Array:
        return targets(self._signs, rows, self._weight)

    def m(self, y: Array, dots: Array) -> Array:
        rows, own = np.arange(len(y)), self._own(y)
        margins = dots[rows, own][:, np.newaxis] - dots
        margins[rows, own] = np.inf
        return margins

    def coefficients(self, y: Array, alpha: Array) -> Array:
        return alpha

    def projected(self, y: Array, alpha: Array) -> Array:
        """One that is inside its bounds but for rounding stays as it is."""
        own, weight = self._own(y), self._weights(y)
        nearest = np.zeros(alpha.shape)
        nearest[:, : self._n_classes] = self._machine.projected(own, alpha[:, : self._n_classes], weight)
        C = self._machine.C[own] * weight
        is_inside = np.abs(nearest - alpha).max(axis=1, initial=0.0) <= _ROUNDING * C
        return np.where(is_inside[:, np.newaxis], alpha, nearest)

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        """(2 n,): of each row the violation, and 0: that of the class with the largest gradient."""
        of_classes = alpha[:, : self._n_classes]
        violations = self._machine.violations(self._own(y), self._z(m), of_classes, self._weights(y))
        return np.concatenate([violations, np.zeros(len(y))])

    def losses(self, y: Array, m: Array) -> float:
        return self._machine.losses(self._own(y), self._z(m), self._weights(y))

    def dual(self, y: Array, alpha: Array) -> float:
        return self._machine.dual(self._own(y), alpha[:, : self._n_classes])

    def _own(self, y: Array) -> Array:
        """(n,) places of the rows' classes; the sign of a 0 tells, too."""
        return np.argmin(np.signbit(y[:, : self._n_classes]), axis=1)

    def _weights(self, y: Array) -> Array:
        return np.abs(y[:, 0])

    def _z(self, m: Array) -> Array:
        """Decision values but for a number for each row, which changes nothing."""
        own = m[:, : self._n_classes]
        return np.where(np.isinf(own), 0.0, -own)
