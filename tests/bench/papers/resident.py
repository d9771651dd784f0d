"""Solvers that need all rows at hand, run on segments in memory: no reader, no cache, no certificate on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.options import options_of
from streamsvm.storage.rows.cache_plan import LARGEST_SEGMENT
from streamsvm.storage.rows.csr import EMPTY
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.objective import dots_of, make_objective
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.rows.blocks import Block
from streamsvm.trainer.solvers import SOLVERS
from streamsvm.trainer.updates.progress import PassProgress
from tests.bench.segments import make_segments


@dataclass(frozen=True)
class Rows:
    """A set of rows as the cache would hold it."""

    name: str
    segments: list[Segment]
    shape: tuple[int, int]


@dataclass(frozen=True)
class Ended:
    """A run: `visits`, gradients computed; what it ended with, and whether it met its tolerance."""

    visits: int
    free_rows: int
    seconds: float
    sweeps: int
    relative_gap: float
    converged: bool


class _Blocks:
    """Always the same block, whole: what `trainer.rows.blocks.Blocks` gives a solver if all rows fit."""

    kept = EMPTY

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._passes = count(1)
        self._visited = np.zeros(rows.shape[0], bool)

    def next(self, _w: np.ndarray) -> Block:
        self._visited[:] = False
        n_rows, width = self._rows.shape
        step = SimpleNamespace(pass_=next(self._passes), ends_pass=True, n_rows=n_rows, width=width)
        return Block(self._rows.segments, [], step, is_whole=True)  # type: ignore[arg-type]

    def keep(self, _resumable: Callable) -> None:
        """There are no checkpoints."""

    def going(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        return iter(segments)

    def end_if_due(self) -> None:
        """It never is."""

    def note(self, row_id: np.ndarray, _score: np.ndarray) -> None:
        self._visited[row_id] = True

    def count_unvisited(self, _step: object) -> int:
        return int(np.count_nonzero(~self._visited))

    def primal(self, _block: Block, _w: np.ndarray, _is_due: bool = True) -> np.ndarray:
        return np.full(1, np.inf)


def as_cached(name: str, X: sparse.csr_matrix, y: np.ndarray) -> Rows:
    """Shuffled, in segments of 1 MiB."""
    return Rows(name, make_segments(X, y, LARGEST_SEGMENT), X.shape)


def passes(rows: Rows, tasks: Tasks, w: np.ndarray, solver: str, **settings: object) -> Iterator[PassProgress]:
    """Train w (width,) in place from 0, for ever."""
    alpha = np.zeros((rows.shape[0], 1))
    chosen = SOLVERS[solver]
    own = {name: settings[name] for name in options_of(chosen.options) if name in settings}
    about = {
        "seed": 0,
        "n_rows": rows.shape[0],
        "tolerance": None,
        "relative_gap": None,
        "tasks": tasks,
        "visited": UNMAPPED,
        **settings,
    }
    given = SimpleNamespace(**about, options=chosen.options(**own))
    yield from chosen.train(given, _Blocks(rows), alpha, w[:, np.newaxis])


def run(
    rows: Rows, C: float, solver: str, tolerance: float, most_seconds: float, most_sweeps: int, **settings: object
) -> Ended:
    """Train with hinge loss until M+ - M- is at most `tolerance` in a pass that visited every row.

    Seconds are the process's own, so that others on the machine do not count.
    """
    tasks, w = Tasks.single("hinge", C), np.zeros(rows.shape[1])
    began = time.process_time()
    for progress in passes(rows, tasks, w, solver, tolerance=tolerance, **settings):
        seconds = time.process_time() - began
        converged = progress.rows_unvisited == 0 and progress.gap <= tolerance
        if converged or seconds > most_seconds or progress.pass_ >= most_sweeps:
            break
    objective, primal = make_objective(tasks), float(w @ w) / 2
    for part in rows.segments:
        terms = tasks.terms(part)
        primal += float(objective.losses(terms, objective.m(terms, dots_of(part, w[:, np.newaxis])))[0])
    gap = (primal - progress.dual_objective) / primal
    return Ended(progress.updates, progress.free_rows, seconds, progress.pass_, gap, converged)
