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
    """Fills as M+ - M- and the relative gap fall to where training stops, on a logarithmic scale; each of several lanes
    fills an equal part."""

    def __init__(self, tolerance: float | None, relative_gap: float | None) -> None:
        from tqdm.auto import tqdm  # noqa: PLC0415 - an extra

        self._targets = {"gap": tolerance, "relative_gap_bound": relative_gap}
        self._first: dict[str, float] = {}
        self._bar = tqdm(total=1.0, bar_format="{percentage:3.0f}%|{bar}| {elapsed} {desc}", leave=True)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        lane = progress["lane"]
        done = (lane["number"] + lane["count"] * self._share(progress)) / lane["of"]
        self._bar.update(max(0.0, done - self._bar.n))
        self._bar.set_description_str(progress_line(progress, *self._targets.values()))

    def close(self) -> None:
        """Show that training has ended."""
        self._bar.update(1.0 - self._bar.n)
        self._bar.close()

    def _share(self, progress: dict[str, Any]) -> float:
        """Return the share of the way to the end, from 0 to 1: of what is farther from it."""
        shares = [
            self._share_of(name, progress[name], target) for name, target in self._targets.items() if target is not None
        ]
        return min(shares, default=0.0)

    def _share_of(self, name: str, now: float | None, target: float) -> float:
        if not now or now <= 0:
            return 0.0
        first = self._first[name] = max(now, self._first.get(name, now))
        way = math.log(first / target)
        return min(1.0, max(0.0, math.log(first / now) / way)) if way > 0 else 1.0


class Lines(Silent):
    """Prints the lines of the command line, where tqdm is not installed."""

    def __init__(self, tolerance: float | None, relative_gap: float | None) -> None:
        self._display = display(False, tolerance, relative_gap)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        self._display(progress, history)


def progress_bar(verbose: bool, tolerance: float | None, relative_gap: float | None) -> Silent:
    """Make the display for `verbose`."""
    if not verbose:
        return Silent()
    try:
        return Bar(tolerance, relative_gap)
    except ModuleNotFoundError:
        return Lines(tolerance, relative_gap)
