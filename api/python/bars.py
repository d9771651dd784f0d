"""Shows the progress of an estimator with `verbose`: a bar of tqdm, in a notebook or on a terminal."""

import math
from typing import Any

from streamsvm.service.commands.display import display, progress_line


class Silent:
    """Shows nothing."""

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Show the progress of a job; history: its finished passes."""

    def close(self) -> None:
        """Show that training has ended."""


class Bar(Silent):
    """Fills as M+ - M- falls to the tolerance, on a logarithmic scale; each of several lanes fills an equal part."""

    def __init__(self, tolerance: float | None) -> None:
        from tqdm.auto import tqdm  # noqa: PLC0415 - an extra

        self._tolerance = tolerance
        self._first: float | None = None
        self._bar = tqdm(total=1.0, bar_format="{percentage:3.0f}%|{bar}| {elapsed} {desc}", leave=True)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        lane = progress["lane"]
        done = (lane["number"] + lane["count"] * self._share(progress["gap"])) / lane["of"]
        self._bar.update(max(0.0, done - self._bar.n))
        self._bar.set_description_str(progress_line(progress, self._tolerance))

    def close(self) -> None:
        """Show that training has ended."""
        self._bar.update(1.0 - self._bar.n)
        self._bar.close()

    def _share(self, gap: float | None) -> float:
        """Return the share of the way to the tolerance, from 0 to 1."""
        if not gap or gap <= 0 or self._tolerance is None:
            return 0.0
        self._first = max(gap, self._first or gap)
        way = math.log(self._first / self._tolerance)
        return min(1.0, max(0.0, math.log(self._first / gap) / way)) if way > 0 else 1.0


class Lines(Silent):
    """Prints the lines of the command line, where tqdm is not installed."""

    def __init__(self, tolerance: float | None) -> None:
        self._display = display(False, tolerance)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        self._display(progress, history)


def progress_bar(verbose: bool, tolerance: float | None) -> Silent:
    """Make the display for `verbose`."""
    if not verbose:
        return Silent()
    try:
        return Bar(tolerance)
    except ModuleNotFoundError:
        return Lines(tolerance)
