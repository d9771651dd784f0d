"""The solvers, by the name a job asks for. A solver is a generator: one `Progress` a pass, closed to stop it."""

from collections.abc import Callable
from dataclasses import dataclass

from trainer.problem import LOSSES
from trainer.solvers.bm import bm
from trainer.solvers.streamsvm import streamsvm


@dataclass(frozen=True)
class Solver:
    """What there is to know of a solver.

    train     (problem, settings, source, alpha, w) -> generator; changes alpha (n_rows,) and w (width,) in place
    feed      its source: "steps" is trainer.steps.Steps, "blocks" trainer.blocks.Blocks
    losses    it can minimise
    options   fields of a job that mean something to it and not to all solvers
    """

    train: Callable
    feed: str
    losses: tuple[str, ...]
    options: tuple[str, ...]


_PRINTED = ("paper_epsilon", "paper_beta", "paper_reset", "paper_gradient")
_STREAMING = ("eviction", "screening", "selection", "threads", "updates_per_row", *_PRINTED)

SOLVERS = {
    "streamsvm": Solver(streamsvm, "steps", LOSSES, _STREAMING),
    "bm": Solver(bm, "blocks", LOSSES, ("n_blocks", "permute_blocks", "inner_rounds")),
}
