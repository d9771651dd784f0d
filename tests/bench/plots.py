"""Curves as pictures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.bench.contenders import CONTENDERS
from tests.bench.curve import LEVELS, difference
from tests.bench.measurement import Comparison

CURVES = Path(__file__).with_name("curves")


def plot(found: Comparison) -> Path:
    """Relative function value difference against seconds, the last repeat of each contender and peer."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="seconds", ylabel="(P - P*) / P*")
    axes.set_title(f"{found.name}: {found.data.n_rows:,} rows, cache {found.cache_bytes / 1e6:.3g} MB, C = 1")
    for name, curves in found.curves().items():
        points = sorted(curves[-1], key=lambda point: point.seconds)
        heights = [difference(point.objective, found.optimum) for point in points]
        width = 2.2 if name in CONTENDERS else 1.2
        if points:
            axes.plot([point.seconds for point in points], heights, marker=".", linewidth=width, label=name)
    for level in LEVELS:
        axes.axhline(level, color="lightgray", linewidth=0.8, zorder=0)
    axes.set_ylim(bottom=LEVELS[-1] / 10)
    axes.legend()
    CURVES.mkdir(exist_ok=True)
    path = CURVES / f"{found.name}.png"
    FigureCanvasAgg(figure).print_png(str(path))
    return path
