"""Which rows a job is trained on: noted beside its checkpoints, for jobs that begin with what it found."""

from pathlib import Path

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.plan.following import MOST_ROWS, FollowPlan
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.document import pack, unpack
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import RUN, count_rows, one_run, shared_rows

TRAINED_ROWS = "rows.json"
_VERSION = 1


def rows_of(plan: JobPlan | FollowPlan, dataset: Path) -> Array:
    """Runs of the rows in the order of alpha, see `storage.rows.row_runs`.

    Data that are being read in count as more rows than will come.

    Raises StorageError.
    """
    return one_run(plan.n_rows) if isinstance(plan, FollowPlan) else Dataset(dataset).row_runs()


def note_rows(job_dir: Path, plan: JobPlan | FollowPlan, dataset: Path, has_begun: bool) -> None:
    """Note the rows of an attempt that begins. Raises ServiceError `dataset_changed` if earlier ones had others."""
    own, noted = rows_of(plan, dataset), noted_rows(job_dir)
    if noted is not None and has_begun and not _are_same(noted, own):
        raise ServiceError("dataset_changed", "rows came or went since the checkpoint", "Submit a job with warm_start.")
    write_file(job_dir / TRAINED_ROWS, [pack({"runs": own.tolist()}, _VERSION)])


def noted_rows(job_dir: Path) -> Array | None:
    """The rows that a job was trained on; None: an earlier version noted nothing, or the note is damaged."""
    try:
        content = unpack((job_dir / TRAINED_ROWS).read_bytes(), _VERSION, "note of a job's rows", "")
    except (StorageError, OSError):
        return None
    return np.array(content["runs"], RUN)


def _are_same(noted: Array, own: Array) -> bool:
    """Whether the rows agree as far as notes tell; for data still being read in, the checkpoint tells how many came."""
    n_noted, n_own = count_rows(noted), count_rows(own)
    return int(shared_rows(noted, own)[:, 2].sum()) == n_own and n_noted in (n_own, MOST_ROWS)
