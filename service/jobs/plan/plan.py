"""Plans a job on a dataset: settles everything that the job's fields leave open, or refuses the job.

A job may begin while its dataset is still arriving: its first pass reads pieces as they are written. The numbers of
rows and features are not known yet, so the plan assumes the largest possible numbers. State files of that size are
sparse, and take memory only as rows and features come.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import planned_maps
from streamsvm.service.jobs.fields.spec import JobSpec, read_spec
from streamsvm.service.jobs.plan.lanes import Lane, class_weights, labels_of, lanes_of, shown, turns_of, with_ladder
from streamsvm.service.jobs.plan.memory import (
    ANY_ROOM,
    JobMemory,
    NewtonRoom,
    cache_of,
    count_blocks,
    holds_all,
    memory_of,
    plan_memory,
    spills,
    threads_of,
)
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from streamsvm.storage.errors import DatasetLost, RowTooLong
from streamsvm.storage.features.maps import LEADING_BIAS, FeatureMaps
from streamsvm.storage.features.rows import Shape
from streamsvm.storage.features.weighing import LeadingBias
from streamsvm.storage.machine.resources import memory_limit, usable_cores
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.run.state import state_bytes, width_for
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.solvers import SOLVERS, TRAINS_WEIGHTS, Solver

MOST_ROWS = 1 << 30
_LONGEST_ROW_GUESSED = 1
_LONGER = 4  # factor from the longest row that a plan allows for to that of the plan after it
_STATE_BYTES_GUESSED = 256 << 20
# Lanes that only judge values of C: their targets, their most passes, and the most lanes of a run with Newton steps,
# whose cost beside arithmetic grows with the number of lanes. See the search for C in tests/bench/HISTORY.md.
_JUDGED = {"tolerance": 0.1, "relative_gap": 1e-3}
_MOST_PASSES_TO_JUDGE, _MOST_IN_NEWTON = 3, 16


@dataclass(frozen=True)
class JobPlan:
    """The plan of a job on a dataset, and the lanes that its next run trains.

    manifest      the dataset's; while the dataset is arriving, upper bounds of what it may hold
    labels        labels of the model, as stored rows have them; () in regression and while the dataset is arriving
    lanes         all problems of the job; number: index of the next run's first lane; at_once: most lanes in a run
    starts        number of the first lane of each turn, see `service.jobs.plan.lanes`
    cores         number of cores that the job may use
    newton        the most equations and bytes that Newton steps may have
    passes_before, seconds_before: passes and seconds of training of all lanes before `number`
    follows       the dataset is still arriving: whether it suits the job is known only when it is complete
    """

    spec: JobSpec
    manifest: Manifest
    labels: tuple[float, ...]
    lanes: tuple[Lane, ...]
    cache: CachePlan
    cores: int
    at_once: int = 1
    starts: tuple[int, ...] = (0,)
    number: int = 0
    passes_before: int = 0
    seconds_before: float = 0.0
    newton: NewtonRoom = ANY_ROOM
    follows: bool = False

    @property
    def model_labels(self) -> tuple[float | str, ...]:
        """The labels of the model as the input has them."""
        return tuple(shown(label, self.manifest) for label in self.labels)

    @cached_property
    def solver(self) -> Solver:
        """The entry of the job's solver in the registry of solvers."""
        return SOLVERS[self.spec.solver]

    def lanes_of(self, C: float, done: int) -> list[int]:
        """Return the numbers of the lanes with this C and no fold; [] unless the first `done` lanes include all."""
        found = [k for k, lane in enumerate(self.lanes[:done]) if (lane.fold, lane.C) == (None, C)]
        each = len(self.labels) if len(self.labels) > 2 and not self.spec.is_joint else 1
        return found if len(found) == each else []

    def Cs_of(self, done: int) -> tuple[float, ...]:
        """The values of C all of whose lanes that leave a fold out are among the first `done`."""
        parts = self.lanes[:done], self.lanes[done:]
        begun, left = ({lane.C for lane in lanes if lane.fold is not None} for lanes in parts)
        return tuple(C for C in self.spec.Cs if C in begun - left)

    @property
    def running(self) -> tuple[Lane, ...]:
        """The lanes that the next run trains side by side."""
        return self.lanes[self.number : next((first for first in self.firsts if first > self.number), None)]

    @property
    def firsts(self) -> list[int]:
        """The number of each run's first lane: a run has up to `at_once` lanes, all of one turn, and no run has few."""
        return [first for turn in self.turns for first in turn[:: _lanes_a_run(len(turn), self.at_once)]]

    @property
    def turns(self) -> list[range]:
        """The numbers of the lanes of each turn."""
        return _turns(self.starts, len(self.lanes))

    @property
    def is_stratified(self) -> bool:
        """Whether rows are dealt to folds class by class; else by a hash: groups, numbers, rows on several machines."""
        is_dealt = self.spec.n_folds > 0 and not self.spec.loss_kind.is_regression
        return is_dealt and not self.manifest.has_groups and self.spec.machines is None

    @property
    def has_searched(self) -> bool:
        """Whether the search for C has ended, see `with_models`."""
        return self.spec.searches_C and self.lanes[-1].fold is None

    @property
    def is_searching(self) -> bool:
        """Whether the next run is of a search for C: its lanes only judge values of C."""
        return self.spec.searches_C and self.lane.fold is not None

    @property
    def targets(self) -> dict[str, Any]:
        """`tolerance`, `relative_gap` and `max_passes` of the next run.

        While a search compares values of C these are looser, as that needs no more; kernel machines keep the job's own.
        """
        own = {name: getattr(self.spec, name) for name in ("tolerance", "relative_gap", "max_passes")}
        if not self.is_searching or self.solver.has_kernel:
            return own
        loose = {name: own[name] and max(own[name], target) for name, target in _JUDGED.items()}
        return {**loose, "max_passes": min(own["max_passes"], _MOST_PASSES_TO_JUDGE)}

    @property
    def takes_newton(self) -> bool:
        """Whether the next run may take Newton steps: in a search of many lanes, sweeps are near enough sooner."""
        return not self.is_searching or len(self.running) <= _MOST_IN_NEWTON

    def with_neighbours(self, done: int, C: float) -> "JobPlan":
        """Return the plan of a search for C that ends after `done` lanes and those at C / 2 and 2 C.

        Neither is beyond the values that the search has tried, nor is one tried twice.
        """
        tried, last = self.Cs_of(done), self.lanes[:done]
        factors = [factor for factor in (0.5, 2.0) if tried[0] < factor * C < tried[-1] and factor * C not in tried]
        own = [_at(lane, factor) for lane in last if lane.C == C for factor in factors]
        spec = self.spec.with_ladder(tuple(sorted((*tried, *(factor * C for factor in factors)))))
        starts = (*(start for start in self.starts if start < done), *((done,) if own else ()))
        return replace(self, spec=spec, lanes=(*last, *own), starts=starts)

    def with_models(self, done: int, Cs: Collection[float]) -> "JobPlan":
        """Return the plan of a search for C that ends after `done` lanes: then come the lanes over all rows at `Cs`."""
        lanes = self.lanes[:done]
        folds = (lanes[0].fold,) if self.spec.refit else ()
        own = tuple(replace(lane, fold=None) for lane in lanes if lane.fold in folds and lane.C in Cs)
        starts = (*(start for start in self.starts if start < done), *((done,) if own else ()))
        return replace(self, lanes=(*lanes, *own), starts=starts)

    @property
    def lane(self) -> Lane:
        """The first lane of the next run."""
        return self.running[0]

    @cached_property
    def tasks(self) -> Tasks:
        """The problems of the next run, as the trainer takes them."""
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
        return Tasks(spec.loss, each, labels, max(1, spec.n_folds), spec.seed, spec.epsilon, spec.is_joint)

    def next_lanes(self, done: Sequence[Mapping[str, Any]]) -> "JobPlan":
        """Return the plan with the next run's lanes; `done` has the record of each finished lane, in order."""
        # A job that died after its last lanes were done runs these once more.
        number = min(len(done), self.firsts[-1])
        before = done[:number]
        passes, seconds = (before[-1]["job_passes"], before[-1]["elapsed_seconds"]) if before else (0, 0.0)
        return replace(self, number=number, passes_before=passes, seconds_before=seconds)

    @property
    def n_rows(self) -> int:
        """Number of rows, which is the length of alpha; an upper bound while the dataset is arriving."""
        return self.manifest.n_rows

    @property
    def blocks(self) -> int | None:
        """Number of blocks that a pass reads; None: not known yet."""
        return self.partition or len(self.manifest.blocks) or None

    @property
    def partition(self) -> int | None:
        """Number of blocks that the solver has its rows divided into; None: it takes the blocks as they are stored."""
        return count_blocks(self.spec, self.manifest, self.cache)

    @property
    def threads(self) -> int:
        """Number of threads of the trainer."""
        return threads_of(self.spec, self.cores)

    @property
    def spills(self) -> bool:
        """Whether the trainer keeps decoded rows on disk as well, since the cache does not hold all of them."""
        return spills(self.spec) and not holds_all(self.spec, self.manifest, self.cache)

    @cached_property
    def maps(self) -> FeatureMaps:
        """The feature maps of the job, not yet fitted to the data. The last one makes the constant feature (bias).

        While the dataset is arriving, the constant feature comes first: the number of other features is not known yet.
        """
        if not self.follows:
            return planned_maps(self.spec, self.manifest)
        bias = self.spec.bias
        named = [] if bias is None else [(LEADING_BIAS, LeadingBias(bias))]
        return FeatureMaps.planned(Shape(self.manifest.width), named)

    @property
    def width(self) -> int:
        """Length of w: number of mapped features, with the constant one if there is a bias; or an upper bound."""
        return self.maps.width

    @property
    def memory(self) -> JobMemory:
        """The memory that the job holds during the next run."""
        return memory_of(self.spec, self.manifest, self.threads, len(self.running), self.newton)

    @property
    def run_bytes(self) -> int:
        """Bytes of the cache file and the state files; a guess while the dataset is arriving."""
        state = _STATE_BYTES_GUESSED if self.follows else state_bytes(self.n_rows, self.width, self.tasks.width)
        return self.spec.cache_bytes + state

    @property
    def needed_bytes(self) -> int:
        """Bytes of memory that the job takes; a guess while its dataset is arriving."""
        return self.run_bytes if self.follows else self.memory.total_bytes

    @property
    def places_with_folds(self) -> list[int]:
        """Indices, in `running`, of the lanes that leave a fold out."""
        return [place for place, lane in enumerate(self.running) if lane.fold is not None]


