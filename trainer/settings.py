"""Settings of the trainer process: the `trainer` part of a run's `run.json`."""

from dataclasses import dataclass
from typing import Any

from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.trainer.problem.tasks import Tasks


@dataclass(frozen=True)
class TrainerSettings:
    """
    n_rows, width     lengths of alpha and w, or bounds on them while the dataset is being read in
    lane              number of the problem among those of the job; passes_before: of the lanes before it
    tasks             the problems that are trained side by side: `lane` is the number of the first
    follows           the first pass is over a dataset that is being read in
    cache             how it is divided
    cache_rows        rows the cache holds when full, on average: Omega in the paper
    gamma             of a Gaussian kernel, of solvers that have one
    share_of_gap      of what the first sweep of a pass met: when the gap is down to that, the pass ends. Where the rows
                      are a part of the problem's (trainer.distributed.cocoa_round), else None
    maps              what rows become before they are trained on
    solver            a key of `trainer.solvers.SOLVERS`
    options           of the solver's own class
    largest_weight    of a row, 1 if they have none
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
    tasks: Tasks
    passes_before: int
    follows: bool
    share_of_gap: float | None
    maps: FeatureMaps
    solver: str
    options: Any
    gamma: float | None
    largest_weight: float
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
    def visited(self) -> Visited:
        """How rows are made ready to be visited."""
        return Visited(self.maps.late)
