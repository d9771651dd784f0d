"""Files of a job's lanes in its directory: checkpoints, the model of each finished lane, and rows held out.

A job of one lane has its checkpoints beside its history. In a job of several lanes, each lane has a directory below
`lanes`. After the end of a job, its newest checkpoints stay for a job that continues it.
"""

import json
import os
import shutil
import zipfile
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from streamsvm.reader.certificate.kept_values import LARGEST_FILE, joint_accuracy, read_held_out, read_weights
from streamsvm.service.errors import Crash, ServiceError
from streamsvm.service.jobs.plan.lanes import Lane, is_scaled
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.arrays import load_arrays
from streamsvm.storage.files.durable import make_directory, publish, sync
from streamsvm.storage.models.model_file import Model, read_about, read_model, write_model
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.checkpoint import NOT_SOUND, SLOTS, write_arrays

LANES = "lanes"  # in a job's directory
HELD_OUT = "held_out.npz"  # in a lane's directory
_OUTCOME, _ABOUT = "model", "about"  # a lane's model, in its directory; its record, in a file of held-out rows
_HINT = "Ask for other folds, or have more rows of each class, in more groups."


def lane_place(job_dir: Path, number: int) -> Path:
    """Return the directory of the lane with this number, in a job of several lanes."""
    return job_dir / LANES / f"{number:04d}"


def keep_held_out(directory: Path, plan: JobPlan, lane: Lane, run: Path, place: int, about: Mapping[str, Any]) -> None:
    """Save held-out rows of the lane at index `place` of a run, and the lane's record.

    Raises ServiceError empty_fold, fold_without_class.
    """
    if plan.spec.is_joint:
        columns = [read_held_out(run, plan.n_rows, column) for column in range(len(plan.labels))]
        (ids, *_), targets, values = zip(*columns, strict=True)
        target, decision_values = np.stack(targets, axis=1), np.stack(values, axis=1)
    else:
        ids, target, decision_values = read_held_out(run, plan.n_rows, place)
    _check_fold(plan, lane, target)
    record = np.frombuffer(json.dumps(about).encode(), np.uint8)
    arrays = {"ids": ids, "target": target, "decision_values": decision_values, _ABOUT: record}
    if (weight := read_weights(run, plan.n_rows)) is not None:
        arrays["weight"] = weight[ids]
    write_arrays(directory / HELD_OUT, arrays, is_durable=not plan.is_searching)  # a damaged file is made again


def _check_fold(plan: JobPlan, lane: Lane, target: Array) -> None:
    """Raise ServiceError if a fold is empty, or if no row, or no row of a class, is left outside of it to train on."""
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
    """Read the rows of the fold that the lane of this number left out of training, with its decision values for them.

    ids (n,) int64; target (n,) float32: y as in training; decision_values (n,) float64; weight (n,) float64, if rows
    have weights. If one problem has all classes, target and decision_values are (n, n_classes).
    """
    with _opened(job_dir, number) as file:
        return load_arrays(file)


def holds_weights(job_dir: Path, number: int) -> bool:
    """Return whether the file of a lane's held-out rows has their weights; an older version wrote none."""
    with _opened(job_dir, number) as file, zipfile.ZipFile(file) as archive:
        return "weight.npy" in archive.namelist()


@contextmanager
def _opened(job_dir: Path, number: int) -> Iterator[IO[bytes]]:
    """Open the file of a lane's held-out rows. Raises Crash if it is missing or damaged: the lane is trained again."""
    try:
        with (lane_place(job_dir, number) / HELD_OUT).open("rb") as file:
            yield file
    except (*NOT_SOUND, FileNotFoundError) as error:
        raise lane_corrupt(number) from error


def lane_corrupt(number: int) -> Crash:
    """Return the error for a lane whose files are damaged."""
    return Crash("lane_corrupt", f"the result of lane {number} is damaged", "It is trained again.")


def lane_directory(job_dir: Path, plan: JobPlan) -> Path:
    """Return the directory for a run's checkpoints: that of its first lane; `job_dir` if the job has one lane."""
    return lane_place(job_dir, plan.number) if len(plan.lanes) > 1 else job_dir


def begun_last(job_dir: Path) -> int | None:
    """Return the number of the first lane of the run that was begun last; None: the job has left no lanes."""
    lanes = (job_dir / LANES).glob("[0-9]*")
    return max((int(lane.name) for lane in lanes if has_checkpoint(lane) or not has_come(lane)), default=None)


def has_come(lane: Path) -> bool:
    """Return whether the directory of a lane has a model or held-out rows."""
    return (lane / _OUTCOME).exists() or (lane / HELD_OUT).exists()


def has_checkpoint(directory: Path) -> bool:
    """Return whether the directory has a checkpoint, sound or damaged."""
    return any((directory / slot).exists() for slot in SLOTS)


def numbers_before(plan: JobPlan) -> dict[int, list[tuple[int, int]]]:
    """Return where running lanes begin: number of an earlier run's first lane -> (index in it, index in `running`).

    A lane begins at the solution of the lane of the same class and fold with the largest C of earlier runs. Lanes that
    are not named begin at zero.
    """
    if not is_scaled(plan.spec, plan.manifest) or (len(plan.starts) == 1 and plan.at_once > 1):
        return {}
    earlier = enumerate(plan.lanes[_oldest_needed(plan) : plan.number], _oldest_needed(plan))
    before = {(lane.positive, lane.fold): number for number, lane in earlier}
    found: dict[int, list[tuple[int, int]]] = {}
    for place, lane in enumerate(plan.running):
        if (number := before.get((lane.positive, lane.fold))) is not None:
            first = max(first for first in plan.firsts if first <= number)
            found.setdefault(first, []).append((number - first, place))
    return found


def _oldest_needed(plan: JobPlan) -> int:
    """Return the number of the first lane at whose solution a running or later lane may begin."""
    if len(plan.starts) == 1:
        return max(0, plan.number - 1)
    return plan.starts[max(0, bisect(plan.starts, plan.number) - 2)]


def newest_lane(job_dir: Path) -> tuple[int, Path]:
    """Return the number and the directory of the lane begun last; (0, the job's directory) if there is none."""
    begun = sorted((job_dir / LANES).glob("[0-9]*"))
    return (int(begun[-1].name), begun[-1]) if begun else (0, job_dir)


def keep_outcomes(
    job_dir: Path, plan: JobPlan, run: Path, make: Callable[[int], Model], about: Callable[[int], Mapping[str, Any]]
) -> None:
    """Save the model, and any held-out rows, of each lane of a run; `make(index in the run)` returns a lane's model.

    about  returns the record of a lane, which is also in its model

    Raises ServiceError: empty_fold, fold_without_class.
    """
    for path in lane_directory(job_dir, plan).glob(f"{LARGEST_FILE}.*"):
        sync(path)
    # The first lane is written last: after a crash in between, no lane of the run counts as done.
    for place, lane in reversed(list(enumerate(plan.running))):
        directory = lane_place(job_dir, plan.number + place)
        make_directory(directory)
        shutil.rmtree(directory / _OUTCOME, ignore_errors=True)  # left by an earlier run of the lane
        if lane.fold is not None:
            keep_held_out(directory, plan, lane, run, place, about(place))
        if not plan.is_searching:  # nobody needs the models of a search
            write_model(directory / _OUTCOME, make(place))


def training_accuracy(job_dir: Path, plan: JobPlan, numbers: Sequence[int]) -> float | None:
    """Return the accuracy on all rows of the model of these lanes, which several runs have trained; None: unknown."""
    found, parts = dict[int, tuple[int, Path]](), list[Path]()  # of lane number: how many lanes follow, with the file
    for path in (job_dir / LANES).glob(f"*/{LARGEST_FILE}.*"):
        first, count = map(int, path.name.split(".")[1:])
        found[int(path.parent.name) + first] = count, path
    while numbers and numbers[0] in found:
        count, path = found[numbers[0]]
        parts.append(path)
        numbers = numbers[count:]
    weights, is_known = plan.manifest.weights, parts and not numbers
    return joint_accuracy(parts, plan.n_rows, weights.total if weights else plan.n_rows) if is_known else None


