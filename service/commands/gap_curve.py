"""Draws M+ - M- as text: a bar for each sweep and Newton step, whose height is the logarithm."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 60, 8  # characters of the area of bars
_MARGIN = 8  # characters of the labels on the left
_MOST_DECADES = 12
_BLOCKS, _ASCII = " ▁▂▃▄▅▆▇█", " ...::::#"
_EIGHTHS = len(_BLOCKS) - 1


class GapCurve:
    """M+ - M- of one lane after each sweep and Newton step, or each pass if there are neither, from a job's progress.

    values    one for each from the first on; one that no progress reported has the value of the one before
    n_newton  number of values that are of Newton steps
    """

    def __init__(self) -> None:
        self.unit = "sweep"
        self._lane: Any = None
        self._begin()

    @property
    def caption(self) -> str:
        """Says what the values are of."""
        if not self.n_newton:
            return f"{self.unit} 1 to {len(self.values)}"
        return f"sweeps: {len(self.values) - self.n_newton}, Newton steps: {self.n_newton}"

    def note(self, progress: Mapping[str, Any]) -> None:
        """Add a job's progress; progress of another lane begins a new curve."""
        if progress["lane"] != self._lane:
            self._lane = progress["lane"]
            self._begin()
        gap, sweep, step = progress["gap"], progress["sweep"], (progress.get("newton") or {"step": 0})["step"]
        if gap is None or not 0 < gap < math.inf:
            return
        self.unit = "sweep" if sweep or step else "pass"
        new = self._new(sweep, step)
        number = len(self.values) + new if sweep or step else progress["pass"]
        last = self.values[-1] if self.values else gap
        self.values += [last] * (number - len(self.values))
        self.values[-1] = gap

    def _begin(self) -> None:
        self.values: list[float] = []
        self.n_newton = 0
        self._sweep = self._step = 0  # the latest sweep of this pass, and the latest Newton step of all passes

    def _new(self, sweep: int, step: int) -> int:
        """Return the number of sweeps and Newton steps since the last progress."""
        n_sweeps = sweep - self._sweep if sweep >= self._sweep else sweep
        n_steps = max(0, step - self._step)  # an attempt that goes on from a checkpoint repeats steps
        self._sweep, self._step = sweep, step
        self.n_newton += n_steps
        return n_sweeps + n_steps


def picture(
    values: Sequence[float], caption: str, tolerance: float | None, width: int = WIDTH, blocks: bool = True
) -> list[str]:
    """Draw values > 0; returns lines of text, none if there are no values. A dotted line marks the tolerance.

    caption  says what the values are of
    blocks   use Unicode block characters, else ASCII
    """
    if not values:
        return []
    low, high = _decades(values, tolerance)
    rows = max(1, HEIGHT // (high - low)) * (high - low)
    bars = _columns(values, width)
    heights = [round(_EIGHTHS * rows * (math.log10(value) - low) / (high - low)) for value in bars]
    target = None if tolerance is None else max(0, math.ceil(rows * (math.log10(tolerance) - low) / (high - low)) - 1)
    marks = _BLOCKS if blocks else _ASCII
    lines = [f"{'M+ - M-':>{_MARGIN}}"]
    for row in reversed(range(rows)):
        bar = "".join(marks[min(max(height - _EIGHTHS * row, 0), _EIGHTHS)] for height in heights)
        if row == target:
            bar = f"{bar.replace(' ', '.').ljust(width, '.')} tolerance"
        lines.append(f"{_label(low, high, row, rows):>{_MARGIN}} |{bar.rstrip()}")
    each = len(values) / len(bars)
    caption += "" if each <= 1 else f", {each:.3g} a bar"
    return [*lines, f"{_number(low):>{_MARGIN}} +{'-' * width}", f"{'':{_MARGIN}}  {caption}"]


def _decades(values: Sequence[float], tolerance: float | None) -> tuple[int, int]:
    """The powers of ten (low, high) that enclose the values and the tolerance, at most _MOST_DECADES apart."""
    high = math.ceil(math.log10(max(values)) - 1e-9)
    low = math.floor(math.log10(min(values)) - 1e-9)
    if tolerance is not None:
        low = min(low, math.floor(math.log10(tolerance) + 1e-9))
    return max(low, high - _MOST_DECADES), high


def _columns(values: Sequence[float], width: int) -> list[float]:
    """The value at each column of the picture: a bar is up to four wide; of too many values, every few share one."""
    if len(values) <= width:
        wide = min(4, width // len(values))
        return [value for value in values for _ in range(wide)]
    return [values[(k + 1) * len(values) // width - 1] for k in range(width)]


def _label(low: int, high: int, row: int, rows: int) -> str:
    """The power of ten at the upper edge of a row, "" if no decade ends there."""
    each = rows // (high - low)
    return _number(low + (row + 1) // each) if (row + 1) % each == 0 else ""


def _number(power: int) -> str:
    return f"{10.0**power:g}"
