"""Draws jobs by matplotlib: the gap of each lane over time, and the cross-validation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.scoring import figure_among
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.storage.run.figures import FIGURES

_PANEL_INCHES = (7, 4.5)
_MOST_NAMED = 8  # lanes; if a job has more, those not chosen are thin lines without a name
_WORST_NAMED = 3
_MOST_RUNNING = 4
_MOST_DOTS = 30  # points of a line that are marked
_NEWTON = {"linestyle": "", "marker": "D", "markersize": 4, "markerfacecolor": "none"}  # the mark of a Newton step
_LABELS = {figure.name: figure.label for figure in FIGURES.values() if figure.label}
_PARTS_OF_NAMES = ("class", "fold", "C")

Curve = list[tuple[float, float]]  # seconds of the job, gap; nan where it is not known or not above 0


def draw(job: Mapping[str, Any], passes: Sequence[Mapping[str, Any]], output: Path, metric: str | None = None) -> None:
    """Write the figure of `plot_job` to a file, in the format that the file's name says."""
    plot_job(job, passes, metric).savefig(output, dpi=150)


def plot_job(job: Mapping[str, Any], passes: Sequence[Mapping[str, Any]], metric: str | None = None) -> Any:
    """Return the figure of a job with these passes; if it has a cross-validation, a second panel shows that.

    metric  metric of the cross-validation; None: the metric that C was selected by

    Raises ServiceError: no_matplotlib, no_such_metric.
    """
    cv = (job["result"] or {}).get("cv", ())
    if metric is not None:
        _check_metric(metric, cv)
    figure = _new_figure(2 if cv else 1)
    panels = figure.subplots(2 if cv else 1, squeeze=False)[:, 0]
    if len(lane_curves(passes)) > 1:
        _draw_lanes(panels[0], job, passes)
    else:
        _draw_one(panels[0], job, passes)
    panels[0].set_title(f"{job['spec']['dataset']}, C = {_shown_C(job['spec']['C'])}: {job['state']}")
    if cv:
        _draw_cross_validation(
            panels[1], cv, metric or figure_among(cv[0]["mean"], job["spec"]["scoring"]), job["result"]["selected_C"]
        )
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure


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


def draw_curves(
    axes: Any,
    passes: Sequence[Mapping[str, Any]],
    running: set[int],
    names: Mapping[int, str],
) -> None:
    """Draw a line for each lane over seconds. Lanes of `chosen_lanes` are labelled by `names`, or by their number."""
    curves, steps = lane_curves(passes), lane_curves(passes, of_steps=True)
    chosen = chosen_lanes(curves, running)
    for lane in curves.keys() - chosen.keys():
        axes.semilogy(*zip(*curves[lane], strict=True), color="grey", linewidth=0.5, alpha=0.5, label="_other")
    for lane, why in chosen.items():
        name = names.get(lane, f"lane {lane + 1}")
        _draw_line(axes, curves[lane], f"{name} ({why})" if why else name, linewidth=1)
    _draw_steps(axes, [steps[lane] for lane in chosen if lane in steps])


