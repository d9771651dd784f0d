"""The figures of a job on several machines, and what they decide: how far a round goes, and when the job has ended.

Step: with hinge and squared hinge loss D(alpha + k change) is a parabola in k. Both ends of the line are feasible, and
the box is convex: the best k in [0, 1] is known exactly from two dot products with w (Lee, Roth, "Distributed
box-constrained quadratic optimization for dual linear SVM", ICML 2015). With other losses k is 1. D does not fall then
either, whatever the loss: sigma ensures that (Ma, Smith, Jaggi et al., ICML 2015, see trainer.distributed.shard).
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from streamsvm.reader.certificate.final_pass import FinalFigures
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.progress.states import AVERAGED
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.objective import relative_gap
from streamsvm.trainer.updates.convergence import StoppingTargets, limit_reached, reason_of_all
from streamsvm.trainer.updates.progress import PassProgress

_LOOK_EVERY = 4  # rounds between two looks at all rows while machines report no gap
_SLOW = 0.5  # a round is slow if it leaves more than this share of the gap
# Least share of the gap at which training of a pool ends: then rows outside the pool matter as much. Largest share.
_SHARE_OF_GAP, _MOST_SHARE = 0.1, 0.5


class RoundConvergence:
    """The figures of a job on several machines, (lanes,) each, and its convergence.

    is_stopping  function that returns whether a user has stopped the job
    rounds_before, seconds_before: rounds and seconds of earlier attempts

    round        number of the last round that has ended, over all attempts
    D            dual objective of all machines' alpha
    gap          P - D, estimated from the rows in the first sweeps of the round; nan: not known
    P            the least primal objective that is known
    converged    why a lane has converged, 0: it has not; see `converged_by` in `storage.run.state.OF_LANE`
    is_slow      whether some round has left most of the gap
    certificate  of the last LOOK; stop_reason: None while the job goes on
    """

    def __init__(
        self,
        spec: JobSpec,
        lanes: int,
        is_stopping: Callable[[], bool],
        rounds_before: int = 0,
        seconds_before: float = 0.0,
    ) -> None:
        self._is_stopping, self._max_seconds = is_stopping, spec.max_seconds
        self._is_averaged = spec.combine == "average"
        self._max_rounds = 1 if self._is_averaged else spec.max_passes
        self.targets = StoppingTargets(spec.tolerance, spec.relative_gap)
        self.round = self._rounds_before = self._last_look = rounds_before
        self.D, self.gap, self.P = np.zeros(lanes), np.full(lanes, np.nan), np.full(lanes, np.inf)
        self.M_plus, self.M_minus = np.full((2, lanes), np.nan)
        self.converged = np.zeros(lanes, np.int64)
        self.is_slow = False
        self.certificate: FinalFigures | None = None
        self.stop_reason: str | None = None
        # M+ - M- and the gap of a certificate, divided by the round's estimates, which tend to be too small.
        self._gap_safety_factor = np.ones((2, lanes))
        self._began = time.monotonic() - seconds_before

    @property
    def elapsed_seconds(self) -> float:
        """Seconds of the job so far, in all its attempts."""
        return time.monotonic() - self._began

    def progress(self, free_rows: int, updates: int = 0) -> PassProgress:
        """Return the figures as those of a pass."""
        figures = zip(*(each.tolist() for each in (self.M_plus, self.M_minus, self.D, self.P)), strict=True)
        each = tuple(
            PassProgress(self.round, updates, M_plus, M_minus, 0, D, P, free_rows) for M_plus, M_minus, D, P in figures
        )
        worst = max(each, key=lambda lane: float(np.nan_to_num(lane.gap, nan=-np.inf)))
        return worst if len(each) == 1 else replace(worst, lanes=each)

    def meet(self, gap: Array, M_plus: Array, M_minus: Array) -> None:
        """Take over the figures of a round."""
        self.is_slow |= bool((gap > _SLOW * self.gap)[self.converged == 0].any())
        self.gap, self.M_plus, self.M_minus = gap, M_plus, M_minus

    def certify(self, found: FinalFigures) -> None:
        """Take over the certificate of a LOOK; decide which lanes have converged, and whether the job ends."""
        spread, gap = found.M_plus - found.M_minus, found.primal_objective - found.dual_objective
        for number, (true, met) in enumerate(((spread, self.M_plus - self.M_minus), (gap, self.gap))):
            self._gap_safety_factor[number] = np.maximum(
                1.0, np.divide(true, met, out=np.ones_like(true), where=met > 0.0)
            )
        self.certificate, self._last_look = found, self.round
        self.D, self.P = found.dual_objective.copy(), np.minimum(self.P, found.primal_objective)
        self.M_plus, self.M_minus = found.M_plus.copy(), found.M_minus.copy()
        for lane in np.flatnonzero(self.converged == 0).tolist():
            relative = relative_gap(found.primal_objective[lane], found.dual_objective[lane])
            self.converged[lane] = self.targets.reached(spread[lane], relative)
        self.stop_reason = reason_of_all(self.converged) or self.has_to_end()

    def has_to_end(self) -> str | None:
        """Return why the job has to end after this round, converged or not (rounds, time, a stop); None: it goes on."""
        if self._is_averaged and self.round >= self._max_rounds:
            return AVERAGED
        return limit_reached(self.round, self._max_rounds, self.elapsed_seconds, self._max_seconds, self._is_stopping())

    def wants_look(self) -> bool:
        """Return whether all rows should be looked at: a lane has probably converged, or the job has to end."""
        if self.has_to_end():
            return True
        if self.round == self._rounds_before or not self.targets.is_bound:
            return False
        if np.isnan(self.gap).any() or np.isnan(self.D).any():
            return self.round - self._last_look >= _LOOK_EVERY
        safety, gap_safety = self._gap_safety_factor
        near = self.targets.near(self.M_plus - self.M_minus, gap_safety * self.gap, self.D, safety, np.ones(1))
        return bool(near[self.converged == 0].any())

    def share_of_gap(self) -> float:
        """Return the share of the gap at which training of a pool ends."""
        wanted, gap = self.targets.relative_gap, self.gap
        if wanted is None:
            return _SHARE_OF_GAP
        # A lane whose gap is not known, or 0, does not change the share.
        enough = np.divide(wanted * np.abs(self.D + gap) / 2, gap, out=np.ones_like(gap), where=gap > 0.0)
        return float(np.clip(enough.min(), _SHARE_OF_GAP, _MOST_SHARE))


def dots(a: Array, b: Array) -> Array:
    """Return the inner product of a and b, (features, lanes) each, for every lane: (lanes,)."""
    return np.asarray(np.einsum("fl,fl->l", a, b))


def best_step(w: Array, change: Array, linear: Array, square: Array) -> Array:
    """Return k (lanes,) in [0, 1] where D(alpha + k change) is largest.

    change  of w, in the shape of w;  linear - <w, change>: slope of D at 0;  square + |change|^2: minus D's curvature
    """
    slope, curvature = linear - dots(w, change), square + dots(change, change)
    return np.clip(np.divide(slope, curvature, out=np.ones_like(slope), where=curvature > 0.0), 0.0, 1.0)
