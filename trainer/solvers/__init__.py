"""The solvers, by the names of a job's field. A solver is a generator: it yields a `PassProgress` after each pass."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.storage.features.maps import LEADING_BIAS, FeatureMaps, read_maps
from streamsvm.storage.options import Option, options_of
from streamsvm.storage.rows.cache import CacheReader
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.storage.run.state import RUN_FILE, State
from streamsvm.trainer.checkpoints import Checkpoints, CheckpointSlots
from streamsvm.trainer.problem.losses import LOSSES, SVM_LOSSES, box_of
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.rows.blocks import Blocks
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.solvers import avsf, bm, budgeted, cutting_planes, dcd, pegasos, streamsvm, streamsvm_paper
from streamsvm.trainer.solvers.options import NoOptions

MakeShared = Callable[[State, bool, bool, int], SharedState]  # (state, deferred, is_blank, n_figures), see SharedState


@dataclass(frozen=True)
class Solver:
    """What jobs, plans and the trainer know of a solver.

    train     (settings, source, alpha, w) -> generator; changes alpha (n_rows, width) and w (features, width) in place
    feed      kind of source: "steps" for trainer.rows.cache.Cursor, "blocks" for trainer.rows.blocks.Blocks
    losses    names of the losses that the solver can minimise
    options   class of the options that not all solvers have
    evicts    which rows leave a full cache first: "score": those with the highest score; "random": those whose score
              is infinite, then random ones
    is_dual   it trains alpha, and w with it; else w alone, and its PassProgress has another lower bound than D(alpha)
    has_lanes it can train several problems side by side
    has_kernel  it trains support vectors of a Gaussian kernel, no w
    has_weights  it trains with weights of rows, and can leave rows out of a fold by a weight of 0
    shares_work  several threads can share its work
    rereads   of rows that come in blocks, passes after the first read the blocks of the dataset without the cache
    has_joint it trains all classes as one problem, that of Crammer and Singer, with hinge loss
    own_bytes (n_rows, width, threads, its options) -> bytes that it may hold beside alpha, w and the scores of rows
    """

    train: Callable
    feed: str
    losses: tuple[str, ...]
    options: type = NoOptions
    evicts: str = "score"
    is_dual: bool = True
    has_lanes: bool = False
    has_joint: bool = False
    has_kernel: bool = False
    has_weights: bool = False
    shares_work: bool = False
    rereads: bool = False
    own_bytes: Callable[[int, int, int, Any], int] = lambda *_: 0

    @property
    def has_blocks(self) -> bool:
        """Whether rows may come in several blocks. If not, with the feed "blocks" the cache has to hold all rows."""
        return "n_blocks" in options_of(self.options)


def _a_row(size: int) -> Callable[[int, int, int, Any], int]:
    """Return the `own_bytes` of a solver that holds `size` bytes for each row."""
    return lambda n_rows, *_: size * n_rows


_ORDER = _a_row(4)  # for the order of the rows of a block
_SWEEPS = _a_row(9)  # for alpha at the end of the last sweep, and which rows are set aside
# Preference and credit of each row (trainer.kernels.order), its visits in a sweep, and the sweep's order: 8 bytes a
# visit, of which a sweep may have twice as many as there are rows.
_PREFERENCE = _a_row(8 + 4 + 16)
_LISTED = _a_row(16 + 3 * 4)  # where a row is (Listing); ids of rows that come back, that are cached, that arrive

SOLVERS = {
    "streamsvm": Solver(
        streamsvm.streamsvm, "steps", LOSSES, streamsvm.StreamSvmOptions, has_lanes=True, has_joint=True,
        has_weights=True, shares_work=True, own_bytes=_SWEEPS,
    ),
    "streamsvm_paper": Solver(
        streamsvm_paper.streamsvm_paper, "steps", SVM_LOSSES, streamsvm_paper.PickOptions, evicts="random",
        own_bytes=_LISTED,
    ),
    "dcd": Solver(dcd.dcd, "blocks", LOSSES, has_weights=True, own_bytes=_ORDER),
    "avsf": Solver(avsf.avsf, "blocks", SVM_LOSSES, avsf.AvsfOptions, has_weights=True, own_bytes=_PREFERENCE),
    "bm": Solver(bm.bm, "blocks", SVM_LOSSES, bm.BlockMinimizationOptions, has_weights=True, own_bytes=_ORDER),
    "sbm": Solver(bm.sbm, "blocks", SVM_LOSSES, bm.SelectiveOptions, has_weights=True, own_bytes=_ORDER),
    "pegasos": Solver(pegasos.pegasos, "blocks", ("hinge",), pegasos.PegasosOptions, is_dual=False),
    "cpa": Solver(
        cutting_planes.cpa, "blocks", ("hinge",), cutting_planes.CuttingPlaneOptions, is_dual=False, shares_work=True,
        rereads=True, own_bytes=cutting_planes.cut_bytes,
    ),
    "ocas": Solver(
        cutting_planes.ocas, "blocks", ("hinge",), cutting_planes.CuttingPlaneOptions, is_dual=False, shares_work=True,
        rereads=True, own_bytes=cutting_planes.ocas_bytes,
    ),
    "bsca": Solver(
        budgeted.bsca, "blocks", ("hinge",), budgeted.BudgetOptions, is_dual=False, has_weights=True, has_kernel=True,
        shares_work=True, own_bytes=budgeted.own_bytes,
    ),
    "bsgd": Solver(
        budgeted.bsgd, "blocks", ("hinge",), budgeted.GradientOptions, is_dual=False, has_weights=True, has_kernel=True,
        shares_work=True, own_bytes=budgeted.own_bytes,
    ),
}  # fmt: skip

TRAINS_WEIGHTS = tuple(name for name, solver in SOLVERS.items() if solver.has_weights)

# The options of all solvers by name. Solvers that have an option of the same name share its description.
OPTIONS: dict[str, Option] = {
    name: option for solver in SOLVERS.values() for name, option in options_of(solver.options).items()
}


def users(option: str) -> tuple[str, ...]:
    """Return the names of the solvers that have the option of this name."""
    return tuple(name for name, solver in SOLVERS.items() if option in options_of(solver.options))


def read_settings(run: Path) -> TrainerSettings:
    """Return the settings in a run directory, with the options of their solver."""
    told = json.loads((run / RUN_FILE).read_bytes())["trainer"]
    return settings_of(told, read_maps(run, told["maps"], told["width"]))


def settings_of(told: Mapping[str, Any], maps: FeatureMaps) -> TrainerSettings:
    """Return the settings in a document, which is the `trainer` part of a run file, with these fitted feature maps."""
    cache, options = CachePlan(**told["cache"]), SOLVERS[told["solver"]].options(**told["options"])
    own = {"cache": cache, "options": options, "maps": maps, "tasks": Tasks.of(told["tasks"])}
    return TrainerSettings(**{**told, **own})


def make_cursor(
    cache: CacheReader | None,
    state: State,
    settings: TrainerSettings,
    make_shared: MakeShared = SharedState,
    slots: CheckpointSlots | None = None,
    kept: Mapping[str, Array] = EMPTY,
) -> Cursor:
    """Return a cursor over the steps of the cache, or for no cache. Without `slots` it makes no checkpoints."""
    # Scores need not be deferred for a solver that takes blocks: the reader waits while the trainer works on a block.
    is_exact = settings.pace == "fixed"
    deferred = is_exact and SOLVERS[settings.solver].feed == "steps"
    tasks = settings.tasks
    U, _ = box_of(tasks.loss, np.array([tasks.largest_C * settings.largest_weight]))
    checkpoints = Checkpoints(
        slots or CheckpointSlots(Path(), None, inf, 0),
        state,
        float(U[0]),
        tasks.is_regression or tasks.is_joint,
        is_exact,
        settings.follows,
        any(each.name == LEADING_BIAS for each in settings.maps.maps),
        kept,
    )
    return Cursor(cache, make_shared(state, deferred, settings.follows, tasks.n_figures), checkpoints)


def make_source(cursor: Cursor, settings: TrainerSettings) -> Cursor | Blocks:
    """Return the source of rows for the solver that the settings name, by its `feed`."""
    if SOLVERS[settings.solver].feed == "blocks":
        return Blocks(cursor, settings, SOLVERS[settings.solver].rereads)
    return cursor
