"""Holds the w that models are made of, where this is not the w of alpha.

Training goes on from an alpha and its w. Newton steps that end early are at another w, and the w of their last
centre's alpha may have a far larger P: so the model gets the best w that the steps have reached.
"""

from collections.abc import Mapping

import numpy as np

from streamsvm.storage.rows.csr import EMPTY, Array

_LESS = 1.0 - 1e-9  # a P above this share of another is not less: sums in another order differ by rounding

# Arrays of a checkpoint: for each task that has a w here, a line (its number, P, whether its w stands), and that w.
_MODEL, _MODEL_W = "model", "model_w_{}"


def with_columns(w: Array, columns: Mapping[int, Array]) -> Array:
    """Return a copy of w (features, axis) with these columns, number -> (features,); w itself if there are none."""
    if not columns:
        return w
    copy = w.copy()
    for place, column in columns.items():
        copy[:, place] = column
    return copy


class ModelWeights:
    """Holds the best w (features,) that Newton steps have reached for some tasks, and the primal objective P there.

    A w *stands* if the task's model gets it instead of the w of alpha. Once the task is trained further, by sweeps, its
    w stands only if its P is less.

    kept  arrays of `resumable` from which to go on
    """

    def __init__(self, kept: Mapping[str, Array] = EMPTY) -> None:
        lines = kept.get(_MODEL, np.empty((0, 3))).tolist()
        self._each = {int(number): (kept[_MODEL_W.format(int(number))], primal) for number, primal, _ in lines}
        self._standing = {int(number) for number, _, stands in lines if stands}

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which a new ModelWeights goes on, as its `kept`."""
        lines = [(number, primal, number in self._standing) for number, (_, primal) in self._each.items()]
        arrays = {_MODEL_W.format(number): w for number, (w, _) in self._each.items()}
        return {_MODEL: np.array(lines, float), **arrays} if lines else {}

    def offer(self, number: int, w: Array, primal: float) -> None:
        """Let w, or an earlier w of less P, stand for a task. `primal`: P at w, which the caller changes no more."""
        if number not in self._each or primal <= self._each[number][1]:
            self._each[number] = w, primal
        self._standing.add(number)

    def forget(self, number: int) -> None:
        """Drop the w held for a task: its model gets the w of alpha."""
        self._each.pop(number, None)
        self._standing.discard(number)

    def settle(self, converged: Array, is_over: bool) -> None:
        """Update which w are held at the end of a pass; `converged` (count,) tells which tasks have converged.

        A converged task loses a w that does not stand. A w no longer stands for another task, which is trained further,
        unless `is_over`.
        """
        for number in list(self._each):
            if converged[number] and number not in self._standing:
                self.forget(number)
            elif not (converged[number] or is_over):
                self._standing.discard(number)

    def take_better(self, primal: Array) -> bool:
        """Let each w stand whose P is less than `primal` (count,); return whether any of them did not stand before."""
        better = {number for number, (_, own) in self._each.items() if own < _LESS * primal[number]} - self._standing
        self._standing |= better
        return bool(better)

    def columns(self) -> dict[int, Array]:
        """Return each w (features,) that stands, by the number of its task."""
        return {number: self._each[number][0] for number in sorted(self._standing)}
