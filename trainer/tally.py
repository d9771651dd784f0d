"""What a pass adds up to, over all the segments visited in it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from storage.cache import Step
from storage.csr import EMPTY, Array
from trainer.problem import Problem
from trainer.progress import Progress


class Tally:
    """Collects what the kernels return and makes a pass's `Progress` of it.

    kept  arrays of `resumable`, to go on from there; none of them: from the start
    owed  visits still due for the rows that have streamed by
    """

    def __init__(self, alpha: Array, w: Array, kept: Mapping[str, Array] = EMPTY) -> None:
        self._alpha = alpha
        self._w = w
        found = kept.get("tally", (0, 0.0, 0, np.inf, -np.inf, np.inf, 0.0))
        self._updates, self._free_rows = int(found[0]), int(found[2])
        self._curvature, self._primal_bound, self._M_plus, self._M_minus, self.owed = map(float, (found[1], *found[3:]))

    def resumable(self) -> dict[str, Array]:
        """What a new Tally has to be given to go on."""
        spread = self._M_plus, self._M_minus
        counts = self._updates, self._curvature, self._free_rows, self._primal_bound
        return {"tally": np.array([*counts, *spread, self.owed])}

    def add(self, updates: int, M_plus: float, M_minus: float, curvature: float, freed: int) -> None:
        """One kernel call: rows visited, projected gradients, changes of sum D_i alpha_i^2 / 2 and of free rows."""
        self._updates += updates
        self._M_plus, self._M_minus = max(self._M_plus, M_plus), min(self._M_minus, M_minus)
        self._curvature += curvature
        self._free_rows += freed

    @property
    def of_alpha(self) -> tuple[float, int]:
        """What is known of alpha: sum D_i alpha_i^2 / 2 and the number of free rows."""
        return self._curvature, self._free_rows

    @of_alpha.setter
    def of_alpha(self, known: tuple[float, int]) -> None:
        self._curvature, self._free_rows = known

    def add_screened(self, rows: int) -> None:
        """Rows the reader found resting at their bounds: looked at, with projected gradient 0."""
        if rows:
            self.add(0, 0.0, 0.0, 0.0, 0)

    def meet(self, primal: float) -> float:
        """P at some w; the least so far, which bounds the optimum: P holds for every w."""
        self._primal_bound = min(self._primal_bound, primal)
        return self._primal_bound

    def so_far(self, step: Step, primal: float) -> dict[str, Any]:
        """Figures of a Progress that hold at any time, of the rows and features there are in a step.

        `primal` is P at the w published before the pass.
        """
        self.meet(primal)
        alpha, w = self._alpha[: step.n_rows], self._w[: step.width]
        return {
            "updates": self._updates,
            "dual_objective": float(alpha.sum() - w @ w / 2 - self._curvature),
            "primal_bound": self._primal_bound,
            "free_rows": self._free_rows,
        }

    def begin_sweep(self) -> None:
        """What is met from here on is of one sweep over all that matters: what was met before is out of date."""
        self._M_plus, self._M_minus = -np.inf, np.inf

    def finish_pass(self, step: Step, rows_unvisited: int, primal: float) -> Progress:
        """Close the pass that `step` ends; `primal` is P at the w published before it."""
        progress = Progress(
            pass_=step.pass_,
            M_plus=self._M_plus,
            M_minus=self._M_minus,
            rows_unvisited=rows_unvisited,
            **self.so_far(step, primal),
        )
        self.begin_sweep()
        return progress


def warm_tally(problem: Problem, alpha: Array) -> dict[str, Array]:
    """What a Tally has to be given as `kept` if training begins with this alpha, (n_rows,), of rows of equal C."""
    if not alpha.any():
        return {}
    U, D, *_ = problem.box
    free = np.count_nonzero((alpha > 0.0) & (alpha < U))
    return {"tally": np.array([0, D * float(alpha @ alpha) / 2.0, free, np.inf, -np.inf, np.inf, 0.0])}
