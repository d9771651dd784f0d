"""`eviction: "paper"`: random picks among the resident rows, epsilon and beta decide which the trainer gives up.

Picks are drawn a segment at a time, the segment with a chance in proportion to its rows: each pick is uniform over the
resident rows, as printed; neighbouring picks come from one segment.
"""

from concurrent.futures import Executor

import numpy as np

from storage.cache import Step
from storage.csr import Array
from trainer.kernels.paper import paper_visits
from trainer.problem import Problem
from trainer.settings import TrainerSettings
from trainer.steps import Steps
from trainer.tally import Tally

BETA = 0.9
INITIAL_EPSILON = np.inf  # printed as 9, most likely a lost infinity sign


class PaperRule:
    """The trainer of the paper; the reader evicts at random whatever the trainer has not given up."""

    def __init__(
        self,
        problem: Problem,
        settings: TrainerSettings,
        steps: Steps,
        tally: Tally,
        alpha: Array,
        w: Array,
        _pool: Executor,
    ) -> None:
        self._bounds = problem.bounds
        self._capacity = settings.cache_rows
        self._steps = steps
        self._tally = tally
        self._alpha = alpha
        self._w = w
        self._gone = np.zeros(len(alpha), bool)
        # eps, eps_new, picks since eps was set, rows in the cache
        self._rule = np.array([INITIAL_EPSILON, 0.0, 0.0, 0.0])
        self._ids = np.empty(0, np.int64)
        self._sizes = np.empty(0, np.int64)
        self._pass = 0

    def begin(self, step: Step, _rng: np.random.Generator) -> int:
        """Take in a new step. Visits nothing: a row may leave unvisited, which is why a pass may miss some."""
        self._ids = np.array([*step.fresh, *step.resident], np.int64)
        row_ids = [self._steps.read(segment_id).row_id for segment_id in self._ids.tolist()]
        # Read in again, or to be looked at again in a new pass if the reader had no need of its place.
        for rows in row_ids if step.pass_ != self._pass else row_ids[: len(step.fresh)]:
            self._gone[rows] = False
        self._pass = step.pass_
        self._sizes = np.array([len(rows) for rows in row_ids])
        self._rule[3] = sum(np.count_nonzero(~self._gone[rows]) for rows in row_ids)
        return 0

    def visit_some(self, rng: np.random.Generator) -> int:
        """As many picks in one segment as it has rows; returns their number."""
        segment_id = int(rng.choice(self._ids, p=self._sizes / self._sizes.sum()))
        rows = self._steps.read(segment_id)
        order = rng.integers(0, len(rows), len(rows), dtype=np.int32)
        looked_at = np.unique(order)
        looked_at = rows.row_id[looked_at[~self._gone[rows.row_id[looked_at]]]]
        found = paper_visits(
            order, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._capacity, BETA, len(self._alpha), self._alpha, self._w, self._gone, self._rule,
        )  # fmt: skip
        self._tally.add(len(order), *found)
        self._steps.note(looked_at, np.where(self._gone[looked_at], np.inf, 0.0).astype(np.float32))
        return len(order)

    def end_pass(self) -> None:
        """The paper has no rule for the rows it missed."""