def _lanes_a_run(lanes: int, at_once: int) -> int:
    """Return how many of a turn's lanes each run has: as the trainer takes them, of about one size."""
    runs = -(-lanes // at_once)
    return min(at_once, width_for(-(-lanes // runs)))


def _at(lane: Lane, factor: float) -> Lane:
    """Return the lane at this factor times its C."""
    Cs = (factor * C for C in (lane.C, lane.C_positive, lane.C_negative))
    return Lane(lane.positive, lane.label, lane.fold, *Cs)


def plan_job(spec: JobSpec, manifest: Manifest, cores: int | None = None, memory_bytes: int | None = None) -> JobPlan:
    """Plan a job for `cores` cores and `memory_bytes` bytes of memory; None: as many as this machine has.

    Raises ServiceError: weights_not_supported, folds_solver, folds_weights, warm_start, single_class, too_many_classes,
    lanes_range, scoring_range, unknown_label, label_too_large, label_not_numeric, cache_too_small, memory_too_small,
    n_blocks_range, data_too_large, features_order, features_range, features_missing, no_statistics.
    """
    _check_weights(spec, manifest)
    planned_maps(spec, manifest)
    cores = cores or usable_cores()
    labels, spec = labels_of(spec, manifest), with_ladder(spec, manifest)
    lanes = lanes_of(spec, labels, manifest)
    each = len(lanes) // len(spec.Cs)
    starts = tuple(place * each for place in turns_of(spec, manifest))
    threads, there_are = threads_of(spec, cores), memory_bytes or memory_limit()
    at_once, cache, newton = plan_memory(spec, manifest, threads, there_are, max(map(len, _turns(starts, len(lanes)))))
    spec = spec.model_copy(update={"cache_bytes": cache.cache_bytes})
    count_blocks(spec, manifest, cache)
    return JobPlan(spec, manifest, labels, lanes, cache, cores, at_once, starts, newton=newton)


def _turns(starts: tuple[int, ...], n_lanes: int) -> list[range]:
    return [range(start, end) for start, end in zip(starts, (*starts[1:], n_lanes), strict=True)]


def knows_weights(solver: str) -> bool:
    """Return whether a solver of this name exists and trains with weights of rows."""
    return solver in TRAINS_WEIGHTS


def _check_weights(spec: JobSpec, manifest: Manifest) -> None:
    if manifest.weights is not None and not knows_weights(spec.solver):
        raise ServiceError(
            "weights_not_supported",
            f"rows of the dataset have weights, which {spec.solver} would ignore",
            f"Solvers that know weights are {', '.join(TRAINS_WEIGHTS)}.",
        )
    if spec.n_folds and not knows_weights(spec.solver):
        # Rows of a fold are left out by a weight of 0.
        known = ", ".join(TRAINS_WEIGHTS)
        raise ServiceError("folds_solver", f"{spec.solver} cannot leave rows out", f"Solvers that can are {known}.")
    if manifest.weights is not None and manifest.weights.zeros and spec.n_folds:
        raise ServiceError("folds_weights", "rows of weight 0 belong to no fold", "Leave them out of the file.")
    if manifest.weights is not None and spec.warm_start is not None:
        raise ServiceError("warm_start", "there is no warm start on rows that have weights", "Leave warm_start out.")


def can_follow(spec: JobSpec) -> bool:
    """Return whether the job can train while its dataset arrives: it needs nothing that is known only at the end."""
    solver = SOLVERS[spec.solver]
    # A run of pace "fixed" is a function of the data, not of when it came.
    sized = spec.machines is None and spec.memory_bytes is None and not spec.features and not spec.class_weight
    is_one = len(spec.Cs) == 1 and not spec.n_folds and spec.warm_start is None and not spec.is_joint
    return solver.feed == "steps" and solver.evicts == "score" and sized and is_one and spec.pace == "adaptive"


def plan_following(spec: JobSpec, max_features: int) -> JobPlan:
    """Plan a job whose dataset is still arriving. Raises ServiceError: not_ready, cache_too_small."""
    if not can_follow(spec):
        raise ServiceError(
            "not_ready",
            "the dataset is still being read in, and this job needs to know it as a whole",
            "Submit it when the dataset is ready, "
            "or leave out features, class_weight, memory_bytes, pace fixed, solver, multiclass, folds, "
            "probability, warm_start and all but one C.",
        )
    # The lengths of rows are not known either: a row longer than the guess may end the run.
    return plan_arriving(spec, max_features, cache_of(spec.cache_bytes, _LONGEST_ROW_GUESSED), usable_cores())


def plan_arriving(
    spec: JobSpec, most_features: int, cache: CachePlan, cores: int, most_rows: int = MOST_ROWS
) -> JobPlan:
    """Plan a job of one lane on data still to come, at most `most_rows` rows and `most_features` features."""
    most = Manifest(
        uid="",
        index_base=0,
        n_features=most_features,
        n_rows=most_rows,
        nnz=most_rows * most_features,
        labels={},
        longest_row=_LONGEST_ROW_GUESSED,
        input_bytes=0,
        counters={},
        blocks=(),
    )
    (C,) = spec.Cs
    return JobPlan(spec, most, (), (Lane(None, None, None, C, C, C),), cache, cores, follows=True)


def followed_again(plan: JobPlan, error: ServiceError) -> JobPlan | None:
    """Return a plan to try after `plan` ended with `error`: after RowTooLong, one whose cache takes longer rows.

    None: after DatasetLost, or if the cache has no room for longer rows. Any other error is raised.
    """
    if error.code not in (RowTooLong.code, DatasetLost.code):
        raise error
    with suppress(ServiceError):
        if error.code == RowTooLong.code:
            return replace(plan, cache=cache_of(plan.spec.cache_bytes, _LONGER * plan.cache.longest_row))
    return None


def plan_recorded(settings: Settings, store: Store, record: dict[str, Any]) -> JobPlan:
    """Plan a job on record by what is known of its dataset. Raises ServiceError if that is gone or does not suit."""
    spec, state = read_spec(record["spec"]), store.dataset_state(record["dataset_id"])
    if state == "ready":
        return plan_job(spec, read_manifest(settings.datasets / record["dataset_id"]))
    if state == "ingesting":
        return plan_following(spec, settings.max_features)
    teller = "The answer to its upload" if state is None else "The failure of its import"
    raise ServiceError("dataset_lost", "the dataset could not be read in", f"{teller} says why.")
