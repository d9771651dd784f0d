"""One problem of several classes, that of Crammer and Singer: w and alpha have an axis of classes, the last.

A row's `y` is the place of its class among the labels. Classes beyond those there are, of no rows, fill the axis up to
a width that the kernels of trainer.problem.lane_kernel know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.lanes import Group

_LEAST, _STEP = 4, 8  # widths are 4 and the multiples of 8


@dataclass(frozen=True)
class Classes:
    """
    labels  what rows hold for their classes, by place
    C       of each: C_i of a row of it, which a row's weight multiplies; 0 leaves the row out
    """

    labels: tuple[float, ...]
    C: tuple[float, ...]
    # Of the places of classes alone: a row that is left out has a weight of 0.
    n_folds: ClassVar[int] = 1
    seed: ClassVar[int] = 0

    @property
    def width(self) -> int:
        """Of the axis of classes."""
        return width_of(len(self.labels))

    @property
    def n_problems(self) -> int:
        """Figures there are of each kind."""
        return 1

    @property
    def signs(self) -> Array:
        """y of a row of each class, as each class sees it: (n_classes, width), +1 its own, -1 the others, 0 none."""
        n_classes = len(self.labels)
        signs = np.zeros((n_classes, self.width))
        signs[:, :n_classes] = 2.0 * np.eye(n_classes) - 1.0
        return signs


def width_of(n_classes: int) -> int:
    """Of the axis of so many classes."""
    return _LEAST if n_classes <= _LEAST else -(-n_classes // _STEP) * _STEP


def axis_of(told: Mapping[str, Any] | None) -> Group | Classes | None:
    """What the axis of w and alpha is of, from what `asdict` makes of it, be it by way of JSON; None: there is none."""
    if told is None:
        return None
    return Group.of(told) if "lanes" in told else Classes(tuple(told["labels"]), tuple(told["C"]))
