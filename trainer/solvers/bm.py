"""Block minimization, plain and selective: the dual problem is solved block by block, all other rows' alpha fixed.

Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in memory", KDD 2010. A block is visited in
`inner_rounds` rounds of LIBLINEAR's coordinate descent (BLOCK-L-N), or until it is nearly solved (BLOCK-L-D).

Selective: Chang, Roth, "Selective block minimization for faster convergence of limited memory large-scale linear
models", KDD 2011. Rows of earlier blocks stay in the cache and are solved for together with each block. `select` says
which rows: those nearest to the separating plane, as in the paper, of largest violation, or of largest duality gap.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.kernels.coordinate import DISTANCE, GAP, VIOLATION
from streamsvm.trainer.rows.blocks import Blocks
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import OrderedBlockOptions
from streamsvm.trainer.sweeps.active import ActiveRows, descend_rounds
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.updater import make_variables

SELECT = {"distance": DISTANCE, "violation": VIOLATION, "gap": GAP}
INNER_TOLERANCE = 0.1  # BLOCK-L-D ends a block when M+ - M- is at most this, as in the authors' program
MOST_ROUNDS = 200
_STREAM = 3  # number of these solvers' stream of random numbers: other streams of the same seed are independent


@dataclass(frozen=True)
class BlockMinimizationOptions(OrderedBlockOptions):
    """Options of block minimization, the solvers bm and sbm."""

    inner_rounds: int | None = option(
        10,
        "rounds over a block before the next comes (BLOCK-L-N); null: until it is nearly solved (BLOCK-L-D)",
        ge=1,
        le=1_000_000,
    )


@dataclass(frozen=True)
class SelectiveOptions(BlockMinimizationOptions):
    """Options of selective block minimization, the solver sbm."""

    select: Literal["distance", "violation", "gap"] = option(
        "gap", "which rows stay in the cache when the next block comes"
    )
    cache_share: float = option(0.5, "share of the cache for rows that stay", gt=0, lt=1)


def bm(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) and w (features, 1) in place. Yields after every pass; never ends by itself."""
    return _passes(settings, blocks, alpha, w, GAP)


def sbm(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train as `bm` does, but together with rows of earlier blocks, which the reader keeps by their scores."""
    return _passes(settings, blocks, alpha, w, SELECT[settings.options.select])


def _passes(
    settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array, score: int
) -> Generator[PassProgress, None, None]:
    _, statistics, updater = make_variables(settings, alpha, w, blocks.note, blocks.kept, score=score, asks_rest=True)
    blocks.keep(statistics.resumable)
    max_seconds = None if settings.pace == "fixed" else settings.max_seconds
    is_over = partial(blocks.is_over, max_seconds)
    while True:
        block = blocks.next(w)
        rng = np.random.default_rng((settings.seed, _STREAM, block.step.pass_, block.step.section))
        rows = ActiveRows([*block.fresh, *block.kept], updater, going=blocks.going)
        rounds = settings.options.inner_rounds
        if rounds is None:
            descend_rounds(rows, MOST_ROUNDS, INNER_TOLERANCE, rng, is_over)
        else:
            descend_rounds(rows, rounds, settings.tolerance or 0.0, rng, is_over)
        blocks.end_if_due()
        if block.step.ends_pass:
            yield statistics.finish_pass(block.step, blocks.count_unvisited(block.step), blocks.primal(block, w))
