"""What the lanes of a job leave in its directory: their checkpoints, and, when one is done, what it came to.

A job of one lane has its checkpoints beside its history; of several, each has a directory of its own. When the job has
ended, what one that continues it needs of them stays.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reader.certificate.folds import read_held_out, read_weights
from service.errors import Crash, ServiceError
from service.jobs.following import FollowPlan
from service.jobs.lanes import Lane
from service.jobs.problem import JobPlan
from service.jobs.turns import is_scaled
from storage.checkpoint import NOT_SOUND, SLOTS
from storage.csr import Array
from storage.durable import make_directory, publish
from storage.errors import StorageError
from storage.model_file import Model, read_about, read_model, write_model

_LANES = "lanes"
_OUTCOME, _HELD_OUT = "model", "held_out.npz"
_HINT = "Ask for other folds, or have more rows of each class, in more groups."


def lane_directory(job_dir: Path, plan: JobPlan) -> Path:
    """Where the lanes that are run have their checkpoints: that of the first."""
    return _directory(job_dir, plan.number) if len(plan.lanes) > 1 else job_dir


def _directory(job_dir: Path, number: int) -> Path:
    return job_dir / _LANES / f"{number:04d}"


def begun_last(job_dir: Path) -> int | None:
    """The number of the first of the lanes that were begun last, together; None of a job that has left no lanes."""
    lanes = (job_dir / _LANES).glob("[0-9]*")
    return max((int(lane.name) for lane in lanes if has_checkpoint(lane) or not _has_come(lane)), default=None)


def _has_come(lane: Path) -> bool:
    """Whether there is anything of what it came to."""
    return (lane / _OUTCOME).exists() or (lane / _HELD_OUT).exists()


def has_checkpoint(directory: Path) -> bool:
    """Whether there is one to go on from, sound or not."""
    return any((directory / slot).exists() for slot in SLOTS)


def number_before(plan: JobPlan) -> int | None:
    """Number of the first lane of those whose end is where the ones to be run begin; None: they begin at zero.

    These are the same classes and folds at the last smaller C.
    """
    if not is_scaled(plan.spec, plan.manifest) or (plan.turns == 1 and plan.at_once > 1):
        return None
    number = plan.number - _lanes_back(plan)
    if number < 0:
        return None
    before = plan.lanes[number]
    return number if (before.positive, before.fold) == (plan.lane.positive, plan.lane.fold) else None


def _lanes_back(plan: JobPlan) -> int:
    """How many lanes before one is that of the same class and fold at the last smaller C, if there is one."""
    return len(plan.lanes) // plan.turns if plan.turns > 1 else 1


def newest_lane(job_dir: Path) -> tuple[int, Path]:
    """The number and the directory of the lane that was begun last."""
    begun = sorted((job_dir / _LANES).glob("[0-9]*"))
    return (int(begun[-1].name), begun[-1]) if begun else (0, job_dir)


def keep_outcomes(job_dir: Path, plan: JobPlan, run: Path, make: Callable[[int], Model]) -> None:
    """The lanes that were run are done: w of each, by its place, and, as `about`, its result and seconds of the job.

    Raises ServiceError: empty_fold, fold_without_class.
    """
    # The first is written last: a crash in between leaves none that counts as done.
    for place, lane in reversed(list(enumerate(plan.running))):
        directory = _directory(job_dir, plan.number + place)
        make_directory(directory)
        if lane.fold is not None:
            ids, target, decision_values = _held_out(plan, run, place)
            _check_fold(plan, lane, target)
            arrays = {"ids": ids, "target": target, "decision_values": decision_values}
            if (weight := read_weights(run, plan.n_rows)) is not None:
                arrays["weight"] = weight[ids]
            _write_held_out(directory / _HELD_OUT, arrays)
        shutil.rmtree(directory / _OUTCOME, ignore_errors=True)  # of one that was run once more
        write_model(directory / _OUTCOME, make(place))


def _write_held_out(path: Path, arrays: Mapping[str, Array]) -> None:
    """Durably: that the lane is done is written after it."""
    staged = path.with_name(f".{path.name}.staged")
    try:
        with staged.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # an array is named allow_pickle
        publish(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def _held_out(plan: JobPlan, run: Path, place: int) -> tuple[Array, Array, Array]:
    """What a lane has left out, see `held_out`."""
    if not plan.spec.is_joint:
        return read_held_out(run, plan.n_rows, place)
    columns = [read_held_out(run, plan.n_rows, column) for column in range(len(plan.labels))]
    ids, targets, decision_values = zip(*columns, strict=True)
    return ids[0], np.stack(targets, axis=1), np.stack(decision_values, axis=1)


def _check_fold(plan: JobPlan, lane: Lane, target: Array) -> None:
    """Whether a fold can be left out: there is something in it, and something else to train on."""
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
    """Of the rows that the lane of this number has left out, and was judged by.

    ids (n,) int64; target (n,) float32: y had they been trained on; decision_values (n,) float64; of all classes in one
    problem (n, n_classes); weight (n,) float64, if rows have weights
    """
    with _reading(job_dir, number) as arrays:
        return dict(arrays)


def holds_weights(job_dir: Path, number: int) -> bool:
    """Whether that lane, one of a fold, has left the weights of its rows; an older version wrote none."""
    with _reading(job_dir, number) as arrays:
        return "weight" in arrays


@contextmanager
def _reading(job_dir: Path, number: int) -> Iterator[Any]:
    """What that lane has left out. Raises Crash if it is not what was written: the next attempt trains it again."""
    try:
        # A file of its own: numpy leaves it open if there is no archive in it.
        with (_directory(job_dir, number) / _HELD_OUT).open("rb") as file, np.load(file) as arrays:
            yield arrays
    except (*NOT_SOUND, FileNotFoundError) as error:
        raise _lane_corrupt(number) from error


def _lane_corrupt(number: int) -> Crash:
    return Crash("lane_corrupt", f"what lane {number} came to is damaged", "It is trained again.")


def drop_unsound(job_dir: Path, plan: JobPlan | FollowPlan) -> None:
    """Of the lanes that are done, those whose files are not what was written are so no more. Reads all of them."""
    lanes = plan.lanes if isinstance(plan, JobPlan) else ()
    for number, lane in enumerate(lanes):
        if _has_come(_directory(job_dir, number)):
            try:
                outcome_of(job_dir, number)
                if lane.fold is not None:
                    held_out(job_dir, number)
            except Crash:
                _drop_outcome(_directory(job_dir, number))


def _drop_outcome(lane: Path) -> None:
    shutil.rmtree(lane / _OUTCOME, ignore_errors=True)
    (lane / _HELD_OUT).unlink(missing_ok=True)


def abouts_of(job_dir: Path) -> list[Mapping[str, Any]]:
    """What is kept of the lanes that are done, in order, but for their w. Raises Crash if it is damaged."""
    found: list[Mapping[str, Any]] = []
    while (directory := _directory(job_dir, len(found)) / _OUTCOME).exists():
        with _sound(len(found)):
            found.append(read_about(directory))
    return found


def outcome_of(job_dir: Path, number: int) -> Model:
    """What the lane of this number came to. Raises Crash if it is damaged."""
    with _sound(number):
        return read_model(_directory(job_dir, number) / _OUTCOME)


@contextmanager
def _sound(number: int) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise _lane_corrupt(number) from error


def drop_older_checkpoints(job_dir: Path, plan: JobPlan) -> None:
    """Lanes may begin where others ended, the next ones where the next of these did; those before are for nobody."""
    needed = plan.number - _lanes_back(plan)
    for directory in (job_dir / _LANES).glob("[0-9]*"):
        if int(directory.name) < needed:
            for slot in SLOTS:
                (directory / slot).unlink(missing_ok=True)


def settle_lanes(job_dir: Path, is_complete: bool) -> None:
    """The job has ended: what stays are the lanes that were done before the last ones, and the checkpoints of these.

    is_complete  all are done: if they were not trained together, there is nothing to go on with
    """
    first = begun_last(job_dir)
    if first is None or (first and is_complete):
        shutil.rmtree(job_dir / _LANES, ignore_errors=True)
        return
    for lane in (job_dir / _LANES).glob("[0-9]*"):
        if int(lane.name) > first:
            shutil.rmtree(lane, ignore_errors=True)
    _drop_outcome(_directory(job_dir, first))


def inherit_lanes(job_dir: Path, other: Path, first: int) -> None:
    """Give a job the lanes of another before `first`, and the checkpoints of this one; all, or nothing."""
    staged = job_dir / f".{_LANES}"
    shutil.rmtree(staged, ignore_errors=True)
    for number in range(first + 1):
        ignored = shutil.ignore_patterns(_OUTCOME, _HELD_OUT) if number == first else None
        # Files are replaced, never written to.
        shutil.copytree(_directory(other, number), staged / f"{number:04d}", ignore=ignored, copy_function=os.link)
    publish(staged, job_dir / _LANES)
