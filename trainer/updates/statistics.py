"""What a pass adds up to, over all the segments visited in it."""

from collections.abc import Mapping

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import EMPTY, Array, Figure
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.updates.progress import Progress
from streamsvm.trainer.updates.sums import NONE, Sums


class Tally:
    """Collects what the kernels return and makes a pass's `Progress` of it.

    kept  arrays of `resumable`, to go on from there; none of them: from the start
    owed  visits still due for the rows that have streamed by; updates: visits so far
    """

    def __init__(self, alpha: Array, w: Array, kept: Mapping[str, Array] = EMPTY) -> None:
        self._alpha = alpha
        self._w = w
        found = kept.get("tally", (0, 0.0, 0, np.inf, -np.inf, np.inf, 0.0))
        self.updates, self.owed = int(np.max(found[0])), float(np.max(found[6]))
        figures: tuple[Figure, ...] = tuple(found[1:6])
        self._curvature, self._free_rows, self._primal_bound, self._M_plus, self._M_minus = figures

    def resumable(self) -> dict[str, Array]:
        """What a new Tally has to be given to go on."""
        spread = self._M_plus, self._M_minus
        counts = self.updates, self._curvature, self._free_rows, self._primal_bound
        return {"tally": np.array(np.broadcast_arrays(*counts, *spread, self.owed))}

    def add(self, updates: int, sums: Sums) -> None:
        """So many rows have been visited, and these are their sums."""
        self.updates += updates
        self._M_plus, self._M_minus = np.maximum(self._M_plus, sums.M_plus), np.minimum(self._M_minus, sums.M_minus)
        # Not in place: `of_alpha` is what was at the time.
        self._curvature = self._curvature + sums.curvature
        self._free_rows = self._free_rows + sums.freed

    @property
    def of_alpha(self) -> tuple[Figure, Figure]:
        """What is known of alpha: sum D_i alpha_i^2 / 2 and the number of free rows."""
        return self._curvature, self._free_rows

    @of_alpha.setter
    def of_alpha(self, known: tuple[Figure, Figure]) -> None:
        self._curvature, self._free_rows = known

    def add_screened(self, rows: int) -> None:
        """Rows the reader found resting at their bounds: looked at, with projected gradient 0."""
        if rows:
            self.add(0, NONE._replace(M_plus=0.0, M_minus=0.0))

    def meet(self, primal: Figure) -> Figure:
        """P at some w; the least so far, which bounds the optimum: P holds for every w."""
        self._primal_bound = np.minimum(self._primal_bound, primal)
        return self._primal_bound

    def dual_objective(self, step: Step) -> Figure:
        """D at the alpha of now, of the rows and features there are in a step."""
        alpha, w = self._alpha[: step.n_rows], self._w[: step.width].reshape(-1)
        return float(alpha.sum() - w @ w / 2 - self._curvature)

    def begin_sweep(self) -> None:
        """What is met from here on is of one sweep over all that matters: what was met before is out of date."""
        self._M_plus, self._M_minus = -np.inf, np.inf

    def finish_pass(self, step: Step, rows_unvisited: int, primal: Figure) -> Progress:
        """Close the pass that `step` ends; `primal` is P at the w published before it."""
        self.meet(primal)
        progress = self.progress(step, self._M_plus, self._M_minus, rows_unvisited)
        self.begin_sweep()
        return progress

    def progress(self, step: Step, M_plus: Figure, M_minus: Figure, rows_unvisited: int) -> Progress:
        """With these gradients, as things are."""
        return Progress(
            pass_=step.pass_,
            updates=self.updates,
            M_plus=float(M_plus),
            M_minus=float(M_minus),
            rows_unvisited=rows_unvisited,
            dual_objective=float(self.dual_objective(step)),
            primal_bound=float(self._primal_bound),
            free_rows=int(self._free_rows),
        )


def warm_tally(problem: Problem, alpha: Array) -> dict[str, Array]:
    """What a Tally has to be given as `kept` if training begins with this alpha, (n_rows,), of rows of equal C."""
    if not alpha.any():
        return {}
    U, D, *_ = problem.box
    free = np.count_nonzero((alpha > 0.0) & (alpha < U))
    return {"tally": np.array([0, D * float(alpha @ alpha) / 2.0, free, np.inf, -np.inf, np.inf, 0.0])}
