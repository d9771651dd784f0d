"""Jobs on a dataset that is still being read in: their first pass goes over its pieces as they are written.

How many rows and features there will be is not known, so state files are made for the most there can be: they are
sparse, and take memory as rows and features come.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.blocks import spills
from streamsvm.service.jobs.plan.lanes import Cs_of, n_folds_of
from streamsvm.service.jobs.plan.memory import cache_of, threads_of
from streamsvm.storage.errors import DatasetLost, RowTooLong
from streamsvm.storage.features.bias import LeadingBias
from streamsvm.storage.features.maps import LEADING_BIAS, FeatureMaps
from streamsvm.storage.features.rows import Shape
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.trainer.solvers import SOLVERS, Solver

MOST_ROWS = 1 << 30
_LONGEST_ROW_GUESSED = 1
_LONGER = 4  # times as long a row as was expected
_STATE_BYTES_GUESSED = 256 << 20


@dataclass(frozen=True)
class FollowPlan:
    """A job of one lane that begins before its dataset is complete; only then it shows whether the dataset suits it.

    most_features  bound on the features of the rows; cores: that the job may use
    """

    spec: JobSpec
    most_features: int
    cache: CachePlan
    cores: int
    n_rows: int = MOST_ROWS
    blocks: ClassVar[None] = None
    follows: ClassVar[bool] = True
    number: ClassVar[int] = 0
    passes_before: ClassVar[int] = 0

    @property
    def solver(self) -> Solver:
        """The solver's line in the registry."""
        return SOLVERS[self.spec.solver]

    @cached_property
    def maps(self) -> FeatureMaps:
        """The constant feature, if there is a bias. It comes first: nobody knows yet how many other features come."""
        bias = self.spec.bias
        return FeatureMaps.planned(
            Shape(self.most_features), [] if bias is None else [(LEADING_BIAS, LeadingBias(bias))]
        )

    @property
    def width(self) -> int:
        """Bound on the length of w."""
        return self.maps.width

    @property
    def C(self) -> float:
        """The job's one value of C."""
        return Cs_of(self.spec)[0]

    @property
    def threads(self) -> int:
        """Threads of the trainer."""
        return threads_of(self.spec, self.cores)

    @property
    def spills(self) -> bool:
        """Whether decoded rows are kept on disk, too."""
        return spills(self.spec)

    @property
    def run_bytes(self) -> int:
        """Size of cache and state files, a guess."""
        return self.spec.cache_bytes + _STATE_BYTES_GUESSED

    def after(self, error: ServiceError) -> "FollowPlan | None":
        """The plan to run after one that ended with this error, for longer rows if one was too long; others are raised.

        None: the dataset is lost, or the cache has no room for rows that may be much longer.
        """
        if error.code not in (RowTooLong.code, DatasetLost.code):
            raise error
        with suppress(ServiceError):
            if error.code == RowTooLong.code:
                return replace(self, cache=cache_of(self.spec.cache_bytes, _LONGER * self.cache.longest_row))
        return None


def can_follow(spec: JobSpec) -> bool:
    """Whether the job can train while its dataset is read in: it depends on nothing that is known only at the end."""
    solver = SOLVERS[spec.solver]
    # A run of pace "fixed" is a function of the data, not of when it came.
    sized = spec.machines is None and spec.memory_bytes is None and not spec.features and not spec.class_weight
    is_one = len(Cs_of(spec)) == 1 and not n_folds_of(spec) and spec.warm_start is None and not spec.is_joint
    return solver.feed == "steps" and solver.evicts == "score" and sized and is_one and spec.pace == "adaptive"


def plan_following(spec: JobSpec, max_features: int) -> FollowPlan:
    """The plan of a job whose dataset is still being read in. Raises ServiceError: not_ready, cache_too_small."""
    if not can_follow(spec):
        raise ServiceError(
            "not_ready",
            "the dataset is still being read in, and this job needs to know it as a whole",
            "Submit it when the dataset is ready, "
            "or leave out features, class_weight, memory_bytes, pace fixed, solver, multiclass, folds, "
            "probability, warm_start and all but one C.",
        )
    # Nor are the lengths of rows known: one that is too long ends the run.
    cache = cache_of(spec.cache_bytes, _LONGEST_ROW_GUESSED)
    return FollowPlan(spec, max_features, cache, usable_cores())
