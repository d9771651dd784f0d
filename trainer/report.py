"""Writes the trainer's report of a pass."""

import json
import os
from dataclasses import asdict, replace
from typing import Any

from streamsvm.storage.run.state import State
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.updates.progress import Progress, Sweep

NOT_IN_HISTORY = {"is_worth_a_look", "lanes", "sweeps"}  # fields of Progress left out, or written in another form


def report(
    progress: Progress, settings: TrainerSettings, state: State, elapsed: float, slowdowns: list[dict[str, str]]
) -> dict:
    """The line of a pass in a job's history."""
    own = asdict(replace(progress, lanes=(), sweeps=()))
    fields = {name.rstrip("_").lower(): value for name, value in own.items() if name not in NOT_IN_HISTORY}
    reader = ("rows_streamed", "rows_screened", "resident_rows", "resident_bytes", "evicted_rows")
    waits = ("reader_wait_seconds", "trainer_wait_seconds")
    return {
        **fields,
        "pass": settings.passes_before + progress.pass_,
        "lane": settings.lane,
        "gap": progress.gap,
        "relative_gap_bound": progress.relative_gap_bound,
        **({"lanes": _of_lanes(progress, settings.lane)} if progress.lanes else {}),
        **({"sweeps": [_of_sweep(sweep, settings.lane) for sweep in progress.sweeps]} if progress.sweeps else {}),
        **{name: state.control[name] for name in (*reader, *waits)},
        "elapsed_seconds": elapsed,
        **({"slowdowns": slowdowns} if slowdowns else {}),
    }


def _of_lanes(progress: Progress, first: int) -> list[dict]:
    return [
        {
            "lane": number,
            "m_plus": lane.M_plus,
            "m_minus": lane.M_minus,
            "gap": lane.gap,
            "dual_objective": lane.dual_objective,
            "primal_bound": lane.primal_bound,
            "relative_gap_bound": lane.relative_gap_bound,
        }
        for number, lane in enumerate(progress.lanes, first)
    ]


def _of_sweep(sweep: Sweep, first: int) -> dict:
    lanes = [{"lane": number, **_gaps(lane)} for number, lane in enumerate(sweep.found.lanes, first)]
    return {
        "sweep": sweep.number,
        "elapsed_seconds": sweep.elapsed_seconds,
        **_gaps(sweep.found),
        "dual_objective": sweep.found.dual_objective,
        "primal_bound": sweep.found.primal_bound,
        **({"lanes": lanes} if lanes else {}),
    }


def _gaps(found: Progress) -> dict[str, float]:
    return {"gap": found.gap, "relative_gap_bound": found.relative_gap_bound}


def write_line(told: dict[str, Any], output: int = 1) -> None:
    """Write a line of JSON to a file descriptor as a whole: OSError if the disk does not take all of it.

    `print` loses the rest without a word where standard output has no buffer, as in a container.
    """
    rest = memoryview(json.dumps(told).encode() + b"\n")
    while rest:
        rest = rest[os.write(output, rest) :]