def running_lanes(job: Mapping[str, Any], passes: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the lanes of the last pass; an empty set if the job has ended."""
    return {lane["lane"] for lane in _lanes_in(passes[-1])} if TRANSITIONS[job["state"]] else set()


def chosen_lanes(curves: Mapping[int, Curve], running: set[int]) -> dict[int, str]:
    """Return the lanes to label, and why if not all are: the worst, the best, and the worst of the running lanes."""
    if len(curves) <= _MOST_NAMED:
        return dict.fromkeys(sorted(curves), "")
    known = {lane: [value for _, value in curve if isfinite(value)] for lane, curve in curves.items()}
    last = {lane: values[-1] for lane, values in known.items() if values}
    ranked = sorted(last, key=lambda lane: -last[lane])
    chosen = {**dict.fromkeys(ranked[:_WORST_NAMED], "worst"), **dict.fromkeys(ranked[-1:], "best")}
    run = [lane for lane in ranked if lane in running and lane not in chosen]
    return dict(sorted({**chosen, **dict.fromkeys(run[:_MOST_RUNNING], "runs")}.items()))


def lane_names(lanes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each lane, made of what differs between the lanes: class, fold or C."""
    told = [part for part in _PARTS_OF_NAMES if len({lane.get(part) for lane in lanes}) > 1]
    return [", ".join(_part(part, lane.get(part)) for part in told) for lane in lanes]


def _lanes_in(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a pass's figures for each of its lanes; records of old jobs with one lane do not name the lane."""
    several = record.get("lanes")
    return [{**record, "lane": record.get("lane") or 0}] if several is None else several


def _part(name: str, value: Any) -> str:
    if name == "C":
        return f"C = {value:g}"
    if name == "fold":
        return "all rows" if value is None else f"fold {value}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _draw_lanes(axes: Any, job: Mapping[str, Any], passes: Sequence[Mapping[str, Any]]) -> None:
    names = dict(enumerate(lane_names((job["result"] or {}).get("lanes", ()))))
    draw_curves(axes, passes, running_lanes(job, passes), names)
    name = lane_figure(passes)
    limit = "tolerance" if name == "gap" else "relative_gap"
    if job["spec"][limit] is not None:
        _draw_bound(axes, job, limit)
    axes.set(xlabel="seconds", ylabel=FIGURES[name].label)


def _draw_one(axes: Any, job: Mapping[str, Any], passes: Sequence[Mapping[str, Any]]) -> None:
    """Draw a job of one lane. If there is a certificate, which is over all rows, the curves end at its figures."""
    records = list(with_sweeps(passes))
    certificate = (job["result"] or {}).get("certificate")
    if certificate and records:
        end = {"gap": certificate["gap"], "relative_gap_bound": certificate["relative_duality_gap"]}
        records[-1] = {**records[-1], **end}
    for name, label in _LABELS.items():
        _draw_line(axes, _curve(records, name), label)
    _draw_steps(axes, [_curve([each for each in records if "system_rows" in each], name) for name in _LABELS])
    for name in ("tolerance", "relative_gap"):
        if job["spec"][name] is not None:
            _draw_bound(axes, job, name)
    axes.set(xlabel="seconds")


def _draw_line(axes: Any, curve: Curve, label: str, **style: Any) -> None:
    """Draw a curve, with dots if it has few points."""
    is_short = sum(isfinite(value) for _, value in curve) <= _MOST_DOTS
    axes.semilogy(*(zip(*curve, strict=True) if curve else ((), ())), label=label, marker="." * is_short, **style)


def _draw_steps(axes: Any, curves: Iterable[Curve]) -> None:
    """Mark the points of curves that are Newton steps, with one entry in the legend."""
    points = [point for curve in curves for point in curve if isfinite(point[1])]
    if points:
        axes.semilogy(*zip(*points, strict=True), label="Newton step", color="black", **_NEWTON)


def _curve(records: Iterable[Mapping[str, Any]], name: str) -> Curve:
    return [(record["elapsed_seconds"], _positive(record[name])) for record in records]


def _draw_bound(axes: Any, job: Mapping[str, Any], name: str) -> None:
    axes.axhline(job["spec"][name], linestyle="--", color="grey", label=f"{name} {job['spec'][name]:g}")


def _draw_cross_validation(axes: Any, cv: Sequence[Mapping[str, Any]], metric: str, selected: float) -> None:
    known = [(each["C"], each["mean"][metric], each["std"][metric]) for each in cv if each["mean"][metric] is not None]
    values, mean, std = zip(*known, strict=True)
    axes.semilogx(values, mean, marker="o", label=f"{metric}, mean of {len(cv[0]['folds'])} folds")
    low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
    axes.fill_between(values, low, high, alpha=0.2, label="standard deviation")
    axes.axvline(selected, linestyle="--", color="grey", label=f"selected: C = {selected:g}")
    axes.set(xlabel="C", ylabel=metric.replace("_", " "))


def _check_metric(metric: str, cv: Sequence[Mapping[str, Any]]) -> None:
    if not cv:
        raise ServiceError("no_such_metric", "the job has no cross-validation to draw", "Leave --metric out.")
    known = [name for name in cv[0]["mean"] if any(each["mean"][name] is not None for each in cv)]
    if metric not in known:
        raise ServiceError(
            "no_such_metric", f"there is no {metric} in its cross-validation", f"It has {', '.join(known)}."
        )


def _shown_C(C: float | list[float]) -> str:
    if not isinstance(C, list):
        return f"{C:g}"
    return f"{min(C):g} to {max(C):g}" if len(C) > 1 else f"{C[0]:g}"


def _positive(value: float | None) -> float:
    return value if value is not None and value > 0 else nan


def _new_figure(n_panels: int) -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise ServiceError("no_matplotlib", "matplotlib is not installed", "pip install 'streamsvm[plot]'") from None
    width, height = _PANEL_INCHES
    return Figure((width, height * n_panels), layout="constrained")
