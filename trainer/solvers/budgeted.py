"""Kernel machines with at most `budget` support vectors: dual coordinate ascent (BSCA), or stochastic gradients (BSGD).

BSCA: Qaadan, Schueler, Glasmachers, "Dual SVM training on a budget" (ICPRAM 2019), with what they propose to make it
faster: random candidates for a merge, compared by a table, and more visits to rows that gain more (ACF). BSGD: Wang,
Crammer, Vucetic, "Breaking the curse of kernelization" (JMLR 2012). See `trainer.kernels.budgeted`.

A pass is an epoch. After a merge, f is not the function that alpha defines: P(f) - D(alpha) bounds nothing, so no gap
is given. Training ends when the spread of the gradients changes little, see `Spread`.

What differs from the papers: if a row is a support vector already, a step changes its beta, where the papers append
another vector; preferences begin at 1, not at random, and change by a rate of 0.2.
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.scattered import ScatteredRows
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.machine import VisitRule
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.rows.blocks import Block, Blocks
from streamsvm.trainer.rows.mixture import Mixture
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.budget import Budget, VectorFigures, budget_bytes
from streamsvm.trainer.solvers.options import OrderedBlockOptions
from streamsvm.trainer.sweeps.selection import Adaptive
from streamsvm.trainer.sweeps.sweep import in_order
from streamsvm.trainer.updates.limits import Ended
from streamsvm.trainer.updates.progress import PassProgress


class Spread:
    """Decides when training ends: if |S_e - S_(e-1)| <= tolerance twice in a row, S_e = log(max g - min g) in round e.

    g are the gradients of the steps of a round. A round is as many passes as it takes to visit each row: one, unless
    selection is adaptive. Adaptive selection leaves out rows that gain nothing for some passes. Their gradients may be
    the largest of all, and S of a single pass would leap with the rows visited in it.

    n_rows  number of rows, if a pass may leave out some; else 0
    kept    arrays of `resumable` from which to go on
    """

    def __init__(self, n_rows: int, kept: Mapping[str, Array]) -> None:
        self._spreads = kept.get("spreads", np.full(3, math.nan))
        self._waits = kept.get("waits", np.ones(n_rows, np.uint8))
        self._extremes = kept.get("extremes", np.array([-math.inf, math.inf]))

    def note(self, row_id: Array) -> None:
        """Record that the rows with these ids (k,) have been visited in this round."""
        if len(self._waits):
            self._waits[row_id] = 0

    def end_pass(self, figures: VectorFigures) -> None:
        """Take in the largest and smallest gradient of a pass, and end the round if it has visited each row."""
        largest, smallest = max(self._extremes[0], figures.largest), min(self._extremes[1], figures.smallest)
        self._extremes[:] = largest, smallest
        if self._waits.any():
            return
        spread = largest - smallest
        self._spreads[:] = [*self._spreads[1:], math.log(spread) if spread > 0.0 else -math.inf]
        self._waits[:], self._extremes[:] = 1, (-math.inf, math.inf)

    @property
    def change(self) -> float:
        """The larger of the last two values |S_e - S_(e-1)|; inf as long as there are not two."""
        with np.errstate(invalid="ignore"):
            change = float(np.abs(np.diff(self._spreads)).max())
        return math.inf if math.isnan(change) else change

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which another Spread goes on, as its `kept`."""
        return {"spreads": self._spreads, "waits": self._waits, "extremes": self._extremes}


_STREAM = 8  # number of these solvers' stream of random numbers: other streams of the same seed are independent


@dataclass(frozen=True)
class GradientOptions(OrderedBlockOptions):
    """Options of the solvers bsgd and bsca."""

    budget: int = 500  # a field of a job, as kernel and gamma are
    merge: Literal["lookup", "golden"] = option(
        "lookup", 'partners are chosen by a table, or by a golden section search each, `"golden"`'
    )
    candidates: int | None = option(59, "partners looked at, drawn at random; null: all", ge=1, le=100_000)


@dataclass(frozen=True)
class BudgetOptions(GradientOptions):
    """Options of the solver bsca."""

    selection: Literal["uniform", "adaptive"] = option(
        "uniform", 'each row once an epoch, or `"adaptive"`: more often if its last visits gained more'
    )


@dataclass(frozen=True)
class ExpansionProgress(PassProgress):
    """Progress of a solver whose f is a sum over support vectors: M+, M- and the dual objective are nan.

    largest_gradient, smallest_gradient     the largest and smallest g = 1 - y f(x) in the steps of the pass
    primal_estimate     P of f at the end of the pass, but with each row's loss at its last visit; nan if some rows
                        are visited more often than others
    support_vectors     number of support vectors
    merges              number of merges so far; weight_degradation: sum of |f before - f after|^2 over the merges
    merging_seconds     seconds of all merges so far, a part of `visiting_seconds`, those of all visits
    spread_change       the larger of the last two |S_e - S_(e-1)|, see `Spread`
    """

    largest_gradient: float
    smallest_gradient: float
    primal_estimate: float
    support_vectors: int
    merges: int
    weight_degradation: float
    merging_seconds: float
    visiting_seconds: float
    spread_change: float

    @property
    def distance(self) -> float:
        """The figure that is compared with a job's `tolerance`: the change of the spread."""
        return self.spread_change

    @property
    def is_of_all(self) -> bool:
        """Whether `distance` covers all rows: True, since a round of `Spread` visits each row."""
        return True


