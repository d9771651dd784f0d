"""Where a solver has its rows from, put together from a run's settings."""

from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path

from storage.cache import CacheReader
from storage.csr import EMPTY, Array
from storage.objective import REGRESSION
from storage.state import State
from trainer.checkpoints import Checkpoints, Slots
from trainer.link import Link
from trainer.rows.blocks import Blocks
from trainer.rows.cache import Cursor
from trainer.settings import TrainerSettings
from trainer.solvers import SOLVERS

MakeLink = Callable[[State, bool, bool], Link]  # (state, deferred, is_blank), see Link


def make_cursor(
    cache: CacheReader,
    state: State,
    settings: TrainerSettings,
    make_link: MakeLink = Link,
    slots: Slots | None = None,
    kept: Mapping[str, Array] = EMPTY,
) -> Cursor:
    """The cache, a step at a time; without `slots` no checkpoints are made."""
    # By block the reader waits while the trainer works: what is noted cannot reach it too early.
    is_exact = settings.pace == "fixed"
    deferred = is_exact and SOLVERS[settings.solver].feed == "steps"
    problem = settings.problem
    checkpoints = Checkpoints(
        slots or Slots(Path(), None, inf, 0),
        state,
        max(problem.box.U_positive, problem.box.U_negative),
        problem.loss in REGRESSION,
        is_exact,
        settings.follows,
        kept,
    )
    return Cursor(cache, make_link(state, deferred, settings.follows), checkpoints)


def make_source(cursor: Cursor, settings: TrainerSettings) -> Cursor | Blocks:
    """Where the solver has its rows from."""
    if SOLVERS[settings.solver].feed == "blocks":
        return Blocks(cursor, settings.problem, settings.relative_gap is not None)
    return cursor
