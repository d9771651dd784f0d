"""Shows a job as a dict, as the API documents it, with the job's progress, history and warnings."""

import csv
import functools
import io
import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.fields.from_text import SEARCHES
from streamsvm.service.jobs.fields.spec import JobSpec, migrate, read_spec
from streamsvm.service.jobs.plan.lanes import order_note
from streamsvm.service.jobs.plan.run_file import read_lane
from streamsvm.service.jobs.progress.states import END_HINTS, REQUESTS, limits_met, score_of, warning_of
from streamsvm.service.jobs.progress.time_left import PASSES_FOR_RATE, eta_seconds, lanes_done
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import MANIFEST, Manifest, read_manifest
from streamsvm.storage.errors import OutOfSpace, StorageError
from streamsvm.storage.run.figures import COUNTED, OF_TASK, PLACE, figures_in
from streamsvm.storage.run.state import (
    RUN_FILE,
    SOLVER_PHASES,
    Control,
    compile_seconds,
    is_compiling,
    read_control,
)
from streamsvm.trainer.problem.objective import relative_gap

HISTORY = "history.ndjson"  # in a job's directory: a line a pass
_TAIL_BYTES = 1 << 14  # longer than that many passes of one lane
_log = logging.getLogger("streamsvm.api")
_SCALED, _SCALED_BEFORE = 'with "features": ["scale"]', "on scaled rows: a kernel takes no features"
_PASS_BITS = 32  # the low bits of a sequence number; as a double it has room for 2^20 changes of state beside them
# Fields of a record that a job's dict has; those of _FOUND are None if the record cannot be shown.
_KNOWN = (
    "id", "spec", "state", "attempt", "created_at", "started_at", "finished_at", "transitions",
    "model_id", "requested", "continues",
)  # fmt: skip
_FOUND = ("progress", "result", "failure")


def progress(
    control: Control, lane: dict[str, Any], limits: JobSpec, blocks: int | None, history: list[dict]
) -> dict[str, Any]:
    """Return the `progress` of a job, from the control page of its run and the history of its last passes.

    Figures of a pass are None before the first pass or sweep; then they are those of the last finished pass or sweep.
    lane: the running lanes, see `run_file.running_lanes`; blocks: number of blocks of the dataset, None: not known yet
    """
    page = control.values()
    elapsed = page["elapsed_seconds"]
    known: dict[str, float | None] = {
        **page,
        # Where sweeps go over all rows, the trainer counts passes in which the reader takes no part.
        "pass": max(page["pass"], page["finished_passes"]),
        "blocks": blocks,
        "gap": page["M_plus"] - page["M_minus"],
        "relative_gap_bound": relative_gap(page["primal_bound"], page["dual_objective"]),
    }
    has_figures = page["finished_passes"] or page["sweeps"] or page["newton_steps"]
    shown = figures_in(*PLACE, *OF_TASK, "rows") if has_figures else figures_in(*PLACE)
    values = {figure.name: known[figure.source] for figure in shown}
    figures = dict.fromkeys(figure.name for figure in figures_in(*PLACE, *OF_TASK, "rows"))
    figures |= {name: value for name, value in values.items() if value is not None and isfinite(value)}
    return {
        "lane": lane,
        "solver_phase": SOLVER_PHASES[int(page["solver_phase"]) - 1] if page["solver_phase"] else None,
        **figures,
        **{figure.name: page[figure.source] if page["best_C"] else None for figure in figures_in("score")},
        "newton": _newton(page),
        **{figure.name: page[figure.source] for figure in figures_in(*COUNTED, "time")},
        **{figure.name: page[figure.source] / elapsed if elapsed else None for figure in figures_in("rates")},
        "compile_seconds": sum(compile_seconds(control, process) for process in ("reader", "trainer")),
        "eta_seconds": eta_seconds(page, lane, limits, history),
        **({"machines": history[-1]["machines"]} if history and "machines" in history[-1] else {}),
    }


def _newton(page: dict[str, float]) -> dict[str, float | None] | None:
    """Return the last Newton step, as the history has it; None before the first step."""
    if not page["newton_steps"]:
        return None
    sigma = page["sigma"] if isfinite(page["sigma"]) else None
    return {"step": page["newton_steps"], "scans": page["scans"], "system_rows": page["system_rows"], "sigma": sigma}


def made(control: Control) -> dict[str, int]:
    """Return how many sweeps, Newton steps and scans a run has made; {} if its solver does not count them."""
    counts = {"sweeps": "sweeps_made", "newton_steps": "newton_steps", "scans": "scans"}
    return {name: int(control[field]) for name, field in counts.items()} if control["solver_phase"] else {}


