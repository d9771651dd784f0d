"""Draws how training converged."""

from collections.abc import Sequence
from typing import Any

from streamsvm.service.jobs.progress.plots import FIGURES, draw_curves, lane_curves, lane_figure


def plot_history(history: Sequence[dict[str, Any]], tolerance: float | None, ax: Any) -> Any:
    """Draw M+ - M- over seconds, a curve for each lane, into `ax` or new axes; return the axes."""
    if ax is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra, and slow to import

        ax = plt.subplots(layout="constrained")[1]
    curves, name = lane_curves(history), lane_figure(history)
    several = {lane: f"problem {lane + 1}" for lane in curves}
    draw_curves(ax, curves, set(), several if len(curves) > 1 else dict.fromkeys(curves, FIGURES[name]))
    if tolerance is not None and name == "gap":
        ax.axhline(tolerance, linestyle="--", color="grey", label="tolerance")
    ax.set(xlabel="seconds", ylabel=FIGURES[name])
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax
