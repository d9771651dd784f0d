"""Which rows a job is trained on: noted beside its checkpoints, for jobs that begin with what it found."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from service.errors import ServiceError
from service.following import MOST_ROWS, FollowPlan
from service.problem import JobPlan
from storage.csr import Array
from storage.dataset import Dataset
from storage.document import pack, unpack
from storage.durable import write_file
from storage.errors import StorageError
from storage.row_runs import RUN, first_rows, one_run, shared_rows

TRAINED_ROWS = "rows.json"
_VERSION = 1


@dataclass(frozen=True)
class TrainedRows:
    """Rows in the order of alpha.

    runs      of the ids they were written with, see `storage.row_runs`
    positive  label of those with y = +1; None: not known, as in a job that began while its data were being read in
    """

    runs: Array
    positive: float | None

    @property
    def n_rows(self) -> int:
        """Length of alpha."""
        return int(self.runs[:, 1].sum())

    def first(self, n_rows: int) -> "TrainedRows":
        """Without what comes behind so many rows."""
        return TrainedRows(first_rows(self.runs, n_rows), self.positive)


def rows_of(plan: JobPlan | FollowPlan, dataset: Path) -> TrainedRows:
    """Of the lane that is run; of data that are being read in, more than will come. Raises StorageError."""
    if isinstance(plan, FollowPlan):
        return TrainedRows(one_run(plan.n_rows), None)
    return TrainedRows(Dataset(dataset).row_runs(), plan.lane.positive)


def note_rows(job_dir: Path, plan: JobPlan | FollowPlan, dataset: Path, has_checkpoint: bool) -> None:
    """Of an attempt that begins. Raises ServiceError `dataset_changed` if what there are checkpoints of are others."""
    own, noted = rows_of(plan, dataset), noted_rows(job_dir)
    if noted is not None and has_checkpoint and not _are_same(noted, own):
        raise ServiceError("dataset_changed", "rows came or went since the checkpoint", "Submit a job with warm_start.")
    content = {"runs": own.runs.tolist(), "positive": own.positive}
    write_file(job_dir / TRAINED_ROWS, [pack(content, _VERSION)])


def noted_rows(job_dir: Path) -> TrainedRows | None:
    """Of a job; None if nothing was noted, by an earlier version, or it is damaged."""
    try:
        content = unpack((job_dir / TRAINED_ROWS).read_bytes(), _VERSION, "note of a job's rows", "")
    except (StorageError, OSError):
        return None
    return TrainedRows(np.array(content["runs"], RUN), content["positive"])


def _are_same(noted: TrainedRows, own: TrainedRows) -> bool:
    """As far as the notes tell: how many came of data that were being read in, the checkpoint itself does."""
    n_shared = int(shared_rows(noted.runs, own.runs)[:, 2].sum())
    return n_shared == own.n_rows and noted.n_rows in (own.n_rows, MOST_ROWS)
