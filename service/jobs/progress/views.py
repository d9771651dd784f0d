"""How a job is shown: a plain dictionary, as the interface documents it."""

import contextlib
import csv
import functools
import io
import json
import logging
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.fields.kernel_values import warning_of
from streamsvm.service.jobs.fields.spec import migrate, read_spec
from streamsvm.service.jobs.outcome.limits import AVERAGED, limits_met
from streamsvm.service.jobs.plan.forecast import told_last
from streamsvm.service.jobs.plan.lanes import order_note
from streamsvm.service.jobs.plan.run_file import read_lane
from streamsvm.service.jobs.progress.progress import HISTORY, last_passes, progress, read_history
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import MANIFEST, Manifest, read_manifest
from streamsvm.storage.errors import OutOfSpace, StorageError
from streamsvm.storage.run.compiling import is_compiling
from streamsvm.storage.run.state import RUN_FILE, Control, read_control
from streamsvm.trainer.updates.convergence import STALLED

_log = logging.getLogger("streamsvm.api")
_SCALED, _SCALED_BEFORE = 'with "features": ["scale"]', "on scaled rows: a kernel takes no features"
_HINTS = {
    AVERAGED: 'Rounds go on to the optimum: train anew with "combine": "line_search".',
    STALLED: "Passes change nothing any more: values lie too far apart for numbers of 64 bits.",
}
_PASS_BITS = 32  # of a sequence number; what is left is enough for 2^20 changes of state in a double


# Fields of a record that a job's view has; those of _FOUND are null if the record cannot be shown.
_KNOWN = (
    "id", "spec", "state", "attempt", "created_at", "started_at", "finished_at", "transitions",
    "model_id", "requested", "continues",
)  # fmt: skip
_FOUND = ("progress", "result", "failure")


def job_view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """A job, with live progress if it runs. One that cannot be shown as a whole does not hide the others."""
    try:
        return _view(settings, record)
    except Exception:
        _log.exception("job %s cannot be shown as a whole", record["id"])
        shown = {key: record[key] for key in _KNOWN} | dict.fromkeys((*_FOUND, "phase"))
        message = "what is on record of the job cannot be shown; it can be deleted"
        warnings = [{"code": "record_unreadable", "message": message}]
        return {**shown, "seq": sequence_number(len(record["transitions"]), 0), "warnings": warnings}


def _view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    shown = {key: record[key] for key in (*_KNOWN, *_FOUND)}
    shown |= {"spec": migrate(record["spec"]), "phase": None}
    passes, missed, distances = 0, [], (record["result"] or {}).get("machine")
    if record["state"] == "running":
        # The run may end, and its files go, at any moment.
        with contextlib.suppress(FileNotFoundError, ValueError):
            run = settings.jobs / record["id"] / "run"
            control = read_control(run)
            shown["phase"] = _phase(control)
            shown["progress"] = _live_progress(settings, record, run, control)
            passes = max((each["pass"] for each in last_passes(history_file(settings, record["id"]))), default=0)
            missed = _missed_checkpoints(control)
            distances = json.loads((run / RUN_FILE).read_bytes()).get("distances")
    shown["seq"] = sequence_number(len(record["transitions"]), passes)
    shown["warnings"] = _warnings(record) + missed + _same_values(distances) + told_last(record)
    return shown


def sequence_number(transitions: int, passes: int) -> int:
    """Grows with every change of state, and every pass finished between two of them."""
    return transitions << _PASS_BITS | passes


def history_csv(passes: list[dict[str, Any]]) -> str:
    """A header and one line a pass, and lane where several were trained side by side; what is not known is empty.

    Sweeps and Newton steps are left out: they know less than passes do.
    """
    text = io.StringIO()
    lines = [line for each in passes for line in _lines(each)]
    if lines:
        writer = csv.DictWriter(text, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return text.getvalue()


def _lines(each: dict[str, Any]) -> list[dict[str, Any]]:
    """A pass as its lanes saw it."""
    own = {name: value for name, value in each.items() if name not in ("lanes", "sweeps", "newton", "slowdowns")}
    return [{**own, **lane} for lane in each["lanes"]] if "lanes" in each else [own]


def history(settings: Settings, job_id: str) -> list[dict[str, Any]]:
    """The passes of a job, a dictionary each."""
    return read_history(history_file(settings, job_id))


def history_file(settings: Settings, job_id: str) -> Path:
    """The file that has a line for each pass of a job."""
    return settings.jobs / job_id / HISTORY


def history_bytes(settings: Settings, job_id: str) -> int:
    """How long the history of a job is; 0 before it has one."""
    with contextlib.suppress(FileNotFoundError):
        return history_file(settings, job_id).stat().st_size
    return 0


def _live_progress(settings: Settings, record: dict[str, Any], run: Path, control: Control) -> dict[str, Any]:
    dataset = settings.datasets / record["dataset_id"]
    passes, spec = last_passes(history_file(settings, record["id"])), read_spec(record["spec"])
    return progress(control, read_lane(run), spec, _blocks(run, dataset), passes)


def _blocks(run: Path, dataset: Path) -> int | None:
    """Blocks of a pass, as its reader was told or as the dataset has them; None while that is being read in."""
    with contextlib.suppress(FileNotFoundError, StorageError):
        told = json.loads((run / RUN_FILE).read_bytes()).get("reader", {"blocks": None})["blocks"]
        return told or len(_manifest(dataset, (dataset / MANIFEST).stat().st_mtime_ns).blocks)
    return None


@functools.lru_cache(256)
def _manifest(dataset: Path, _changed: int) -> Manifest:
    return read_manifest(dataset)


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
    if result and not result["converged"]:
        where = _where(result["certificate"], spec)
        message = f"ended by {result['stop_reason']} before it converged: {where}"
        hint = _HINTS.get(result["stop_reason"]) or _way_on(limits_met(result))
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


def _same_values(distances: dict[str, Any] | None) -> list[dict[str, str]]:
    """A warning if the kernel does not tell rows apart."""
    message = warning_of(distances) if distances else None
    return [{"code": "kernel_values", "message": message}] if message else []


def _missed_checkpoints(control: Control) -> list[dict[str, str]]:
    if not control["checkpoint_failures"]:
        return []
    message = f"{control['checkpoint_failures']:.0f} checkpoints could not be written: a crash would cost more"
    return [{"code": "no_checkpoint", "message": message}]


def _where(certificate: dict[str, Any], spec: dict[str, Any]) -> str:
    """How far a job came, and how far it was to come."""
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
