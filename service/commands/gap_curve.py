"""Draws M+ - M- as text: a bar for each sweep, whose height is the logarithm."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 60, 8  # characters of the area of bars
_MARGIN = 8  # characters of the labels on the left
_MOST_DECADES = 12
_BLOCKS, _ASCII = " ▁▂▃▄▅▆▇█", " ...::::#"
_EIGHTHS = len(_BLOCKS) - 1


class GapCurve:
    """M+ - M- of one lane after each sweep, or each pass if the solver has no sweeps, collected from a job's progress.

    values  one for each sweep from the first on; a sweep that no progress reported has the value of the one before
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self.unit = "sweep"
        self._lane: Any = None
        self._sweep = self._before = 0  # the latest sweep of this pass, and the number of sweeps of earlier passes

    def note(self, progress: Mapping[str, Any]) -> None:
        """Add a job's progress; progress of another lane begins a new curve."""
        if progress["lane"] != self._lane:
            self._lane = progress["lane"]
            self.values, self._sweep, self._before = [], 0, 0
        gap, sweep = progress["gap"], progress["sweep"]
        if gap is None or not 0 < gap < math.inf:
            return
        self.unit = "sweep" if sweep else "pass"
        if sweep < self._sweep:
            self._before = len(self.values)
        self._sweep = sweep
        number = self._before + sweep if sweep else progress["pass"]
        last = self.values[-1] if self.values else gap
        self.values += [last] * (number - len(self.values))
        self.values[-1] = gap


def picture(
    values: Sequence[float], unit: str, tolerance: float | None, width: int = WIDTH, blocks: bool = True
) -> list[str]:
    """Draw values > 0; returns lines of text, none if there are no values. A dotted line marks the tolerance.

    blocks  use Unicode block characters, else ASCII
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
    caption = f"{unit} 1 to {len(values)}" + ("" if each <= 1 else f", {each:.3g} a bar")
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
