"""The plan of a job on a dataset: everything that is open in its fields is settled, or refused, here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import planned_maps
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.blocks import count_blocks, holds_all, spills, uses_blocks
from streamsvm.service.jobs.plan.lanes import (
    Cs_of,
    Lane,
    class_weights,
    count_turns,
    is_scaled,
    labels_of,
    lanes_of,
    n_folds_of,
    shown,
)
from streamsvm.service.jobs.plan.memory import plan_memory, threads_of
from streamsvm.service.jobs.plan.newton import ANY_ROOM, NewtonRoom
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.machine.resources import memory_limit, usable_cores
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.run.state import state_bytes
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.solvers import SOLVERS, TRAINS_WEIGHTS, Solver


@dataclass(frozen=True)
class JobPlan:
    """A job that can run on a dataset, some lanes at a time.

    labels        labels of the model, as rows hold them
    lanes         all problems of the job; number: the first one to run; at_once: how many may run side by side
    turns         values of C that run in turn, see `service.jobs.plan.lanes`
    cores         that the job may use
    newton        room for Newton steps
    passes_before, seconds_before: made and taken by the lanes before these
    """

    spec: JobSpec
    manifest: Manifest
    labels: tuple[float, ...]
    lanes: tuple[Lane, ...]
    cache: CachePlan
    cores: int
    at_once: int = 1
    turns: int = 1
    number: int = 0
    passes_before: int = 0
    seconds_before: float = 0.0
    newton: NewtonRoom = ANY_ROOM
    follows: ClassVar[bool] = False

    @property
    def model_labels(self) -> tuple[float | str, ...]:
        """The labels of the model as they stood in the input."""
        return tuple(shown(label, self.manifest) for label in self.labels)

    @property
    def counted_weights(self) -> dict[str, list[float]]:
        """`class_weights`, a factor of C for each of the labels, if they were counted; else nothing."""
        if self.spec.class_weight != "balanced":
            return {}
        return {"class_weights": list(class_weights(self.spec, self.labels, self.manifest).values())}

    @cached_property
    def solver(self) -> Solver:
        """The solver's line in the registry."""
        return SOLVERS[self.spec.solver]

    @cached_property
    def Cs(self) -> tuple[float, ...]:
        """The values of C, ascending, each once."""
        return Cs_of(self.spec)

    @cached_property
    def n_folds(self) -> int:
        """Folds of the cross-validation; 0: there is none."""
        return n_folds_of(self.spec)

    @property
    def lanes_of_model(self) -> int:
        """Lanes over all rows that make up a model: one for each of more than two labels trained apart, else one."""
        return len(self.labels) if len(self.labels) > 2 and not self.spec.is_joint else 1

    @cached_property
    def is_scaled(self) -> bool:
        """Whether a lane may begin from the scaled solution of another C."""
        return is_scaled(self.spec, self.manifest)

    @property
    def running(self) -> tuple[Lane, ...]:
        """The lanes that are run next, side by side."""
        return self.lanes[self.number : next((first for first in self.firsts if first > self.number), None)]

    @property
    def firsts(self) -> list[int]:
        """Numbers of the lanes with which runs begin: a run has lanes of one turn, up to `at_once` of them."""
        turn = len(self.lanes) // self.turns
        return [first + k for first in range(0, len(self.lanes), turn) for k in range(0, turn, self.at_once)]

    @property
    def lane(self) -> Lane:
        """The first of the running lanes."""
        return self.running[0]

    @cached_property
    def tasks(self) -> Tasks:
        """The problems that the next run trains."""
        spec, labels = self.spec, self.labels
        if spec.is_joint:
            weights = class_weights(spec, labels, self.manifest)
            Cs = [self.lane.C * weights[label] for label in labels]
            each = tuple(Task(place, self.lane.fold, C, C) for place, C in enumerate(Cs))
        else:
            each = tuple(
                Task(
                    labels.index(lane.positive) if lane.positive is not None else 0,
                    lane.fold,
                    lane.C_positive,
                    lane.C_negative,
                )
                for lane in self.running
            )
        return Tasks(spec.loss, each, labels, max(1, self.n_folds), spec.seed, spec.epsilon, spec.is_joint)

    def next_lanes(self, done: Sequence[Mapping[str, Any]]) -> "JobPlan":
        """Return the plan that runs the next lanes; `done` has the record of each finished lane."""
        # A job that died after its last lanes were done runs these once more.
        number = min(len(done), self.firsts[-1])
        before = done[:number]
        passes, seconds = (before[-1]["job_passes"], before[-1]["elapsed_seconds"]) if before else (0, 0.0)
        return replace(self, number=number, passes_before=passes, seconds_before=seconds)

    @property
    def n_rows(self) -> int:
        """Number of rows, the length of alpha."""
        return self.manifest.n_rows

    @property
    def blocks(self) -> int:
        """Number of blocks in a pass."""
        return self.partition or len(self.manifest.blocks)

    @property
    def partition(self) -> int | None:
        """Blocks that the rows are dealt out to; None: the solver has them as they are stored."""
        return count_blocks(self.spec, self.manifest, self.cache) if uses_blocks(self.spec) else None

    @property
    def threads(self) -> int:
        """Threads of the trainer."""
        return threads_of(self.spec, self.cores)

    @property
    def spills(self) -> bool:
        """Whether decoded rows are kept on disk, too."""
        return spills(self.spec) and not holds_all(self.spec, self.manifest, self.cache)

    @cached_property
    def maps(self) -> FeatureMaps:
        """The maps that rows go through, still to be fitted; the constant feature is the last."""
        return planned_maps(self.spec, self.manifest)

    @property
    def width(self) -> int:
        """Length of w: the number of mapped features, with the constant feature if there is a bias."""
        return self.maps.width

    @property
    def run_bytes(self) -> int:
        """Size of cache and state files."""
        return self.spec.cache_bytes + state_bytes(self.n_rows, self.width, *self.axes)

    @property
    def axes(self) -> tuple[int]:
        """Length of the state arrays' last axis: a column for each task, and columns of padding."""
        return (self.tasks.width,)

    @property
    def places_with_folds(self) -> list[int]:
        """Positions, within `running`, of the lanes that leave a fold out."""
        return [place for place, lane in enumerate(self.running) if lane.fold is not None]