class History:
    """Reads the passes of a history file, to which a run adds lines: each line is parsed once.

    The result at its end and incomplete lines are left out. Numbers that are not finite are read as None: JSON has no
    word for them.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._n_bytes = path, 0
        self._passes: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Return all passes so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._n_bytes)
                lines = file.read().split(b"\n")[:-1]
            self._n_bytes += sum(len(line) + 1 for line in lines)
            self._passes += [record for _, record in records_of(lines) if "result" not in record]
        return self._passes


def read_history(path: Path) -> list[dict[str, Any]]:
    """Return the passes of a history file, see `History`."""
    return History(path).read()


def last_passes(path: Path) -> list[dict[str, Any]]:
    """Read the last passes of a history file, as many as `eta_seconds` takes; the file's length does not matter."""
    if not path.exists():
        return []
    # The last line may be the result.
    found = records_of(last_lines(path, PASSES_FOR_RATE + 1))
    return [record for _, record in found if "result" not in record][-PASSES_FOR_RATE:]


def last_lines(path: Path, most: int) -> list[bytes]:
    """Read the last `most` whole lines of a file, all if it has fewer. A line with many lanes is long."""
    with path.open("rb") as file:
        size, tail = file.seek(0, os.SEEK_END), _TAIL_BYTES
        while True:
            begin = file.seek(max(0, size - tail))
            lines = file.read(size - begin).split(b"\n")[:-1]
            # The first line may be incomplete.
            if begin == 0 or len(lines) > most:
                return lines[-most:]
            tail *= 4


def records_of(lines: Iterable[bytes]) -> list[tuple[bytes, dict[str, Any]]]:
    """Return each whole line of a history with its record; lines of which a full disk took only a part are left out."""
    found = []
    for line in lines:
        with suppress(ValueError):
            record = read_json(line.decode())
            if isinstance(record, dict):
                found.append((line, record))
    return found


def read_json(text: str) -> Any:
    """Parse a line of the trainer's output; numbers that are not finite become None."""
    return json.loads(text, parse_constant=lambda _: None)


def job_view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """Return a job as a dict, with progress if it runs. A bad record gives a warning, and does not hide other jobs."""
    try:
        return _view(settings, record)
    except Exception:
        _log.exception("job %s cannot be shown as a whole", record["id"])
        shown = {key: record[key] for key in _KNOWN} | dict.fromkeys((*_FOUND, "phase", "score"))
        message = "what is on record of the job cannot be shown; it can be deleted"
        warnings = [{"code": "record_unreadable", "message": message}]
        return {**shown, "seq": sequence_number(len(record["transitions"]), 0), "warnings": warnings}


def _view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    shown = {key: record[key] for key in (*_KNOWN, *_FOUND)}
    shown |= {"spec": migrate(record["spec"]), "phase": None}
    shown["score"] = score_of(record["result"], shown["spec"])
    passes, distances = 0, (record["result"] or {}).get("machine")
    warnings: list[dict[str, str]] = []
    if record["state"] == "running":
        # The run may end, and its files go, at any moment.
        with suppress(FileNotFoundError, ValueError):
            run = settings.jobs / record["id"] / "run"
            control = read_control(run)
            shown["phase"] = _phase(control)
            last, spec = last_passes(history_file(settings, record["id"])), read_spec(record["spec"])
            blocks = _blocks(run, settings.datasets / record["dataset_id"])
            lane = read_lane(run)
            done = {"lanes_done": lanes_done(run, lane, spec)}
            shown["progress"] = progress(control, lane, spec, blocks, last) | done
            passes = max((each["pass"] for each in last), default=0)
            if failures := control["checkpoint_failures"]:
                message = f"{failures:.0f} checkpoints could not be written: a crash would cost more"
                warnings = [{"code": "no_checkpoint", "message": message}]
            distances = json.loads((run / RUN_FILE).read_bytes()).get("distances")
    shown["seq"] = sequence_number(len(record["transitions"]), passes)
    if nearly := distances and warning_of(distances):
        warnings.append({"code": "kernel_values", "message": nearly})
    shown["warnings"] = _warnings(record) + warnings + told_last(record)
    return shown


def sequence_number(transitions: int, passes: int) -> int:
    """Return a number that grows with every change of state, and with every pass finished between two changes."""
    return transitions << _PASS_BITS | passes


