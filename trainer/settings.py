"""What the trainer process is told: the `trainer` part of a run's `run.json`."""

from dataclasses import dataclass
from typing import Any

from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.lanes import Group
from streamsvm.trainer.problem.problem import Problem


@dataclass(frozen=True)
class TrainerSettings:
    """
    n_rows, width     lengths of alpha and w, or bounds on them while the dataset is being read in
    lane              number of the problem among those of the job; passes_before: of the lanes before it
    group             the problems, if several are trained side by side: `lane` is that of the first; or the classes of
                      one that has all of them; else None
    follows           the first pass is over a dataset that is being read in
    cache             how it is divided
    cache_rows        rows the cache holds when full, on average: Omega in the paper
    epsilon           half the width of the tube in which a residual costs nothing, in regression
    gamma             of a Gaussian kernel, of solvers that have one
    share_of_gap      of what the first sweep of a pass met: when the gap is down to that, the pass ends. Where the rows
                      are a part of the problem's (trainer.distributed.cocoa_round), else None
    maps              what rows become before they are trained on
    solver            a key of `trainer.solvers.SOLVERS`
    options           of the solver's own class
    largest_weight    of a row, 1 if they have none
    has_weights       rows have weights, and y does not tell them: it is a row's kind in a group of lanes, its class, or
                      what regression is to predict
    tolerance         stop when M+ - M-, or what the solver has for it, falls to it in a pass that visited every row;
                      None: never
    relative_gap      stop when the streaming certificate falls to it; None: never
    pace              "fixed": exactly as many updates as are due; "adaptive": more while the reader is not ready
    threads           that work at once
    spill_directory   directory on the disk where rows are kept, decoded, beside the cache, or None: nowhere
    kept_rows         what the rows of this job are known by where they are kept, decoded, for the next: its key
                      `dataset` is their directory; None: they are not
    checkpoints       directory for them, or None; checkpoint_seconds: longest time between two
    resume            the checkpoint to go on from, or None: the state's arrays are those it kept
    shares_time       the job has other groups of lanes, each of which gets one pass at least
    """

    n_rows: int
    width: int
    cache: CachePlan
    cache_rows: float
    lane: int
    group: Group | Classes | None
    passes_before: int
    follows: bool
    share_of_gap: float | None
    maps: FeatureMaps
    solver: str
    options: Any
    loss: str
    epsilon: float
    gamma: float | None
    C_positive: float
    C_negative: float
    largest_weight: float
    has_weights: bool
    tolerance: float | None
    relative_gap: float | None
    max_passes: int
    max_seconds: float | None
    pace: str
    threads: int
    seed: int
    spill_directory: str | None
    kept_rows: dict[str, Any] | None
    checkpoints: str | None
    checkpoint_seconds: float
    resume: str | None
    shares_time: bool = False

    @property
    def lanes(self) -> int:
        """Of the axis of lanes, or classes; 1: there is none."""
        return self.group.width if self.group else 1

    @property
    def problem(self) -> Problem:
        """The problem to solve."""
        visited = Visited(self.maps.late)
        return Problem(self.loss, self.C_positive, self.C_negative, self.epsilon, visited=visited)
