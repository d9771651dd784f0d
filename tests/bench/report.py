"""Pieces of Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from textwrap import wrap

_WIDTH = 120


def cell(number: float | None, form: str = ".3g") -> str:
    """A number for a table; thousands as whole numbers."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if form == ".3g" and 1000 <= number < 1e6 else f"{number:{form}}"


def spread(numbers: Sequence[float | None], form: str = ".3g") -> str:
    """The median and half the range of repeats, for a table; None counts as infinite."""
    known = [math.inf if number is None else number for number in numbers]
    middle, half = median(known), (max(known) - min(known)) / 2 if max(known) < math.inf else math.inf
    if middle == math.inf:
        return "-"
    return f"{middle:{form}}" if half == 0.0 else f"{middle:{form}} ± {_deviation(half, form)}"


def _deviation(half: float, form: str) -> str:
    """Two digits of it are enough, unless the form says what they are."""
    if not form.endswith("g"):
        return f"{half:{form}}"
    return f"{half:.0f}" if half >= 10.0 else f"{half:.2g}"


def row(*cells: object) -> str:
    """A line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def header(*names: str, words: int = 1) -> list[str]:
    """The first two lines of a table; its first `words` columns are words, the others numbers."""
    return [row(*names), row(*["---"] * words, *["--:"] * (len(names) - words))]


def prose(text: str) -> list[str]:
    """Lines of a paragraph, and an empty one after it."""
    return [*wrap(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False), ""]
