"""What the trainer process is told: the `trainer` part of a run's `run.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

from storage.state import RUN_FILE
from trainer.problem import Problem


@dataclass(frozen=True)
class TrainerSettings:
    """
    n_rows, width     lengths of alpha and w, or bounds on them while the dataset is being read in
    follows           the first pass is over a dataset that is being read in
    cache_bytes       bound on the cache file
    cache_rows        rows the cache holds when full, on average: Omega in the paper
    epsilon           half the width of the tube in which a residual costs nothing, in regression
    solver            a key of `trainer.solvers.SOLVERS`
    tolerance         stop when M+ - M-, or what the solver has for it, falls to it in a pass that visited every row;
                      None: never
    relative_gap      stop when the streaming certificate falls to it; None: never
    updates_per_row   updates for each streamed row, visits on arrival included
    pace              "fixed": exactly so many; "adaptive": more while the reader is not ready
    epsilon_...       see `trainer.solvers.streamsvm_paper`
    selection         a key of `trainer.selection.SELECTIONS`
    schedule          a key of `trainer.selection.SCHEDULES`
    inner_rounds      rounds over a block, or None: until it is nearly solved
    select            which rows stay when the next block comes: a key of `trainer.solvers.bm.SELECT`
    update            a key of `trainer.solvers.pegasos.UPDATES`
    threads           for the gradients of arriving rows; 1: they are taken when the rows are visited; for all of CPA
    max_cuts          most cutting planes held at a time
    spill             directory on the disk where rows are kept, decoded, beside the cache, or None: nowhere
    checkpoints       directory for them, or None; checkpoint_seconds: longest time between two
    resume            the checkpoint to go on from, or None: the state's arrays are those it kept
    """

    n_rows: int
    width: int
    cache_bytes: int
    cache_rows: float
    follows: bool
    solver: str
    loss: str
    epsilon: float
    C_positive: float
    C_negative: float
    tolerance: float | None
    relative_gap: float | None
    max_passes: int
    max_seconds: float | None
    updates_per_row: float
    pace: str
    epsilon_start: float | None
    epsilon_decay: str
    epsilon_reset: bool
    epsilon_gradient: str
    selection: str
    inner_rounds: int | None
    select: str
    update: str
    schedule: str
    threads: int
    max_cuts: int
    seed: int
    spill: str | None
    checkpoints: str | None
    checkpoint_seconds: float
    resume: str | None

    @property
    def problem(self) -> Problem:
        """The problem to solve."""
        return Problem(self.loss, self.C_positive, self.C_negative, self.epsilon)

    @classmethod
    def read(cls, run: Path) -> "TrainerSettings":
        """The settings in a run directory."""
        return cls(**json.loads((run / RUN_FILE).read_bytes())["trainer"])
