"""The figures of StreamSVM's paper, from our own runs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tests.bench.papers.figures import draw, one_legend
from tests.bench.papers.streamsvm_runs import CONTENDERS, CS, Measured


def difference_figure(measured: Sequence[Measured]) -> Figure:
    """Relative function value difference against updates, a panel for each set and C."""
    figure = Figure(figsize=(18, 2.1 * len(measured) + 0.6), layout="constrained", dpi=130)
    panels = figure.subplots(len(measured), len(CS), squeeze=False)
    for one, line in zip(measured, panels, strict=True):
        for (C, optimum), axes in zip(one.optima.items(), line, strict=True):
            draw(axes, one.runs[C], lambda point: point.updates, optimum.difference)
            axes.set_title(f"{one.data.name}, C = {C:g}", fontsize=9)
        line[0].set_ylabel("(P - P*) / P*", fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("updates a row", fontsize=8)
    one_legend(figure, panels.ravel(), len(CONTENDERS))
    return figure


def time_figure(measured: Sequence[Measured]) -> Figure:
    """It and the duality gap against seconds, at C = 1."""
    figure = Figure(figsize=(2.3 * len(measured), 4.6), layout="constrained", dpi=130)
    panels = figure.subplots(2, len(measured), squeeze=False)
    for one, (difference, gap) in zip(measured, panels.T, strict=True):
        draw(difference, one.runs[1.0], lambda point: point.seconds, one.optima[1.0].difference)
        draw(gap, one.runs[1.0], lambda point: point.seconds, lambda point: point.gap)
        difference.set_title(f"{one.data.name}, C = 1", fontsize=9)
        gap.set_xlabel("processor time (s)", fontsize=8)
    panels[0][0].set_ylabel("(P - P*) / P*", fontsize=8)
    panels[1][0].set_ylabel("relative duality gap (P - D) / P", fontsize=8)
    one_legend(figure, panels.ravel(), len(CONTENDERS))
    return figure
