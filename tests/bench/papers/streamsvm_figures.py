"""The figures of StreamSVM's paper, from our own runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench.papers.figures import STYLES, Measure, logarithmic, one_legend
from tests.bench.papers.streamsvm_runs import CONTENDERS, CS, Measured
from tests.bench.papers.trace import Point

Curve = Sequence[tuple[float, float]]  # (x, y), x increasing
_STEPS = 60  # of a band


def difference_figure(measured: Sequence[Measured]) -> Figure:
    """Relative function value difference against updates, a panel for each set and C."""
    figure = Figure(figsize=(18, 2.1 * len(measured) + 0.6), layout="constrained", dpi=130)
    panels = figure.subplots(len(measured), len(CS), squeeze=False)
    for one, line in zip(measured, panels, strict=True):
        for C, axes in zip(CS, line, strict=True):
            if C not in one.optima:
                axes.set_axis_off()
                continue
            _draw(axes, one.runs[C], lambda point: point.updates, one.optima[C].difference)
            axes.set_title(f"{one.data.name}, C = {C:g}", fontsize=9)
        first = next(axes for axes in line if axes.axison)
        first.set_ylabel("(P - P*) / P*", fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("updates a row", fontsize=8)
    one_legend(figure, panels.ravel(), len(CONTENDERS))
    return figure


def time_figure(measured: Sequence[Measured]) -> Figure:
    """It and the duality gap against seconds, at C = 1."""
    figure = Figure(figsize=(2.3 * len(measured), 4.6), layout="constrained", dpi=130)
    panels = figure.subplots(2, len(measured), squeeze=False)
    for one, (difference, gap) in zip(measured, panels.T, strict=True):
        _draw(difference, one.runs[1.0], lambda point: point.seconds, one.optima[1.0].difference)
        _draw(gap, one.runs[1.0], lambda point: point.seconds, lambda point: max(point.gap, 1e-9))
        difference.set_title(f"{one.data.name}, C = 1", fontsize=9)
        gap.set_xlabel("processor time (s)", fontsize=8)
    panels[0][0].set_ylabel("(P - P*) / P*", fontsize=8)
    panels[1][0].set_ylabel("relative duality gap (P - D) / P", fontsize=8)
    one_legend(figure, panels.ravel(), len(CONTENDERS))
    return figure


def draw_bands(axes: Axes, curves: Mapping[str, Iterable[Curve]]) -> None:
    """For each name the median of its curves, one of each seed, and their range as a band, on logarithmic axes."""
    for style, (name, found) in zip(STYLES, curves.items(), strict=False):
        x, low, middle, high = band([curve for curve in found if curve])
        marks = 0.1 if len(x) > 15 else 1
        axes.plot(x, middle, label=name, linewidth=1.2, markersize=3.5, markevery=marks, **style)  # type: ignore[arg-type]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)  # type: ignore[arg-type]
    logarithmic(axes)


def band(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, and the least, median and largest y there, where all curves have begun and none has ended."""
    if not curves:
        return (np.empty(0),) * 4
    x, y = [np.array([point[axis] for point in curves[0]]) for axis in (0, 1)]
    if len(curves) == 1:
        return x, y, y, y
    begin, end = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    x = np.geomspace(begin, end, _STEPS) if begin < end else np.array([begin])
    logs = [np.interp(np.log(x), *np.log(np.array(curve)).T) for curve in curves]
    return x, *(np.exp(of(logs, axis=0)) for of in (np.min, np.median, np.max))


def _draw(axes: Axes, runs: Mapping[str, Sequence[Sequence[Point]]], x: Measure, y: Measure) -> None:
    draw_bands(axes, {name: [[(x(p), y(p)) for p in points] for points in seeds] for name, seeds in runs.items()})