def drop_outcome(lane: Path) -> None:
    """Remove a lane's model and what is known of rows from its directory: the lane is trained again, or continued."""
    shutil.rmtree(lane / _OUTCOME, ignore_errors=True)
    for path in (lane / HELD_OUT, *lane.glob(f"{LARGEST_FILE}.*")):
        path.unlink(missing_ok=True)


def drop_after(job_dir: Path, number: int) -> None:
    """Remove the directories of the lanes after this number."""
    for lane in (job_dir / LANES).glob("[0-9]*"):
        if int(lane.name) > number:
            shutil.rmtree(lane, ignore_errors=True)


def drop_all(job_dir: Path) -> None:
    """Remove a job's checkpoints and the files of its lanes, the problems that it trains: the job begins anew."""
    shutil.rmtree(job_dir / LANES, ignore_errors=True)
    for slot in SLOTS:
        (job_dir / slot).unlink(missing_ok=True)


def abouts_of(job_dir: Path) -> list[Mapping[str, Any]]:
    """Return the records of the finished lanes, in order. Raises Crash if one is damaged."""
    found: list[Mapping[str, Any]] = []
    while has_come(place := lane_place(job_dir, len(found))):
        found.append(_about(job_dir, len(found), (place / _OUTCOME).exists()))
    return found


def _about(job_dir: Path, number: int, has_model: bool) -> Mapping[str, Any]:
    if has_model:
        with _sound(number):
            return read_about(lane_place(job_dir, number) / _OUTCOME)
    with _opened(job_dir, number) as file, np.load(file) as archive:
        return json.loads(archive[_ABOUT].tobytes())


def outcome_of(job_dir: Path, number: int) -> Model:
    """Read the model with which a lane, one of the problems of a job, has ended. Raises Crash if it is damaged."""
    with _sound(number):
        return read_model(lane_place(job_dir, number) / _OUTCOME)


@contextmanager
def _sound(number: int) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise lane_corrupt(number) from error


def checkpoint_place(job_dir: Path, plan: JobPlan) -> Path:
    """Make and return the directory for the next run's checkpoints; remove checkpoints that no later run needs."""
    directory = lane_directory(job_dir, plan)
    make_directory(directory)
    # Neither the next lane nor a later one begins from lanes before this one.
    needed = _oldest_needed(plan)
    for older in (job_dir / LANES).glob("[0-9]*"):
        if int(older.name) < needed:
            for slot in SLOTS:
                (older / slot).unlink(missing_ok=True)
    return directory


def with_lanes(jobs: Path) -> list[str]:
    """Return the ids of the jobs in this directory that have left directories of lanes."""
    return [lanes.parent.name for lanes in jobs.glob(f"*/{LANES}")]


def settle_lanes(job_dir: Path, is_complete: bool) -> None:
    """After the end of a job, keep the lanes done before the last run, and the checkpoints of that run.

    is_complete  all lanes are done: all files of lanes are removed, unless one run trained all lanes
    """
    first = begun_last(job_dir)
    if first is None or (first and is_complete):
        shutil.rmtree(job_dir / LANES, ignore_errors=True)
        return
    drop_after(job_dir, first)
    drop_outcome(lane_place(job_dir, first))


def inherit_lanes(job_dir: Path, other: Path, first: int) -> None:
    """Link into a job another's lanes before number `first`, and that lane's checkpoints: all files, or none."""
    staged = job_dir / f".{LANES}"
    shutil.rmtree(staged, ignore_errors=True)
    for number in range(first + 1):
        ignored = shutil.ignore_patterns(_OUTCOME, HELD_OUT, f"{LARGEST_FILE}.*") if number == first else None
        # Files are replaced, never written to: links are as good as copies.
        shutil.copytree(lane_place(other, number), staged / f"{number:04d}", ignore=ignored, copy_function=os.link)
    publish(staged, job_dir / LANES)
