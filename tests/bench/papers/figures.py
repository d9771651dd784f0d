"""Figures as a paper prints them: curves that can be told apart in grey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import ArrayLike

from tests.bench.papers.trace import Point

FIGURES = Path(__file__).with_name("figures")
# Marks and dashes tell them apart as well as colours, and the colours differ in brightness.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "#c0392b", "linestyle": "--", "marker": "s"},
    {"color": "#2471a3", "linestyle": "-.", "marker": "^"},
    {"color": "#e59866", "linestyle": "-", "marker": "D"},
    {"color": "#1e8449", "linestyle": ":", "marker": "v"},
    {"color": "#8e44ad", "linestyle": "--", "marker": "x"},
    {"color": "#909497", "linestyle": "-", "marker": "+"},
)

Measure = Callable[[Point], float]
Curve = Sequence[tuple[float, float]]  # (x, y), x increasing
_STEPS = 60  # of a band


def panels_of(lines: int, columns: int, size: tuple[float, float], **shared: bool) -> tuple[Figure, np.ndarray]:
    """A figure of this size in inches, and its panels (lines, columns)."""
    figure = Figure(figsize=size, layout="constrained", dpi=130)
    return figure, figure.subplots(lines, columns, squeeze=False, **shared)


def draw_seeds(
    axes: Axes, x: ArrayLike, values: np.ndarray, label: str, style: Mapping[str, Any], marks: float = 1
) -> None:
    """Draw the median of `values` (seeds, k) at x (k,), and their range as a band."""
    _draw_band(axes, x, values.min(axis=0), np.median(values, axis=0), values.max(axis=0), label, style, marks)


def draw_runs(axes: Axes, runs: Mapping[str, Sequence[Sequence[Point]]], x: Measure, y: Measure) -> None:
    """`draw_bands` of figures of the points of runs."""
    draw_bands(axes, {name: [[(x(p), y(p)) for p in points] for points in seeds] for name, seeds in runs.items()})


def draw_bands(axes: Axes, curves: Mapping[str, Iterable[Curve]]) -> None:
    """For each name the median of its curves, one of each seed, and their range as a band, on logarithmic axes."""
    for style, (name, found) in zip(STYLES, curves.items(), strict=False):
        x, *of_y = band([curve for curve in found if curve])
        _draw_band(axes, x, *of_y, name, style, marks=0.1 if len(x) > 15 else 1)
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
    logs = np.log([at(curve, x) for curve in curves])
    return x, *(np.exp(of(logs, axis=0)) for of in (np.min, np.median, np.max))


def at(curve: Curve, places: np.ndarray | Sequence[float]) -> np.ndarray:
    """y (k,) at these places, between points in proportion to the logarithms."""
    with np.errstate(divide="ignore"):
        return np.exp(np.interp(np.log(places), *np.log(np.array(curve)).T))


def _draw_band(
    axes: Axes, x: ArrayLike, low: ArrayLike, middle: ArrayLike, high: ArrayLike, label: str,
    style: Mapping[str, Any], marks: float,
) -> None:  # fmt: skip
    axes.plot(x, middle, label=label, linewidth=1.2, markersize=3.5, markevery=marks, **style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)  # type: ignore[arg-type]


def logarithmic(axes: Axes) -> None:
    """Two logarithmic axes with few labels, and a grid."""
    axes.set(xscale="log", yscale="log")
    few_labels(axes.xaxis)
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain(axes)


def plain(axes: Axes) -> None:
    """Small labels, and a grid behind the curves."""
    axes.tick_params(labelsize=7, which="both")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def few_labels(axis: Axis) -> None:
    """Plain numbers beside a logarithmic axis, so few that they do not overlap."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def one_legend(figure: Figure, panels: Iterable[Axes], columns: int) -> None:
    """One legend for all panels, below them."""
    found = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def save(figure: Figure, name: str) -> str:
    """Write it beside the results; the line of Markdown that shows it."""
    FIGURES.mkdir(exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(FIGURES / f"{name}.png"))
    return f"![{name}](figures/{name}.png)"
