"""How datasets, jobs and models are shown: plain dictionaries, as the interface documents them."""

import contextlib
from datetime import datetime
from typing import Any

from service.jobs import JobSpec, now
from service.progress import progress, read_history
from service.settings import Settings
from storage.dataset import Manifest, read_manifest
from storage.errors import CorruptData
from storage.model_file import Model
from storage.state import Control, open_control

_ABOUT = ("dataset", "spec", "converged", "stop_reason", "passes", "certificate")


def dataset_view(record: dict[str, Any], manifest: Manifest | None) -> dict[str, Any]:
    """A dataset; without a manifest one that is still being read in."""
    shown = {key: record[key] for key in ("name", "state", "created_at")}
    if manifest is None:
        return shown
    return {
        **shown,
        "uid": manifest.uid,
        "rows": manifest.n_rows,
        "features": manifest.n_features,
        "non_zeros": manifest.nnz,
        "label_counts": {f"{label:.17g}": rows for label, rows in manifest.labels.items()},
        "index_base": manifest.index_base,
        "longest_row": manifest.longest_row,
        "blocks": len(manifest.blocks),
        "input_bytes": manifest.input_bytes,
        "decoded_bytes": manifest.decoded_bytes,
        "stored_bytes": manifest.stored_bytes,
        "compression_ratio": manifest.decoded_bytes / manifest.stored_bytes,
        **manifest.counters,
    }


def job_view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """A job, with live progress if it runs."""
    shown = {
        key: record[key]
        for key in (
            "id", "spec", "state", "attempt", "created_at", "started_at", "finished_at", "transitions",
            "progress", "result", "failure", "model_id",
        )
    }  # fmt: skip
    shown["phase"] = None
    if record["state"] == "running":
        # The run may end, and its files go, at any moment.
        with contextlib.suppress(FileNotFoundError, ValueError):
            control = open_control(settings.jobs / record["id"] / "run")
            shown["phase"] = _phase(control)
            shown["progress"] = _live_progress(settings, record, control)
    return shown


def history(settings: Settings, job_id: str) -> list[dict[str, Any]]:
    """One dictionary a pass."""
    return read_history(settings.jobs / job_id / "history.ndjson")


def model_view(record: dict[str, Any], model: Model) -> dict[str, Any]:
    """A model and where it comes from."""
    return {
        **record,
        "features": len(model.w),
        "labels": model.labels,
        "index_base": model.index_base,
        "bias": model.bias,
        **{key: model.about.get(key) for key in _ABOUT},
    }


def _live_progress(settings: Settings, record: dict[str, Any], control: Control) -> dict[str, Any]:
    began = datetime.fromisoformat(record["transitions"][-1]["at"])
    elapsed = (datetime.fromisoformat(now()) - began).total_seconds()
    try:
        blocks = len(read_manifest(settings.datasets / record["dataset_id"]).blocks)
    except CorruptData:
        blocks = None  # still being read in
    return progress(control, JobSpec(**record["spec"]), blocks, elapsed, history(settings, record["id"]))


def _phase(control: Control) -> str:
    if control["training_done"]:
        return "exporting"
    if control["certificates_wanted"] > control["certificates_made"]:
        return "certifying"
    return "training" if control["committed_step"] else "starting"
