"""Settings of the trainer process: the `trainer` part of a run's `run.json`."""

from dataclasses import dataclass
from typing import Any

from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.trainer.problem.tasks import Tasks


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of a run's trainer.

    n_rows, width     lengths of alpha and w; upper bounds while the dataset is being read in
    cache             sizes of the cache and of its segments
    cache_rows        mean number of rows that a full cache holds: Omega in the paper
    lane              number of the first task among the lanes of the job
    tasks             the tasks that are trained side by side
    passes_before     passes made for the job's lanes that were trained before these
    follows           the first pass is over a dataset that is being read in
    share_of_gap      a pass ends when the gap has fallen to this share of the gap of its first sweep; None: never
    maps              the feature maps of the job
    solver            a key of `trainer.solvers.SOLVERS`
    options           the solver's options, an instance of its class of options
    gamma             parameter of the Gaussian kernel; None for solvers without one
    largest_weight    largest weight of a row; 1 if rows have no weights
    tolerance         training stops when M+ - M-, or the solver's figure in its place, is at most this in a pass that
                      visited every row; None: never
    relative_gap      training stops when the relative gap is at most this; None: never
    pace              "fixed": exactly as many updates as are due; "adaptive": more while the reader is not ready
    threads           threads that may work at once
    spill_directory   directory for the file of active rows; None: no file, and no sweeps over rows on disk
    stored_rows       `dataset`: directory of the blocks; `part_rows`: as the reader's (reader.stream.settings)
    checkpoints       directory for checkpoints, or None; checkpoint_seconds: longest time between two
    resume            path of the checkpoint to go on from, whose arrays of rows the state has already; or None
    newton_equations  most equations that a system of Newton steps may have (trainer.newton); 0: no room for the steps;
                      None: the run takes none
    shares_time       the job has other groups of lanes, each of which gets one pass at least
    folds             path of the file with the rows' folds; None: a hash deals rows to folds
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
    stored_rows: dict[str, Any]
    checkpoints: str | None
    checkpoint_seconds: float
    resume: str | None
    newton_equations: int | None
    shares_time: bool = False
    folds: str | None = None

    @property
    def visited(self) -> Visited:
        """Applies, at each visit, the feature maps that are not applied when rows are read."""
        return Visited(self.maps.late)
