"""AVSF: dual coordinate descent in which rows are visited more often if their last visits gained more.

Glasmachers and Dogan, "Accelerated linear SVM training with adaptive variable selection frequencies" (2013), algorithm
3. How preferences become visits is a choice: by accumulators, as in their later programs, or by their algorithm 4.
The visits of a sweep are in random order over all rows, as printed: a second visit to a row gains little while w is
what the first one left.

A pass is a sweep over all rows, which the cache holds. At first all preferences are equal. Later sweeps may miss most
rows, and say nothing about these. So after a sweep that meets no gradients further apart than `tolerance` the next one
visits every row, and training may end with that. What a visit gains on average is kept over such sweeps.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.scattered import ScatteredRows, located, places_of
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import shuffle
from streamsvm.trainer.rows.blocks import Blocks, is_scan_due
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.sweeps.selection import SCHEDULES, Adaptive
from streamsvm.trainer.sweeps.sweep import in_order, sweep
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.updater import make_variables

_STREAM = 6  # of random numbers, apart from those of others with the same seed


@dataclass(frozen=True)
class AvsfOptions:
    """See `trainer.solvers.options`."""

    schedule: Literal["accumulators", "paper"] = option(
        "accumulators", 'how preferences become visits; or `"paper"`, its algorithm 4'
    )


def avsf(settings: TrainerSettings, blocks: Blocks, alpha: Array, w: Array) -> Generator[PassProgress, None, None]:
    """Train alpha (n_rows, 1) and w (features, 1) in place; yields after every sweep, for ever."""
    _, statistics, updater = make_variables(settings, alpha, w, blocks.note, blocks.kept)
    selection = SCHEDULES[settings.options.schedule](len(alpha), blocks.kept)
    blocks.keep(lambda: {**statistics.resumable(), **selection.resumable()})
    block = blocks.next(w)
    everything = ScatteredRows([located(rows) for rows in block.fresh])
    while True:
        before = statistics.updates
        rng = np.random.default_rng((settings.seed, _STREAM, block.pass_))
        sweep(
            blocks.going(everything.batches(_schedule(block.fresh, selection, rng))),
            in_order,
            updater,
            learn=lambda rows, order, visits: selection.learn(rows.row_id, order, visits.gain),
        )
        blocks.end_if_due()
        primal = blocks.primal(block, w, is_scan_due(before, statistics.updates, settings.n_rows))
        progress = statistics.finish_pass(block.step, blocks.count_unvisited(block), primal)
        if settings.tolerance is not None and progress.gap <= settings.tolerance:
            for rows in block.fresh:
                selection.admit(rows.row_id)
        yield progress
        block = blocks.next(w)


def _schedule(segments: Sequence[Segment], selection: Adaptive, rng: np.random.Generator) -> Array:
    """The visits of a sweep in random order, as places (k,) int64 of ScatteredRows."""
    selection.begin_sweep(rows.row_id for rows in segments)
    visits = [selection.visits(rows.row_id, rng) for rows in segments]
    schedule, begin = np.empty(sum(int(each.sum()) for each in visits), np.int64), 0
    for number, each in enumerate(visits):
        places = np.repeat(places_of(number, np.arange(len(each))), each)
        schedule[begin : begin + len(places)] = places
        begin += len(places)
    shuffle(int(rng.integers(1, 1 << 32)), schedule)
    return schedule
