"""Lanes: several problems over the same rows, trained side by side, and how a row looks to each of them.

A row's kind is the place of its class among the labels, times the number of folds, plus its fold. In a group of lanes
it is what a row has for `y`; which sign that is in a lane, and with what C, is looked up. w and alpha have an axis of
lanes, the last, of one of WIDTHS: lanes beyond those there are, of no rows, make it full.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamsvm.storage.rows.axis import width_for
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment


@dataclass(frozen=True)
class LaneTerms:
    """One lane.

    place   among the labels, of the class with y = +1; all others have -1
    fold    its rows have no part in training; None: all have
    C_positive, C_negative  weights of the losses of rows with y = +1 and y = -1
    """

    place: int
    fold: int | None
    C_positive: float
    C_negative: float


@dataclass(frozen=True)
class Group:
    """Lanes that are trained side by side.

    labels   what rows hold for their classes, by place
    n_folds  rows are dealt out to, by a hash of `seed`; 1: there are none
    """

    labels: tuple[float, ...]
    n_folds: int
    seed: int
    lanes: tuple[LaneTerms, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Group":
        """From what `asdict` makes of one, be it by way of JSON."""
        lanes = tuple(LaneTerms(**lane) for lane in told["lanes"])
        return cls(tuple(told["labels"]), told["n_folds"], told["seed"], lanes)

    @property
    def width(self) -> int:
        """Of the axis of lanes."""
        return width_for(len(self.lanes))

    @property
    def n_problems(self) -> int:
        """Figures there are of each kind."""
        return len(self.lanes)

    @cached_property
    def signs(self) -> Array:
        """y of a row of each kind in each lane, (n_kinds, width): 0 leaves it out, its sign telling the class."""
        places = np.repeat(np.arange(len(self.labels)), self.n_folds)
        folds = np.tile(np.arange(self.n_folds), len(self.labels))
        signs = np.zeros((len(places), self.width))
        for number, lane in enumerate(self.lanes):
            sign = np.where(places == lane.place, 1.0, -1.0)
            is_left_out = folds == (-1 if lane.fold is None else lane.fold)
            signs[:, number] = np.where(is_left_out, np.copysign(0.0, sign), sign)
        return signs


def targets(signs: Array, rows: Segment, weight: Array) -> Array:
    """y of rows along an axis, (n, width): the sign of their kind times their weight, (n_rows,) by id; (0,): none."""
    y = signs[rows.y.astype(np.intp)]
    return y * weight[rows.row_id][:, np.newaxis] if len(weight) else y
