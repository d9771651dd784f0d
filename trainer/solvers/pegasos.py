"""Pegasos on blocks: subgradient steps on the primal, one for each block (BLOCK-P-B) or each row of it (BLOCK-P-I).

Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in memory", KDD 2010, section 4, after
Shalev-Shwartz, Singer, Srebro, "Pegasos: primal estimated sub-gradient solver for SVM", ICML 2007. There are no dual
variables: alpha does not change, and nothing bounds the optimum from below. Step t, from 0, is n C / (t + 2) long, as
in the program of Yu et al.; their equation 11 prints n C / t, with t from 1: after 50 steps the two w differ by half.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.kernels.pegasos import pegasos_visits
from streamsvm.trainer.problem.objective import add_mapped, mapped_dots
from streamsvm.trainer.rows.blocks import Blocks
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import OrderedBlockOptions
from streamsvm.trainer.updates.progress import PassProgress

_STREAM = 5  # number of this solver's stream of random numbers: other streams of the same seed are independent


@dataclass(frozen=True)
class PegasosOptions(OrderedBlockOptions):
    """Options of the solver pegasos."""

    update: Literal["row", "block"] = option("row", "a step for each row (BLOCK-P-I), or for each block (BLOCK-P-B)")


class _Updates:
    """Makes steps on w (width,), in place, for the objective divided by n max(C); `t` counts the steps made."""

    def __init__(self, settings: TrainerSettings, w: Array, t: int, blocks: Blocks) -> None:
        self._blocks = blocks
        self._visited, self._tasks = settings.visited, settings.tasks
        self._C = settings.tasks.largest_C
        # The kernel's c_i is C_i divided by the largest C.
        table = settings.tasks.table
        self._table = table._replace(U=table.U / self._C)
        self._w = w
        self.t = t

    def by_block(self, segments: list[Segment], n_rows: int, _rng: np.random.Generator) -> None:
        """Make one step for all rows of a block together. `n_rows`: number of rows of the problem."""
        count, lambda_ = max(1, sum(map(len, segments))), 1.0 / (self._C * n_rows)
        eta = 1.0 / (lambda_ * (self.t + 2))
        # Compute all margins first, at the w before the step.
        steps = [self._subgradient(rows) * (eta / count) for rows in self._blocks.going(segments)]
        self._blocks.end_if_due()
        self._w *= (self.t + 1.0) / (self.t + 2.0)
        for rows, step in zip(segments, steps, strict=True):
            add_mapped(rows, step[:, np.newaxis], self._visited, self._w[:, np.newaxis])
        self._w /= max(1.0, math.sqrt(lambda_) * float(np.linalg.norm(self._w)))
        self.t += 1

    def by_row(self, segments: list[Segment], n_rows: int, rng: np.random.Generator) -> None:
        """Make one step for each row of a block, in random order. `n_rows`: number of rows of the problem."""
        state, lambda_ = np.array([1.0, self._w @ self._w]), 1.0 / (self._C * n_rows)
        shuffled = map(segments.__getitem__, rng.permutation(len(segments)).tolist())
        for rows in self._blocks.going(shuffled):
            for part, order in self._visited.batches(rows, random_order(len(rows), rng)):
                pegasos_visits(order, part.columns, self._table, lambda_, self.t, self._w, state)
                self.t += len(order)
        self._w *= state[0]
        self._blocks.end_if_due()

    def _subgradient(self, rows: Segment) -> Array:
        """Return each row's coefficient of x_i in minus the subgradient of the losses, divided by max(C), (n,)."""
        dots = mapped_dots(rows, self._w[:, np.newaxis], self._visited)[:, 0]
        terms = self._tasks.terms(rows).of_task(0)
        return np.where(terms.sign * dots < 1.0, terms.sign * (terms.C / self._C), 0.0)


UPDATES: dict[str, Callable] = {"block": _Updates.by_block, "row": _Updates.by_row}


def pegasos(
    settings: TrainerSettings, blocks: Blocks, _alpha: Array, all_w: Array
) -> Generator[PassProgress, None, None]:
    """Train w (features, 1) in place. Yields after every pass; never ends by itself."""
    w = all_w.reshape(-1)
    t, rows, bound = blocks.kept.get("pegasos", np.array([0, 0, math.inf])).tolist()
    updates, update = _Updates(settings, w, int(t), blocks), UPDATES[settings.options.update]
    blocks.keep(lambda: {"pegasos": np.array([updates.t, rows, bound])})
    while True:
        block = blocks.next(all_w)
        rng = np.random.default_rng((settings.seed, _STREAM, block.step.pass_, block.step.section))
        update(updates, block.fresh, block.step.n_rows, rng)
        for segment in block.fresh:
            rows += len(segment)
            blocks.note(segment.row_id, np.zeros(len(segment), np.float32))
        if block.step.ends_pass:
            # No scan for P is worth its time: without a lower bound, no gap can end the job.
            bound = min(bound, float(blocks.primal(block, all_w, is_due=False)[0]))
            unvisited = blocks.count_unvisited(block.step)
            yield PassProgress(block.step.pass_, int(rows), math.nan, math.nan, unvisited, math.nan, bound, free_rows=0)
