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

from reader.options import InputOptions
from service.continuing import keep_history
from service.errors import ServiceError
from service.following import FollowPlan, can_follow, plan_following
from service.ingesting import Ingesting
from service.jobs import JobSpec
from service.models import final_model
from service.problem import JobPlan, plan_job
from service.progress import HISTORY, progress, read_history
from service.run import Run, prepare_run
from service.settings import Settings
from storage.csr import load_kernels
from storage.dataset import read_manifest
from storage.errors import DatasetLost, RowTooLong
from storage.model_file import Model

_POLL_SECONDS = 0.1

Report = Callable[[dict[str, Any], list[dict[str, Any]]], None]


def train_file(file: Path, spec: JobSpec, settings: Settings, options: InputOptions, report: Report) -> Model:
    """Train on a file, if possible while it is being read in.

    `report` receives progress and history about ten times a second. Raises InputError for a bad file, ServiceError for
    a job that cannot run or that died.
    """
    with (
        _temporary_directory(None, "streamsvm-") as work,
        _open(file) as source,
        Ingesting(source, work / "dataset", settings, options, forks=True) as ingesting,
    ):
        # A job that would ignore weights is refused before it trains.
        if can_follow(spec) and options.weight_column is None:
            try:
                return _train(work, plan_following(spec, settings.max_features), settings, ingesting, report)
            except ServiceError as error:
                if error.code not in (RowTooLong.code, DatasetLost.code):
                    raise
        # What cannot be followed, or turned out so: for rows of unknown length the cache was divided too finely. If the
        # dataset is lost, `wait` says why.
        ingesting.wait()
        return _train(work, plan_job(spec, read_manifest(work / "dataset")), settings, ingesting, report)


def _train(work: Path, plan: JobPlan | FollowPlan, settings: Settings, ingesting: Ingesting, report: Report) -> Model:
    dataset = work / "dataset"
    # The cache belongs into memory, the blocks do not.
    in_memory = settings.cache_dir.is_dir() and shutil.disk_usage(settings.cache_dir).free > plan.run_bytes
    with _temporary_directory(settings.cache_dir if in_memory else work, "streamsvm-run-") as scratch:
        prepare_run(scratch / "run", plan, dataset)
        keep_history(work, 0)
        run = Run(scratch / "run", work, settings.stall_seconds)
        try:
            run.start()
            finished = False
            while not (finished and isinstance(plan, JobPlan)):
                time.sleep(_POLL_SECONDS)
                if isinstance(plan, FollowPlan) and ingesting.is_done():
                    plan = plan_job(plan.spec, read_manifest(dataset))
                    load_kernels()  # the model will need one; ingest has left a core free
                finished = run.poll()
                history = read_history(work / HISTORY)
                elapsed = run.control["elapsed_seconds"]
                report(progress(run.control, plan.spec, plan.blocks, elapsed, history), history)
        finally:
            run.kill()
        return final_model(plan, dataset, run.directory, {"spec": plan.spec.model_dump(), **run.result()})


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
