"""AVSF: dual coordinate descent in which rows are visited more often if their last visits gained more.

Glasmachers and Dogan, "Accelerated linear SVM training with adaptive variable selection frequencies" (2013), algorithm
3. How preferences become visits is a choice: by accumulators, as in their later programs, or by their algorithm 4.

A pass is a sweep over all rows, which the cache holds. At first all preferences are equal. Later sweeps may miss most
rows, and say nothing about them. So after a sweep whose M+ - M- is at most `tolerance`, preferences are made equal: the
next sweep visits every row, and training may end after it. The running mean of gains stays as it is.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.scattered import ScatteredRows
from streamsvm.trainer.rows.blocks import Blocks, is_scan_due
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.sweeps.selection import SCHEDULES
from streamsvm.trainer.sweeps.sweep import in_order, sweep
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.updater import make_variables

_STREAM = 6  # number of this solver's stream of random numbers: other streams of the same seed are independent


@dataclass(frozen=True)
class AvsfOptions:
    """Options of the solver avsf."""

    schedule: Literal["accumulators", "paper"] = option(
        "accumulators", 'how preferences become visits; or `"paper"`, its algorithm 4'
    )


def avsf(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) and w (features, 1) in place. Yields after every sweep; never ends by itself."""
    _, statistics, updater = make_variables(settings, alpha, w, blocks.note, blocks.kept)
    selection = SCHEDULES[settings.options.schedule](len(alpha), blocks.kept)
    blocks.keep(lambda: {**statistics.resumable(), **selection.resumable()})
    block = blocks.next(w)
    everything = ScatteredRows(block.fresh)
    while True:
        before = statistics.updates
        rng = np.random.default_rng((settings.seed, _STREAM, block.step.pass_))
        sweep(
            blocks.going(everything.batches(selection.schedule(block.fresh, rng))),
            in_order,
            updater,
            learn=lambda rows, order, visits: selection.learn(rows.row_id, order, visits.gain),
        )
        blocks.end_if_due()
        primal = blocks.primal(block, w, is_scan_due(before, statistics.updates, settings.n_rows))
        progress = statistics.finish_pass(block.step, blocks.count_unvisited(block.step), primal)
        if settings.tolerance is not None and progress.gap <= settings.tolerance:
            for rows in block.fresh:
                selection.admit(rows.row_id)
        yield progress
        block = blocks.next(w)
