"""Writes the trainer's report of a pass."""

import json
import os
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

from streamsvm.storage.run.figures import OF_TASK, figures_in, figures_of
from streamsvm.storage.run.state import State
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.updates.progress import NewtonStep, PassProgress, Sweep, TaskStep

NOT_IN_HISTORY = {"is_worth_a_look", "lanes", "sweeps", "newton"}  # fields left out, or written in another form
_AFTER_SWEEP = ("gaps", "objectives")  # groups of the figures of a sweep or a Newton step


def report(
    progress: PassProgress, settings: TrainerSettings, state: State, elapsed: float, slowdowns: list[dict[str, str]]
) -> dict:
    """Return the line of a job's history for a pass, as a dict for JSON. `elapsed`: seconds that the job has taken."""
    own = asdict(replace(progress, lanes=(), sweeps=(), newton=()))
    fields = {name.rstrip("_").lower(): value for name, value in own.items() if name not in NOT_IN_HISTORY}
    lanes = enumerate(progress.lanes, settings.lane)
    counts = [figure.name for figure in figures_in("counts", "waits") if figure.name not in fields]
    return {
        **fields,
        "pass": settings.passes_before + progress.pass_,
        "lane": settings.lane,
        **figures_of(progress, "gaps"),
        **({"lanes": [{"lane": k, **figures_of(lane, *OF_TASK)} for k, lane in lanes]} if progress.lanes else {}),
        **({"sweeps": [_of_sweep(sweep, settings.lane) for sweep in progress.sweeps]} if progress.sweeps else {}),
        **({"newton": [told_step(step, settings.lane) for step in progress.newton]} if progress.newton else {}),
        **{name: state.control[name] for name in counts},
        "elapsed_seconds": elapsed,
        **({"slowdowns": slowdowns} if slowdowns else {}),
    }


def _of_sweep(sweep: Sweep, first: int) -> dict:
    lanes = [{"lane": number, **figures_of(lane, "gaps")} for number, lane in enumerate(sweep.found.lanes, first)]
    own = {"sweep": sweep.number, "elapsed_seconds": sweep.elapsed_seconds, **figures_of(sweep.found, *_AFTER_SWEEP)}
    return {**own, "lanes": lanes} if lanes else own


def told_step(step: NewtonStep, first: int) -> dict:
    """Return a Newton step as the history lists it. `first` is the number of the run's first lane within the job."""
    lanes = [
        {"lane": first + number, **_system(step.tasks.get(number)), **figures_of(lane, "gaps")}
        for number, lane in enumerate(step.found.lanes)
    ]
    own = {
        "step": step.number,
        "elapsed_seconds": step.elapsed_seconds,
        "scans": step.scans,
        **_system(step.largest),
        **figures_of(step.found, *_AFTER_SWEEP),
    }
    return {**own, "lanes": lanes} if lanes else own


def _system(taking_part: TaskStep | None) -> dict[str, float | None]:
    """Return rows and sigma of a lane's system: None if the lane takes no part, sigma also None for smooth losses."""
    rows, sigma = taking_part or (None, None)
    return {"system_rows": rows, "sigma": sigma if sigma is not None and isfinite(sigma) else None}


def write_line(told: dict[str, Any], output: int = 1) -> None:
    """Write a dict as one line of JSON to a file descriptor. Raises OSError unless the whole line is written.

    `print` would lose the rest silently where standard output has no buffer, as in a container.
    """
    rest = memoryview(json.dumps(told).encode() + b"\n")
    while rest:
        rest = rest[os.write(output, rest) :]
