"""The w that a model is made of, where this is not the w of alpha.

Training goes on from an alpha and its w. Newton steps that are ended on their way are at a w of their own, and the w of
their last centre's alpha may be far worse: so the model gets the best w that they have come to.
"""

from collections.abc import Mapping

import numpy as np

from streamsvm.storage.rows.csr import EMPTY, Array

_LESS = 1.0 - 1e-9  # sums in another order make a difference that is no gain

# Arrays of a checkpoint: a line for each task that has a w here, of its number, P, and whether w stands; and each w.
_MODEL, _MODEL_W = "model", "model_w_{}"


def with_columns(w: Array, columns: Mapping[int, Array]) -> Array:
    """w (features, axis) with other columns (features,) at these places: a copy; w itself if there are none."""
    if not columns:
        return w
    copy = w.copy()
    for place, column in columns.items():
        copy[:, place] = column
    return copy


class ModelWeights:
    """Holds the best w (features,) of some tasks, with its P.

    It *stands* for a task, whatever the w of alpha is, until the task is trained further in another way. From then on
    it has to be better.

    kept  arrays of `resumable` from which to go on
    """

    def __init__(self, kept: Mapping[str, Array] = EMPTY) -> None:
        lines = kept.get(_MODEL, np.empty((0, 3))).tolist()
        self._each = {int(number): (kept[_MODEL_W.format(int(number))], primal) for number, primal, _ in lines}
        self._standing = {int(number) for number, _, stands in lines if stands}

    def resumable(self) -> dict[str, Array]:
        """The arrays from which new weights go on, as their `kept`."""
        lines = [(number, primal, number in self._standing) for number, (_, primal) in self._each.items()]
        arrays = {_MODEL_W.format(number): w for number, (w, _) in self._each.items()}
        return {_MODEL: np.array(lines, float), **arrays} if lines else {}

    def offer(self, number: int, w: Array, primal: float) -> None:
        """Let the better of w, which is not changed any more, and an earlier one stand for a task."""
        if number not in self._each or primal <= self._each[number][1]:
            self._each[number] = w, primal
        self._standing.add(number)

    def forget(self, number: int) -> None:
        """Let a task's model have the w of alpha."""
        self._each.pop(number, None)
        self._standing.discard(number)

    def settle(self, converged: Array, is_over: bool) -> None:
        """Tell which tasks (count,) have converged, at the w that stands for them or, if none does, at that of alpha.

        is_over  the others are not trained further
        """
        for number in list(self._each):
            if converged[number] and number not in self._standing:
                self.forget(number)
            elif not (converged[number] or is_over):
                self._standing.discard(number)

    def take_better(self, primal: Array) -> bool:
        """Let each w whose P is less than `primal` (count,) stand; returns whether there is one that did not."""
        better = {number for number, (_, own) in self._each.items() if own < _LESS * primal[number]} - self._standing
        self._standing |= better
        return bool(better)

    def columns(self) -> dict[int, Array]:
        """w of each task for which it stands."""
        return {number: self._each[number][0] for number in sorted(self._standing)}
