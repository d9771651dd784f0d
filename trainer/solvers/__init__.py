"""The solvers, by the name a job asks for. A solver is a generator: one `Progress` a pass, closed to stop it."""

from collections.abc import Callable
from dataclasses import dataclass

from storage.objective import OBJECTIVES
from trainer.problem import LOSSES
from trainer.solvers.avsf import avsf
from trainer.solvers.bm import bm
from trainer.solvers.cutting_planes import cpa, cut_bytes, ocas, ocas_bytes
from trainer.solvers.dcd import dcd
from trainer.solvers.pegasos import pegasos
from trainer.solvers.streamsvm import streamsvm
from trainer.solvers.streamsvm_paper import streamsvm_paper


@dataclass(frozen=True)
class Solver:
    """What there is to know of a solver.

    train     (problem, settings, source, alpha, w) -> generator; changes alpha (n_rows,) and w (width,) in place
    feed      its source: "steps" is trainer.steps.Steps, "blocks" trainer.blocks.Blocks
    losses    it can minimise
    options   fields of a job that mean something to it and not to all solvers
    evicts    what leaves a full cache first: "score", the rows with the highest; "random", the infinite ones, then any
    is_dual   it trains alpha, and w with it; else w alone, and its Progress has a lower bound of its own
    own_bytes (n_rows, width, threads, max_cuts) -> bytes it may hold beside alpha, w and what is kept about rows
    """

    train: Callable
    feed: str
    losses: tuple[str, ...]
    options: tuple[str, ...]
    evicts: str = "score"
    is_dual: bool = True
    own_bytes: Callable[[int, int, int, int], int] = lambda *_: 0


def _order_bytes(n_rows: int, *_: int) -> int:
    """The order in which the rows of a block are visited."""
    return 4 * n_rows


def _preference_bytes(n_rows: int, *_: int) -> int:
    """How often each row is to be visited, and what it is owed of a visit."""
    return 8 * n_rows


_PRINTED = ("epsilon_start", "epsilon_decay", "epsilon_reset", "epsilon_gradient", "updates_per_row")
_STREAMING = ("screening", "selection", "spill", "threads", "updates_per_row")
_BLOCKS = ("n_blocks", "permute_blocks", "inner_rounds")
_CUTTING = ("n_blocks", "threads", "max_cuts")

SOLVERS = {
    "streamsvm": Solver(streamsvm, "steps", LOSSES, _STREAMING),
    "streamsvm_paper": Solver(streamsvm_paper, "steps", LOSSES, _PRINTED, evicts="random"),
    "dcd": Solver(dcd, "blocks", tuple(OBJECTIVES), (), own_bytes=_order_bytes),
    "avsf": Solver(avsf, "blocks", LOSSES, ("schedule",), own_bytes=_preference_bytes),
    "bm": Solver(bm, "blocks", LOSSES, _BLOCKS, own_bytes=_order_bytes),
    # The reader keeps rows; what is done with them is the same.
    "sbm": Solver(bm, "blocks", LOSSES, (*_BLOCKS, "select", "cache_share"), own_bytes=_order_bytes),
    "pegasos": Solver(pegasos, "blocks", ("hinge",), ("n_blocks", "permute_blocks", "update"), is_dual=False),
    "cpa": Solver(cpa, "blocks", ("hinge",), _CUTTING, is_dual=False, own_bytes=cut_bytes),
    "ocas": Solver(ocas, "blocks", ("hinge",), _CUTTING, is_dual=False, own_bytes=ocas_bytes),
}
