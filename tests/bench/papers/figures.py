"""Figures as a paper prints them: curves that can be told apart in grey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

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
STYLES: tuple[dict[str, object], ...] = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "#c0392b", "linestyle": "--", "marker": "s"},
    {"color": "#2471a3", "linestyle": "-.", "marker": "^"},
    {"color": "#e59866", "linestyle": "-", "marker": "D"},
    {"color": "#1e8449", "linestyle": ":", "marker": "v"},
    {"color": "#8e44ad", "linestyle": "--", "marker": "x"},
    {"color": "#909497", "linestyle": "-", "marker": "+"},
)

Measure = Callable[[Point], float]


def draw(axes: Axes, curves: Mapping[str, Sequence[Point]], x: Measure, y: Measure) -> None:
    """A curve for each name, in the style of its place, on two logarithmic axes."""
    for style, (name, points) in zip(STYLES, curves.items(), strict=False):
        axes.plot(
            [x(point) for point in points], [y(point) for point in points],
            label=name, linewidth=1.2, markersize=3.5, markevery=0.08 if len(points) > 15 else 1, **style,  # type: ignore[arg-type]
        )  # fmt: skip
    logarithmic(axes)


def draw_seeds(
    axes: Axes, x: ArrayLike, values: np.ndarray, label: str, style: Mapping[str, object], marks: float = 1
) -> None:
    """Draw the median of `values` (seeds, k) at x (k,), and their range as a band."""
    axes.plot(x, np.median(values, axis=0), label=label, linewidth=1.2, markersize=3.5, markevery=marks, **style)  # type: ignore[arg-type]
    axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=style["color"], alpha=0.15, linewidth=0)  # type: ignore[arg-type]


def logarithmic(axes: Axes) -> None:
    """Two logarithmic axes with few labels, and a grid."""
    axes.set(xscale="log", yscale="log")
    few_labels(axes.xaxis)
    axes.yaxis.set_minor_formatter(NullFormatter())
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
