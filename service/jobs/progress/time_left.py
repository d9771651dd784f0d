"""Estimates how long a running job still takes, and counts its lanes that are done."""

from collections.abc import Mapping
from math import ceil, inf, log
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.run.state import SOLVER_PHASES, read_lanes
from streamsvm.trainer.problem.objective import relative_gap
from streamsvm.trainer.updates.convergence import StoppingTargets

PASSES_FOR_RATE = 4
_LEAST_OF_NEWTON = 0.25  # share of the time so far that Newton steps are taken to go on for
_FARTHEST = 10.0  # times the time so far: no telling where sweeps would take longer, and Newton steps may come


def eta_seconds(
    page: Mapping[str, float], lane: Mapping[str, Any], limits: JobSpec, history: list[dict]
) -> float | None:
    """Estimate the seconds until all lanes of a job end; None where there is no telling, as in a search for C.

    Lanes that are to come are taken to need as long, each, as those before and those that run now.
    page: values of the control page; lane: see `run_file.running_lanes`; history: the last passes of the job
    """
    if limits.searches_C:
        return None
    elapsed, before = page["elapsed_seconds"], lane.get("seconds_before", 0.0)
    n_before, n_running, used = lane["number"], lane["count"], elapsed - before
    usual = max(0.0, n_running * before / n_before - used) if n_before else None
    phase = SOLVER_PHASES[int(page["solver_phase"]) - 1] if page["solver_phase"] else None
    if phase == "newton":
        left: float | None = max(usual or 0.0, _newton_seconds_left(page, used, limits.relative_gap))
    elif phase == "sweep" and page["sweeps"] and 0.0 < page["seconds_left"] < _FARTHEST * used:
        left = page["seconds_left"]
    else:
        own = [record for record in history if (record.get("lane") or 0) == n_before]
        left = _by_passes(own, limits, limits.max_passes - page["finished_passes"])
    left = usual if left is None else left
    if left is None:
        return None
    left += (lane["of"] - n_before - n_running) * (elapsed + left) / (n_before + n_running)
    return left if limits.max_seconds is None else min(left, max(0.0, limits.max_seconds - elapsed))


def _newton_seconds_left(page: Mapping[str, float], used: float, target: float | None) -> float:
    """Estimate the seconds until Newton steps end, where the lanes have taken `used` seconds.

    The relative gap hardly falls at first, and steps end soon once it does: by its rate alone they would take far too
    long. They are taken to last as long as all before them at most, and a quarter of that at least, to confirm the gap.
    """
    gap = relative_gap(page["primal_bound"], page["dual_objective"])
    if target is None or not 0.0 < gap < 1.0:
        return used
    return used * min(1.0, max(_LEAST_OF_NEWTON, log(target) / log(gap) - 1.0))


def _by_passes(history: list[dict], limits: JobSpec, most: float) -> float | None:
    """Estimate the seconds of at most `most` more passes, if they go on as the last ones; None with fewer than two."""
    last = history[-PASSES_FOR_RATE:]
    if len(last) < 2:
        return None
    passes = len(last) - 1
    seconds = (last[-1]["elapsed_seconds"] - last[0]["elapsed_seconds"]) / passes
    targets = {"gap": limits.tolerance, "relative_gap_bound": limits.relative_gap}
    left = [
        _passes_left(last[0][name], last[-1][name], target, passes)
        for name, target in targets.items()
        if target is not None
    ]
    return seconds * min(most, max(left, default=inf))


def _passes_left(first: float | None, now: float | None, target: float, passes: int) -> float:
    """Return how many passes a figure takes to its target if it falls as in the last `passes`; inf if it does not."""
    if now is not None and now <= target:
        return 0.0
    if first is None or now is None or not 0 < now < first:
        return inf
    return ceil(passes * log(now / target) / log(first / now) - 1e-9)


def lanes_done(run: Path, lane: Mapping[str, Any], limits: JobSpec) -> int:
    """Return how many lanes of a job are done: those before the run's, and those of the run at their targets."""
    targets = StoppingTargets(limits.tolerance, limits.relative_gap)
    names = ("converged_by", "M_plus", "M_minus", "primal_bound", "dual_objective")
    reached = (
        by or targets.reached(M_plus - M_minus, relative_gap(primal, dual))
        for by, M_plus, M_minus, primal, dual in read_lanes(run)[[*names]][: lane["count"]].tolist()
        if primal
    )
    return lane["number"] + sum(map(bool, reached))
