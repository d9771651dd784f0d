"""The progress of a running job, from its control page and its history. Pure functions."""

import json
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from streamsvm.storage.run.compiling import compile_seconds
from streamsvm.storage.run.state import SOLVER_PHASES, Control
from streamsvm.trainer.problem.objective import relative_gap

HISTORY = "history.ndjson"  # in a job's directory: a line a pass
_PLACE = ("pass", "block", "blocks", "sweep")
_PASSES_FOR_RATE = 4
_TAIL_BYTES = 1 << 14  # holds more than so many passes of one lane


class Limits(Protocol):
    """Where a job ends. Its fields say so, and what is planned of them."""

    max_passes: int
    tolerance: float | None
    relative_gap: float | None


def progress(
    control: Control, lane: dict[str, Any], limits: Limits, blocks: int | None, history: list[dict]
) -> dict[str, Any]:
    """The `progress` of a job on a dataset of so many blocks, None: not known yet; lane: the one that is run.

    Figures of a pass are null until there are some: of the last one finished, or of the last sweep at its end.
    """
    page = control.values()
    elapsed = page["elapsed_seconds"]
    figures = {
        # Passes of sweeps over all rows are the trainer's alone.
        "pass": max(page["pass"], page["finished_passes"]),
        "block": page["block"],
        "blocks": blocks,
        "sweep": page["sweeps"],
        "m_plus": page["M_plus"],
        "m_minus": page["M_minus"],
        "gap": page["M_plus"] - page["M_minus"],
        "rows_unvisited": page["rows_unvisited"],
        "dual_objective": page["dual_objective"],
        "primal_bound": page["primal_bound"],
        "relative_gap_bound": relative_gap(page["primal_bound"], page["dual_objective"]),
        "free_rows": page["free_rows"],
    }
    if not (page["finished_passes"] or page["sweeps"] or page["newton_steps"]):
        figures = {name: value if name in _PLACE else None for name, value in figures.items()}
    figures = {name: value if value is not None and math.isfinite(value) else None for name, value in figures.items()}
    counted = (
        "rows_streamed",
        "rows_screened",
        "read_bytes",
        "resident_rows",
        "resident_bytes",
        "evicted_rows",
        "updates",
    )
    return {
        "lane": lane,
        "solver_phase": SOLVER_PHASES[int(page["solver_phase"]) - 1] if page["solver_phase"] else None,
        **figures,
        "newton": _newton(page),
        **{name: page[name] for name in counted},
        "updates_per_second": _ratio(page["updates"], elapsed),
        "reader_wait_ratio": _ratio(page["reader_wait_seconds"], elapsed),
        "trainer_wait_ratio": _ratio(page["trainer_wait_seconds"], elapsed),
        "elapsed_seconds": elapsed,
        "compile_seconds": sum(compile_seconds(control, process) for process in ("reader", "trainer")),
        # With several lanes the time of those to come is unknown.
        "eta_seconds": eta_seconds(history, limits) if lane["of"] == 1 else None,
        **({"machines": history[-1]["machines"]} if history and "machines" in history[-1] else {}),
    }


def _newton(page: dict[str, float]) -> dict[str, float | None] | None:
    """The last Newton step, as a history has it; None before there is one."""
    if not page["newton_steps"]:
        return None
    sigma = page["sigma"] if math.isfinite(page["sigma"]) else None
    return {"step": page["newton_steps"], "scans": page["scans"], "system_rows": page["system_rows"], "sigma": sigma}


def made(control: Control) -> dict[str, int]:
    """Sweeps, Newton steps and scans that a run has made; {} where its solver does not count them."""
    counts = {"sweeps": "sweeps_made", "newton_steps": "newton_steps", "scans": "scans"}
    return {name: int(control[field]) for name, field in counts.items()} if control["solver_phase"] else {}


def eta_seconds(history: list[dict], limits: Limits) -> float | None:
    """Time left if what is to end the job goes on falling as in the last passes and they take as long.

    None if there is no telling.
    """
    last = history[-_PASSES_FOR_RATE:]
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
    return seconds * min(limits.max_passes - last[-1]["pass"], max(left, default=math.inf))


def _passes_left(first: float | None, now: float | None, target: float, passes: int) -> float:
    """Passes until a figure is at its target, if it goes on falling as in the last `passes`; inf: it does not fall."""
    if now is not None and now <= target:
        return 0.0
    if first is None or now is None or not 0 < now < first:
        return math.inf
    return passes * math.log(now / target) / math.log(first / now)


def read_history(path: Path) -> list[dict[str, Any]]:
    """The passes of a history file, without the result at its end. A line that is not whole is left out.

    Numbers that are not finite come as None: JSON has no word for them.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [record for _, record in records_of(lines) if "result" not in record]


def last_passes(path: Path) -> list[dict[str, Any]]:
    """The last few passes of a history file, as many as `eta_seconds` looks at, however long the file is."""
    if not path.exists():
        return []
    # The last may be the result.
    found = records_of(_last_lines(path, _PASSES_FOR_RATE + 1))
    return [record for _, record in found if "result" not in record][-_PASSES_FOR_RATE:]


def _last_lines(path: Path, most: int) -> list[bytes]:
    """The last whole lines of a file, so many if it has them. A line of many lanes is long."""
    with path.open("rb") as file:
        size, tail = file.seek(0, os.SEEK_END), _TAIL_BYTES
        while True:
            begin = file.seek(max(0, size - tail))
            lines = file.read(size - begin).split(b"\n")[:-1]
            # The first may be half a line.
            if begin == 0 or len(lines) > most:
                return lines[-most:]
            tail *= 4


def records_of(lines: Iterable[bytes]) -> list[tuple[bytes, dict[str, Any]]]:
    """The lines of a history that are whole, each with what it says. Of others a full disk has taken a part."""
    found = []
    for line in lines:
        with suppress(ValueError):
            record = read_json(line.decode())
            if isinstance(record, dict):
                found.append((line, record))
    return found


def read_json(text: str) -> Any:
    """A line of the trainer's output."""
    return json.loads(text, parse_constant=lambda _: None)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
