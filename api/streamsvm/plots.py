"""A picture of how training converged."""

from collections.abc import Iterator, Sequence
from typing import Any

from service.jobs.plots import chosen_lanes, lane_curves


def plot_history(history: Sequence[dict[str, Any]], tolerance: float | None, ax: Any) -> Any:
    """M+ - M- over seconds, a curve for each lane, into these axes, or new ones; returns them."""
    if ax is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra, and slow to import

        ax = plt.subplots(layout="constrained")[1]
    curves = lane_curves(_points(history))
    for lane in chosen_lanes(curves, set()):
        ax.semilogy(*zip(*curves[lane], strict=True), marker=".", label=f"problem {lane + 1}" * (len(curves) > 1))
    if tolerance is not None:
        ax.axhline(tolerance, linestyle="--", color="grey", label="tolerance")
    ax.set(xlabel="seconds", ylabel="M+ - M-")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def _points(history: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each sweep of a pass, and the pass."""
    for record in history:
        yield from ({"lane": record.get("lane"), **sweep} for sweep in record.get("sweeps", ()))
        yield record
