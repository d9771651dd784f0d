"""What the lanes of a job leave in its directory: their checkpoints, and, when one is done, what it came to.

A job of one lane has its checkpoints beside its history; of several, each has a directory of its own.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from service.problem import JobPlan
from storage.checkpoint import SLOTS
from storage.model_file import Model, read_model, write_model

_LANES = "lanes"
_OUTCOME = "model"


def lane_directory(job_dir: Path, plan: JobPlan) -> Path:
    """Where the lane that is run has its checkpoints."""
    return job_dir / _LANES / f"{plan.number:04d}" if len(plan.lanes) > 1 else job_dir


def newest_lane(job_dir: Path) -> tuple[int, Path]:
    """The number and the directory of the lane that was begun last."""
    begun = sorted((job_dir / _LANES).glob("[0-9]*"))
    return (int(begun[-1].name), begun[-1]) if begun else (0, job_dir)


def keep_outcome(directory: Path, outcome: Model) -> None:
    """A lane that has this directory is done: its w and, as `about`, its result and the seconds of the job."""
    write_model(directory / _OUTCOME, outcome)


def outcomes(job_dir: Path) -> Iterator[Model]:
    """Of the lanes that are done, in order, one in memory at a time. Raises CorruptData."""
    for directory in sorted((job_dir / _LANES).glob(f"[0-9]*/{_OUTCOME}")):
        yield read_model(directory)


def drop_older_checkpoints(job_dir: Path, plan: JobPlan) -> None:
    """The lane that is run may begin where the one before it ended; those of others are for nobody."""
    for directory in (job_dir / _LANES).glob("[0-9]*"):
        if int(directory.name) < plan.number - 1:
            for slot in SLOTS:
                (directory / slot).unlink(missing_ok=True)


def drop_lanes(job_dir: Path) -> None:
    """The job has ended, and has its models."""
    shutil.rmtree(job_dir / _LANES, ignore_errors=True)