def history_csv(passes: list[dict[str, Any]]) -> str:
    """Return passes as CSV: a header and a line for each pass, or for each lane of a pass; unknown values are empty.

    Sweeps and Newton steps are left out: their records have fewer figures than those of passes.
    """
    text = io.StringIO()
    lines = [line for each in passes for line in _lines(each)]
    if lines:
        writer = csv.DictWriter(text, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return text.getvalue()


def _lines(each: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of a pass for each of its lanes."""
    own = {name: value for name, value in each.items() if name not in ("lanes", "sweeps", "newton", "slowdowns")}
    return [{**own, **lane} for lane in each["lanes"]] if "lanes" in each else [own]


def history(settings: Settings, job_id: str) -> list[dict[str, Any]]:
    """Return the passes of a job, a dict for each."""
    return read_history(history_file(settings, job_id))


def history_file(settings: Settings, job_id: str) -> Path:
    """Return the path of the file that has a line for each pass of a job."""
    return settings.jobs / job_id / HISTORY


def history_bytes(settings: Settings, job_id: str) -> int:
    """Return the size of a job's history in bytes; 0 before it has one."""
    with suppress(FileNotFoundError):
        return history_file(settings, job_id).stat().st_size
    return 0


def _blocks(run: Path, dataset: Path) -> int | None:
    """Return the number of blocks of a pass, by the run's settings or the dataset; None while the data arrive."""
    with suppress(FileNotFoundError, StorageError):
        told = json.loads((run / RUN_FILE).read_bytes()).get("reader", {"blocks": None})["blocks"]
        return told or len(_manifest(dataset, (dataset / MANIFEST).stat().st_mtime_ns).blocks)
    return None


@functools.lru_cache(256)
def _manifest(dataset: Path, _changed: int) -> Manifest:
    return read_manifest(dataset)


def told_last(record: dict[str, Any]) -> list[dict[str, str]]:
    """Return the slowdowns of a job's last attempt; none while the job waits in the queue for another attempt."""
    attempts = [step for step in record["transitions"] if step["state"] == "running"]
    return attempts[-1].get("slowdowns", []) if attempts and record["state"] != "queued" else []


def _warnings(record: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    reasons = [step["reason"] for step in record["transitions"] if "reason" in step]
    if record["state"] == "queued" and reasons[-1:] == [OutOfSpace.code]:
        message = "the disk is full: the job is tried again, at least every minute, and goes on when there is room"
        found.append({"code": "waits_for_room", "message": message})
    elif record["attempt"] > 1:
        ended = "found no room on the disk" if reasons[-1:] == [OutOfSpace.code] else "died"
        found.append({"code": "started_again", "message": f"attempt {record['attempt']}: the one before {ended}"})
    result, spec = record["result"], record["spec"]
    if note := order_note(spec.get("C", 1.0)):
        found.append({"code": "C_sorted", "message": note})
    is_stopped = "stopped" in (record["state"], REQUESTS.get(record["requested"]))
    has_folds = any(map(spec.get, ("folds", "validation", "probability"))) or spec.get("C") in SEARCHES
    if is_stopped and record["model_id"] is None and has_folds:
        message = "stopped: with folds there is no model unless all of them, and the model of all rows, are trained"
        found.append({"code": "no_model", "message": message, "hint": _way_on([])})
    if result and not result["converged"]:
        where = _where(result["certificate"], spec)
        message = f"ended by {result['stop_reason']} before it converged: {where}"
        hint = END_HINTS.get(result["stop_reason"]) or _way_on(limits_met(result))
        if "scales_differ" in {each["code"] for each in told_last(record)}:
            takes_maps = spec.get("kernel", "linear") == "linear"
            hint += f" Or train anew {_SCALED if takes_maps else _SCALED_BEFORE}."
        if (spec.get("pace"), spec.get("solver"), spec.get("kernel", "linear")) == ("fixed", "streamsvm", "linear"):
            hint += ' Or train anew with "pace": "adaptive", which takes Newton steps.'
        found.append({"code": "not_converged", "message": message, "hint": hint})
    return found


def _way_on(limits: list[str]) -> str:
    if not limits:
        return "Resume it: it goes on from where it was stopped."
    return f"Resume it with a larger {' and a larger '.join(limits)}."


def _where(certificate: dict[str, Any], spec: dict[str, Any]) -> str:
    """Say which gap a job reached, and which was asked for."""
    if certificate["primal_objective"] is None:
        return "the objective is no number"
    if certificate["gap"] is None and certificate["relative_duality_gap"] is None:
        return f"the objective is {certificate['primal_objective']:.6g}, nothing bounds it from below"
    tolerance, relative_gap = spec.get("tolerance"), spec.get("relative_gap")
    told = []
    if relative_gap is not None or certificate["gap"] is None:
        wanted = f"; {relative_gap:.3g} was asked for" if relative_gap is not None else ""
        reached = certificate["relative_duality_gap"]
        told.append(f"relative duality gap is {'no number' if reached is None else f'{reached:.3g}'}{wanted}")
    if certificate["gap"] is not None and (tolerance is not None or not told):
        missed = f"; tolerance was {tolerance:.3g}" if tolerance is not None else ""
        told.append(f"M+ - M- is {certificate['gap']:.3g}{missed}")
    return ", and ".join(told)


def _phase(control: Control) -> str:
    if control["training_done"]:
        return "exporting"
    if is_compiling(control):
        return "compiling"
    if control["certificates_wanted"] > control["certificates_made"]:
        return "certifying"
    return "training" if control["committed_step"] else "starting"
