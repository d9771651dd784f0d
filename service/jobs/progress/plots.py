"""Draws the gap of each lane over time by matplotlib."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite, nan
from typing import Any

_MOST_NAMED = 8  # lanes; if a job has more, those not chosen are thin lines without a name
_WORST_NAMED = 3
_MOST_DOTS = 30  # points of a line that are marked
_NEWTON = {"linestyle": "", "marker": "D", "markersize": 4, "markerfacecolor": "none"}  # the mark of a Newton step

Curve = list[tuple[float, float]]  # seconds of the job, gap; nan where it is not known or not above 0


def lane_curves(passes: Sequence[Mapping[str, Any]], of_steps: bool = False) -> dict[int, Curve]:
    """Return, by lane number, the lane's figure (see `lane_figure`) after each of its sweeps and passes.

    of_steps  only after Newton steps in which the lane takes part
    """
    found: dict[int, Curve] = {}
    name = lane_figure(passes)
    for record in with_sweeps(passes):
        for lane in _lanes_in(record):
            if of_steps and lane.get("system_rows") is None:
                continue
            found.setdefault(lane["lane"], []).append((record["elapsed_seconds"], _positive(lane[name])))
    return found


def lane_figure(passes: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the figure that is drawn: `gap`, or `relative_gap_bound` for solvers without M+ and M-."""
    gaps = (lane["gap"] for record in passes for lane in _lanes_in(record))
    return "gap" if any(gap is not None for gap in gaps) else "relative_gap_bound"


def with_sweeps(passes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the records of passes, and before each pass the records of its sweeps and Newton steps."""
    for record in passes:
        own = (*record.get("sweeps", ()), *record.get("newton", ()))
        yield from ({"lane": record.get("lane"), **each} for each in own)
        yield record


def draw_curves(axes: Any, passes: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> None:
    """Draw a line for each lane over seconds. Lanes of `chosen_lanes` are labelled by `names`, or by their number."""
    curves, steps = lane_curves(passes), lane_curves(passes, of_steps=True)
    chosen = chosen_lanes(curves)
    for lane in curves.keys() - chosen.keys():
        axes.semilogy(*zip(*curves[lane], strict=True), color="grey", linewidth=0.5, alpha=0.5, label="_other")
    for lane, why in chosen.items():
        name = names.get(lane, f"lane {lane + 1}")
        _draw_line(axes, curves[lane], f"{name} ({why})" if why else name, linewidth=1)
    _draw_steps(axes, [steps[lane] for lane in chosen if lane in steps])


def chosen_lanes(curves: Mapping[int, Curve]) -> dict[int, str]:
    """Return the lanes to label, and why if not all are: the worst ones, and the best."""
    if len(curves) <= _MOST_NAMED:
        return dict.fromkeys(sorted(curves), "")
    known = {lane: [value for _, value in curve if isfinite(value)] for lane, curve in curves.items()}
    last = {lane: values[-1] for lane, values in known.items() if values}
    ranked = sorted(last, key=lambda lane: -last[lane])
    chosen = {**dict.fromkeys(ranked[:_WORST_NAMED], "worst"), **dict.fromkeys(ranked[-1:], "best")}
    return dict(sorted(chosen.items()))


def _lanes_in(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a pass's figures for each of its lanes; records of old jobs with one lane do not name the lane."""
    several = record.get("lanes")
    return [{**record, "lane": record.get("lane") or 0}] if several is None else several


def _draw_line(axes: Any, curve: Curve, label: str, **style: Any) -> None:
    """Draw a curve, with dots if it has few points."""
    is_short = sum(isfinite(value) for _, value in curve) <= _MOST_DOTS
    axes.semilogy(*(zip(*curve, strict=True) if curve else ((), ())), label=label, marker="." * is_short, **style)


def _draw_steps(axes: Any, curves: Iterable[Curve]) -> None:
    """Mark the points of curves that are Newton steps, with one entry in the legend."""
    points = [point for curve in curves for point in curve if isfinite(point[1])]
    if points:
        axes.semilogy(*zip(*points, strict=True), label="Newton step", color="black", **_NEWTON)


def _positive(value: float | None) -> float:
    return value if value is not None and value > 0 else nan
