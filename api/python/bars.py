"""How an estimator with `verbose` shows what it does: a bar of tqdm, in a notebook or on a terminal."""

import math
from typing import Any

from streamsvm.service.commands.display import display, progress_line


class Silent:
    """Shows nothing."""

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """What a job has to show by now."""

    def close(self) -> None:
        """It is over."""


class Bar(Silent):
    """Fills as M+ - M- falls to the tolerance, on a logarithmic scale; a part each, if there are several lanes."""

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
        """It is over."""
        self._bar.update(1.0 - self._bar.n)
        self._bar.close()

    def _share(self, gap: float | None) -> float:
        """Of the way to the tolerance."""
        if not gap or gap <= 0 or self._tolerance is None:
            return 0.0
        self._first = max(gap, self._first or gap)
        way = math.log(self._first / self._tolerance)
        return min(1.0, max(0.0, math.log(self._first / gap) / way)) if way > 0 else 1.0


class Lines(Silent):
    """Where there is no tqdm: as the command line does."""

    def __init__(self, tolerance: float | None) -> None:
        self._display = display(False, tolerance)

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        self._display(progress, history)


def progress_bar(verbose: bool, tolerance: float | None) -> Silent:
    """The one that suits."""
    if not verbose:
        return Silent()
    try:
        return Bar(tolerance)
    except ModuleNotFoundError:
        return Lines(tolerance)
