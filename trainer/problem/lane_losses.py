"""The objectives of a group of lanes at once, see trainer.problem.objective: arrays have an axis of lanes, the last."""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.lanes import Group, targets
from streamsvm.trainer.problem.margin_losses import OfMargins


class LaneObjective:
    """Of the hinge family. y, m, alpha are (n, width); sums (width,).

    weight  (n_rows,) of the rows, by id, or (0,): each has weight 1
    """

    def __init__(self, group: Group, make: Callable[[float, float], OfMargins], weight: Array) -> None:
        self._signs = group.signs
        self._weight = weight
        spare = [(1.0, 1.0)] * (group.width - len(group.lanes))  # of no rows
        self._lanes = [make(*C) for C in (*((lane.C_positive, lane.C_negative) for lane in group.lanes), *spare)]

    @property
    def upper(self) -> tuple[Array, Array]:
        positive, negative = zip(*(lane.upper for lane in self._lanes), strict=True)
        return np.array(positive), np.array(negative)

    def targets(self, rows: Segment) -> Array:
        return targets(self._signs, rows, self._weight)

    def m(self, y: Array, dots: Array) -> Array:
        return dots * np.sign(y)

    def coefficients(self, y: Array, alpha: Array) -> Array:
        return alpha * np.sign(y)

    def projected(self, y: Array, alpha: Array) -> Array:
        return self._columns(lambda lane, own: lane.projected(*own), y, alpha)

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        return self._columns(lambda lane, own: lane.projected_gradient(*own), y, m, alpha)

    def losses(self, y: Array, m: Array) -> Array:
        return self._numbers(lambda lane, own: lane.losses(*own), y, m)

    def dual(self, y: Array, alpha: Array) -> Array:
        return self._numbers(lambda lane, own: lane.dual(*own), y, alpha)

    def _columns(self, of: Callable[[OfMargins, list[Array]], Array], *arrays: Array) -> Array:
        found = np.empty(arrays[0].shape)
        for number, lane in enumerate(self._lanes):
            found[:, number] = of(lane, [array[:, number] for array in arrays])
        return found

    def _numbers(self, of: Callable[[OfMargins, list[Array]], float], *arrays: Array) -> Array:
        return np.array([of(lane, [array[:, k] for array in arrays]) for k, lane in enumerate(self._lanes)])
