"""Tells from sweeps how much work one is, and how many more there would be. Nothing here depends on a clock."""

from dataclasses import dataclass
from math import inf, log

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.updates.convergence import StoppingTargets


@dataclass(frozen=True)
class Outlook:
    """The state of training after a sweep.

    rates                the share of its gap that a sweep leaves, of each task that is trained
    shares_left          the share of its present gap at which each of them ends
    visits               rows that a sweep of late visited, on average
    n_rows, n_values     rows there are, and values in them
    n_features           length of w
    n_free               rows with 0 < alpha < U, in the task that has most
    """

    rates: tuple[float, ...]
    shares_left: tuple[float, ...]
    visits: float
    n_rows: int
    n_values: float
    n_features: int
    n_free: int

    @property
    def sweeps_left(self) -> float:
        """Sweeps until the last task ends, if gaps go on falling as they did."""
        return max(map(_sweeps, self.rates, self.shares_left), default=0.0)


def shares_left(targets: StoppingTargets, distance: Array, gap: Array, dual_objective: Array) -> Array:
    """The share of its present gap at which each task (count,) reaches the targets; 0 without targets.

    M+ - M- is taken to fall as the gap does.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [np.zeros(len(gap))] if not targets.is_bound else []
        if targets.relative_gap is not None:
            shares.append(targets.relative_gap * (dual_objective + gap) / gap)
        if targets.tolerance is not None:
            shares.append(targets.tolerance / distance)
    return np.nan_to_num(np.min(shares, axis=0), nan=1.0, posinf=1.0)


def _sweeps(rate: float, share: float) -> float:
    if share >= 1.0:
        return 0.0
    if rate >= 1.0 or share <= 0.0:
        return inf
    return log(share) / log(rate) if rate > 0.0 else 1.0
