"""What sweeps have shown: how long they take, and how many more there would be."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.updates.convergence import StoppingTargets


@dataclass(frozen=True)
class Outlook:
    """What is known after a sweep.

    rates                the share of its gap that a sweep leaves, of each task that is trained
    shares_left          the share of its present gap at which each of them ends
    sweep_seconds, whole_seconds   of the sweeps of late, and of one over all rows
    n_features           length of w
    n_free               rows with 0 < alpha < U, in the task that has most
    """

    rates: tuple[float, ...]
    shares_left: tuple[float, ...]
    sweep_seconds: float
    whole_seconds: float
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


class SweepSeconds:
    """Times sweeps: `begin` and `end` each.

    whole    seconds of the last sweep over all rows
    of_late  mean of the last five sweeps
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._every: list[float] = []
        self.whole = 0.0

    def begin(self) -> None:
        self._began = self._clock()

    def end(self, is_whole: bool) -> None:
        """A sweep has ended; `is_whole`: it was over all rows."""
        self._every.append(self._clock() - self._began)
        if is_whole:
            self.whole = self._every[-1]

    @property
    def of_late(self) -> float:
        late = self._every[-5:]
        return sum(late) / len(late)
