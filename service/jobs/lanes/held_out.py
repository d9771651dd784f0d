"""The rows of the fold that a lane leaves out: saved when the lane ends, since its metrics are computed on them."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from streamsvm.reader.certificate.folds import read_held_out, read_weights
from streamsvm.service.errors import Crash, ServiceError
from streamsvm.service.jobs.plan.lanes import Lane
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.files.arrays import load_arrays
from streamsvm.storage.files.durable import publish
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.checkpoint import NOT_SOUND

LANES = "lanes"  # in a job's directory
HELD_OUT = "held_out.npz"  # in that of a lane
_HINT = "Ask for other folds, or have more rows of each class, in more groups."


def lane_place(job_dir: Path, number: int) -> Path:
    """The directory of a lane of a job that has several."""
    return job_dir / LANES / f"{number:04d}"


def keep_held_out(directory: Path, plan: JobPlan, lane: Lane, run: Path, place: int) -> None:
    """Save the rows that the lane at this place of a run held out. ServiceError: empty_fold, fold_without_class."""
    ids, target, decision_values = _held_out(plan, run, place)
    _check_fold(plan, lane, target)
    arrays = {"ids": ids, "target": target, "decision_values": decision_values}
    if (weight := read_weights(run, plan.n_rows)) is not None:
        arrays["weight"] = weight[ids]
    _write(directory / HELD_OUT, arrays)


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    staged = path.with_name(f".{path.name}.staged")
    try:
        with staged.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # an array is named allow_pickle
        publish(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def _held_out(plan: JobPlan, run: Path, place: int) -> tuple[Array, Array, Array]:
    """The rows that a lane has left out, see `held_out`."""
    if not plan.spec.is_joint:
        return read_held_out(run, plan.n_rows, place)
    columns = [read_held_out(run, plan.n_rows, column) for column in range(len(plan.labels))]
    ids, targets, decision_values = zip(*columns, strict=True)
    return ids[0], np.stack(targets, axis=1), np.stack(decision_values, axis=1)


def _check_fold(plan: JobPlan, lane: Lane, target: Array) -> None:
    """Refuse a fold that is empty, or leaves no row, or no row of a class, to train on."""
    if len(target) in (0, plan.n_rows):
        has = "all rows" if len(target) else "no rows"
        raise ServiceError("empty_fold", f"fold {lane.fold} has {has}", "Ask for fewer folds, or have more groups.")
    if plan.spec.is_joint:
        for label, n_held_out in zip(plan.labels, (target > 0).sum(axis=0), strict=True):
            if n_held_out == plan.manifest.labels[label]:
                name = plan.manifest.label_text(label)
                raise ServiceError(
                    "fold_without_class", f"without fold {lane.fold} no row of class {name} is left", _HINT
                )
        return
    if lane.positive is None:
        return
    left = {"that class": plan.manifest.labels[lane.positive] - int(np.count_nonzero(target > 0))}
    left["any other"] = plan.n_rows - len(target) - left["that class"]
    for which, rows in left.items():
        if not rows:
            raise ServiceError(
                "fold_without_class",
                f"without fold {lane.fold} no row of {which} is left to tell class {lane.label} by",
                _HINT,
            )


def held_out(job_dir: Path, number: int) -> dict[str, Array]:
    """Read the rows that the lane of this number has left out, and was judged by.

    ids (n,) int64; target (n,) float32: y had they been trained on; decision_values (n,) float64; of all classes in one
    problem (n, n_classes); weight (n,) float64, if rows have weights
    """
    with _opened(job_dir, number) as file:
        return load_arrays(file)


def holds_weights(job_dir: Path, number: int) -> bool:
    """Whether the file of that lane has weights of its rows; an older version wrote none."""
    with _opened(job_dir, number) as file, zipfile.ZipFile(file) as archive:
        return "weight.npy" in archive.namelist()


@contextmanager
def _opened(job_dir: Path, number: int) -> Iterator[IO[bytes]]:
    """Open what that lane held out. Raises Crash if it is not what was written: the next attempt trains it again."""
    try:
        with (lane_place(job_dir, number) / HELD_OUT).open("rb") as file:
            yield file
    except (*NOT_SOUND, FileNotFoundError) as error:
        raise lane_corrupt(number) from error


def lane_corrupt(number: int) -> Crash:
    """The error for a lane whose files are not what was written."""
    return Crash("lane_corrupt", f"the result of lane {number} is damaged", "It is trained again.")