def plan_job(spec: JobSpec, manifest: Manifest, cores: int | None = None, memory_bytes: int | None = None) -> JobPlan:
    """Plan a job for so many cores and so much memory: by default those of this machine.

    Raises ServiceError: weights_not_supported, folds_solver, folds_weights, warm_start, single_class, too_many_classes,
    lanes_range, select_by_range, unknown_label, label_too_large, label_not_numeric, cache_too_small, memory_too_small,
    n_blocks_range, data_too_large, features_order, features_range, features_missing, no_statistics.
    """
    _check_weights(spec, manifest)
    planned_maps(spec, manifest)
    cores = cores or usable_cores()
    labels = labels_of(spec, manifest)
    lanes = lanes_of(spec, labels, manifest)
    turns = count_turns(spec, manifest)
    there_are = memory_bytes or memory_limit()
    memory = plan_memory(spec, manifest, threads_of(spec, cores), there_are, len(lanes) // turns)
    spec = spec.model_copy(update={"cache_bytes": memory.cache.cache_bytes})
    if uses_blocks(spec):
        count_blocks(spec, manifest, memory.cache)
    return JobPlan(spec, manifest, labels, lanes, memory.cache, cores, memory.at_once, turns, newton=memory.newton)


def knows_weights(solver: str) -> bool:
    """Whether there is a solver of this name, and it trains with weights of rows."""
    return solver in TRAINS_WEIGHTS


def _check_weights(spec: JobSpec, manifest: Manifest) -> None:
    if manifest.weights is not None and not knows_weights(spec.solver):
        raise ServiceError(
            "weights_not_supported",
            f"rows of the dataset have weights, which {spec.solver} would ignore",
            f"Solvers that know weights are {', '.join(TRAINS_WEIGHTS)}.",
        )
    if n_folds_of(spec) and not knows_weights(spec.solver):
        # Rows of a fold are left out by a weight of 0.
        known = ", ".join(TRAINS_WEIGHTS)
        raise ServiceError("folds_solver", f"{spec.solver} cannot leave rows out", f"Solvers that can are {known}.")
    if manifest.weights is not None and manifest.weights.zeros and n_folds_of(spec):
        raise ServiceError("folds_weights", "rows of weight 0 belong to no fold", "Leave them out of the file.")
    if manifest.weights is not None and spec.warm_start is not None:
        raise ServiceError("warm_start", "there is no warm start on rows that have weights", "Leave warm_start out.")
