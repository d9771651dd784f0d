"""`eviction: "paper"`: random picks among the resident rows, epsilon and beta decide which the trainer gives up.

Picks are drawn a segment at a time, the segment with a chance in proportion to its rows: each pick is uniform over the
resident rows, as printed; neighbouring picks come from one segment.

The rule for epsilon has four places where what is printed can hardly be what was meant. A job chooses at each:

    paper_epsilon   its first value, null for infinity; printed is 9, most likely a lost infinity sign
    paper_beta      beta applies at every pick ("step", as printed: a full cache soon has an epsilon of 0) or once in as
                    many as there are rows in the cache ("sweep")
    paper_reset     false, as printed: after n picks epsilon is the largest gradient ever met. true: after a pass of the
                    reader it is the largest of that pass
    paper_gradient  "plain", as printed: G of Algorithm 2, which a row that rests far from its margin makes large, or
                    "projected", as its equation 9 has it
"""

from concurrent.futures import Executor

import numpy as np

from storage.cache import Step
from storage.csr import Array
from trainer.kernels.paper import paper_visits
from trainer.problem import Problem
from trainer.settings import TrainerSettings
from trainer.spill import Spill
from trainer.steps import Steps
from trainer.tally import Tally

BETA = 0.9


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
        _spill: Spill,
    ) -> None:
        self._bounds = problem.bounds
        self._capacity = settings.cache_rows
        self._steps = steps
        self._tally = tally
        self._alpha = alpha
        self._w = w
        self._gone = steps.kept.get("gone", np.zeros(len(alpha), bool))
        self._resets = settings.paper_reset
        # beta, n, per_sweep, projected: see the kernel
        self._ways = (
            BETA,
            np.inf if settings.paper_reset else float(len(alpha)),
            settings.paper_beta == "sweep",
            settings.paper_gradient == "projected",
        )
        # eps, eps_new, picks since eps was set, rows in the cache, picks since beta applied
        epsilon = np.inf if settings.paper_epsilon is None else settings.paper_epsilon
        self._rule = steps.kept.get("paper_rule", np.array([epsilon, 0.0, 0.0, 0.0, 0.0]))
        self._ids = np.empty(0, np.int64)
        self._sizes = np.empty(0, np.int64)
        self._pass = int(steps.kept.get("paper_pass", np.zeros(1))[0])

    @property
    def epsilon(self) -> float:
        """How far beyond its bound's condition a row has to rest to be given up."""
        return float(self._rule[0])

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
            *self._bounds, self._capacity, *self._ways, self._alpha, self._w, self._gone, self._rule,
        )  # fmt: skip
        self._tally.add(len(order), *found)
        self._steps.note(looked_at, np.where(self._gone[looked_at], np.inf, 0.0).astype(np.float32))
        return len(order)

    def end_pass(self, _seconds: float, _rng: np.random.Generator) -> bool:
        """Set epsilon anew if it is to be done once a pass. The paper has no rule for the rows it missed."""
        if self._resets and self._rule[2] > 0:
            self._rule[:3] = self._rule[1], 0.0, 0.0
        return False

    def end_section(self, _rng: np.random.Generator) -> int:
        return 0

    def begin_section(self) -> None:
        """Picks have no memory."""

    def resumable(self) -> dict[str, Array]:
        return {"gone": self._gone, "paper_rule": self._rule, "paper_pass": np.array([self._pass])}
