"""When a kernel machine's training ends: when the spread of the gradients stays as it is.

With S_e = log(max g - min g) over the steps of round e, |S_e - S_(e-1)| <= tolerance, twice in a row. A round is as
many passes as it takes to visit each row: one, unless selection is adaptive. That leaves out rows that gain nothing for
some passes. Their gradients may be the largest of all, and S of a single pass would leap with the rows visited in it.
"""

import math
from collections.abc import Mapping

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.solvers.budget import Figures


class Spread:
    """S of the last rounds.

    n_rows  number of rows, if a pass may leave out some; else 0
    kept    arrays of `resumable`, to go on from there
    """

    def __init__(self, n_rows: int, kept: Mapping[str, Array]) -> None:
        self._spreads = kept.get("spreads", np.full(3, math.nan))
        self._waits = kept.get("waits", np.ones(n_rows, np.uint8))
        self._extremes = kept.get("extremes", np.array([-math.inf, math.inf]))

    def note(self, row_id: Array) -> None:
        """These rows have been visited."""
        if len(self._waits):
            self._waits[row_id] = 0

    def end_pass(self, figures: Figures) -> None:
        """Take in the gradients of a pass, and end the round if it has visited each row."""
        largest, smallest = max(self._extremes[0], figures.largest), min(self._extremes[1], figures.smallest)
        self._extremes[:] = largest, smallest
        if self._waits.any():
            return
        spread = largest - smallest
        self._spreads[:] = [*self._spreads[1:], math.log(spread) if spread > 0.0 else -math.inf]
        self._waits[:], self._extremes[:] = 1, (-math.inf, math.inf)

    @property
    def change(self) -> float:
        """|S_e - S_(e-1)|, the larger of the last two; inf before there are two."""
        with np.errstate(invalid="ignore"):
            change = float(np.abs(np.diff(self._spreads)).max())
        return math.inf if math.isnan(change) else change

    def resumable(self) -> dict[str, Array]:
        """The arrays from which another Spread goes on, as its `kept`."""
        return {"spreads": self._spreads, "waits": self._waits, "extremes": self._extremes}