class _Uniform:
    """Selects each row of a block once, in random order."""

    def __init__(self) -> None:
        self._mixture = Mixture()

    def windows(self, segments: Sequence[Segment], rng: np.random.Generator) -> Iterator[tuple[Segment, Array]]:
        """Yield rows of a block, some at a time, and the positions (k,) int32 to visit among them, in their order."""
        for _, rows in self._mixture.sweep(segments, rng):
            yield rows, random_order(len(rows), rng)

    def learn(self, row_id: Array, order: Array, gain: Array) -> None:
        """Do nothing: gains do not change the order."""

    def resumable(self) -> dict[str, Array]:
        return {}


class _Scattered(Adaptive):
    """Selects rows of a block more often if their visits gain more, in random order over the block."""

    def windows(self, segments: Sequence[Segment], rng: np.random.Generator) -> Iterator[tuple[Segment, Array]]:
        """Yield copies of rows, some at a time, and their positions (k,) int32."""
        everything = ScatteredRows(segments)
        for rows in everything.batches(self.schedule(segments, rng)):
            yield rows, in_order(rows)


def bsca(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) in place, and the support vectors; w does not change. Yields after every pass."""
    adaptive = settings.options.selection == "adaptive"
    selection = _Scattered(len(alpha), blocks.kept) if adaptive else _Uniform()
    return _begin(_rule(settings, is_gradient=False), settings, blocks, alpha, w, selection)


def bsgd(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train the support vectors; alpha (n_rows, 1) and w do not change. Yields after every pass."""
    return _begin(_rule(settings, is_gradient=True), settings, blocks, alpha, w, _Uniform())


def own_bytes(n_rows: int, width: int, threads: int, options: GradientOptions) -> int:
    """Return the bytes held beside alpha: for vectors; if selection is adaptive, for rows as avsf, and waits."""
    is_adaptive = getattr(options, "selection", "uniform") == "adaptive"
    return budget_bytes(width, options.budget, threads) + 29 * n_rows * is_adaptive


def _rule(settings: TrainerSettings, is_gradient: bool) -> VisitRule:
    options: Any = settings.options
    assert settings.gamma is not None
    return VisitRule(
        settings.tasks.table, settings.gamma, settings.n_rows, options.budget, is_gradient,
        options.merge == "lookup", options.candidates or 0,
    )  # fmt: skip


def _begin(
    rule: VisitRule, settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array, selection: Any
) -> Generator[PassProgress, None, None]:
    """Return the generator of training. A checkpoint's machine is published first: an ended job needs only that."""
    spread = Spread(len(alpha) if isinstance(selection, _Scattered) else 0, blocks.kept)
    pool = ThreadPoolExecutor(max(1, settings.threads - 1))
    budget = Budget(rule, alpha.reshape(-1), settings.width, settings.seed, settings.threads, pool, blocks.kept)
    if "spreads" in blocks.kept:
        blocks.publish_machine(budget.machine())
    blocks.keep(lambda: {**spread.resumable(), **budget.resumable(), **selection.resumable()})
    return _epochs(settings, blocks, w, budget, selection, spread, pool)


def _epochs(
    settings: TrainerSettings, blocks: Blocks, w: Array, budget: Budget, selection: Any, spread: Spread, pool: Executor
) -> Generator[PassProgress, None, None]:
    is_even = isinstance(selection, _Uniform)
    with pool:
        try:
            while True:
                block = blocks.next(w)
                if block.step.section == 0:
                    budget.begin_pass()
                rng = np.random.default_rng((settings.seed, _STREAM, block.step.pass_, block.step.section))
                for rows, order in blocks.going(selection.windows(block.fresh, rng)):
                    gain = budget.visit(rows, order)
                    selection.learn(rows.row_id, order, gain)
                    spread.note(rows.row_id[order])
                    blocks.note(rows.row_id[order], np.zeros(len(order), np.float32))
                blocks.end_if_due()
                if block.step.ends_pass:
                    spread.end_pass(budget.figures)
                    blocks.publish_machine(budget.machine())
                    yield _progress(block, blocks.count_unvisited(block.step), budget, spread, is_even)
        except Ended:  # within a pass
            blocks.publish_machine(budget.machine())
            raise


def _progress(block: Block, unvisited: int, budget: Budget, spread: Spread, is_even: bool) -> ExpansionProgress:
    figures = budget.figures
    return ExpansionProgress(
        block.step.pass_, int(figures.visits), math.nan, math.nan, unvisited, math.nan, math.inf, free_rows=0,
        largest_gradient=figures.largest,
        smallest_gradient=figures.smallest,
        primal_estimate=budget.half_squared_norm + figures.losses if is_even else math.nan,
        support_vectors=int(figures.vectors),
        merges=int(figures.merges),
        weight_degradation=figures.degradation,
        merging_seconds=figures.merging_seconds,
        visiting_seconds=figures.seconds,
        spread_change=spread.change,
    )  # fmt: skip
