"""Training and predicting without a server: the same ingest, reader and trainer, in a temporary directory."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reader.ingest import ingest, read_chunks
from reader.limits import Limits
from service.jobs import JobSpec
from service.models import final_model
from service.problem import plan_job
from service.progress import progress, read_history
from service.run import Run, prepare_run
from service.settings import Settings
from storage.dataset import read_manifest
from storage.model_file import Model

_POLL_SECONDS = 0.1

Report = Callable[[dict[str, Any], list[dict[str, Any]]], None]


def train_file(file: Path, spec: JobSpec, settings: Settings, index_base: str | int, report: Report) -> Model:
    """Train on a file; `report` receives progress and history about ten times a second.

    Raises InputError for a bad file, ServiceError for a job that cannot run or that died.
    """
    with _temporary_directory(None, "streamsvm-") as work:
        with _open(file) as source:
            limits = Limits(max_bytes=settings.max_upload_bytes, max_features=settings.max_features)
            ingest(read_chunks(source), work / "dataset", index_base=index_base, limits=limits)
        manifest = read_manifest(work / "dataset")
        plan = plan_job(spec, manifest)
        # The cache belongs into memory, the blocks do not.
        in_memory = settings.cache_dir.is_dir() and shutil.disk_usage(settings.cache_dir).free > plan.run_bytes
        with _temporary_directory(settings.cache_dir if in_memory else work, "streamsvm-run-") as scratch:
            prepare_run(scratch / "run", plan, work / "dataset")
            run = Run(scratch / "run", work, settings.stall_seconds)
            began = time.monotonic()
            try:
                run.start()
                finished = False
                while not finished:
                    time.sleep(_POLL_SECONDS)
                    finished = run.poll()
                    history = read_history(work / "history.ndjson")
                    report(progress(run.control, spec, manifest, time.monotonic() - began, history), history)
            finally:
                run.kill()
            return final_model(plan, run.directory, {"spec": spec.model_dump(), **run.result()})


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """The file, or standard input for `-`."""
    if str(file) == "-":
        yield sys.stdin.buffer
    else:
        with file.open("rb") as source:
            yield source


@contextmanager
def _temporary_directory(base: Path | None, prefix: str) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=base))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
