"""Decides how far each round of several machines goes, and when their job has converged. Figures are (lanes,).

Step: with hinge and squared hinge loss D(alpha + k change) is a parabola in k. Both ends of the line are feasible, and
the box is convex: the best k in [0, 1] is known exactly from two dot products with w (Lee, Roth, "Distributed
box-constrained quadratic optimization for dual linear SVM", ICML 2015). With other losses k is 1. D does not fall then
either, whatever the loss: sigma ensures that (Ma, Smith, Jaggi et al., ICML 2015, see storage.run.rounds).
"""

import time
from collections.abc import Callable

import numpy as np

from streamsvm.service.cluster.rounds.messages import LaneCertificate, Rules
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.progress.states import AVERAGED
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.objective import relative_gap
from streamsvm.trainer.updates.convergence import StoppingTargets, limit_reached, reason_of_all

_LOOK_EVERY = 4  # rounds between two looks at all rows while machines report no gap
SLOW = 0.5  # a round is slow if it leaves more than this share of the gap


class RoundConvergence:
    """The convergence of a job on several machines. Figures are (lanes,).

    is_stopping  function that returns whether a user has stopped the job
    gap          P - D, estimated from the rows in the first sweeps of the round; nan: not known
    P            the least primal objective that is known
    converged    why a lane has converged, 0: it has not; see `converged_by` in `storage.run.state.OF_LANE`
    is_slow      whether some round has left most of the gap
    certificate  of the last LOOK; stop_reason: None while the job goes on
    """

    def __init__(self, rules: Rules, lanes: int, is_stopping: Callable[[], bool]) -> None:
        self._rules, self._is_stopping = rules, is_stopping
        self._targets = StoppingTargets(rules.tolerance, rules.relative_gap)
        self.gap = np.full(lanes, np.nan)
        self.M_plus, self.M_minus = np.full(lanes, np.nan), np.full(lanes, np.nan)
        self.P = np.full(lanes, np.inf)
        self.converged = np.zeros(lanes, np.int64)
        self.is_slow = False
        self.certificate: LaneCertificate | None = None
        self.stop_reason: str | None = None
        # M+ - M- and the gap of a certificate, divided by the round's estimates, which tend to be too small.
        self._gap_safety_factor = np.ones((2, lanes))
        self._last_look = rules.rounds_before
        self._began = time.monotonic()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds of the job so far, in all its attempts."""
        return self._rules.seconds_before + time.monotonic() - self._began

    @property
    def P_certified(self) -> Array:
        """The primal objective of the certificate, (lanes,); inf if there is no certificate."""
        return np.full(len(self.P), np.inf) if self.certificate is None else self.certificate.primal_objective

    def meet(self, gap: Array, M_plus: Array, M_minus: Array) -> None:
        """Take over the figures of a round."""
        self.is_slow |= bool((gap > SLOW * self.gap)[self.converged == 0].any())
        self.gap, self.M_plus, self.M_minus = gap, M_plus, M_minus

    def certify(self, found: LaneCertificate, round_: int) -> None:
        """Take over the certificate of a LOOK; decide which lanes have converged, and whether the job ends."""
        spread, gap = found.M_plus - found.M_minus, found.primal_objective - found.dual_objective
        for number, (true, met) in enumerate(((spread, self.M_plus - self.M_minus), (gap, self.gap))):
            self._gap_safety_factor[number] = np.maximum(
                1.0, np.divide(true, met, out=np.ones_like(true), where=met > 0.0)
            )
        self.certificate, self._last_look = found, round_
        self.M_plus, self.M_minus, self.P = found.M_plus, found.M_minus, np.minimum(self.P, found.primal_objective)
        for lane in np.flatnonzero(self.converged == 0).tolist():
            relative = relative_gap(found.primal_objective[lane], found.dual_objective[lane])
            self.converged[lane] = self._targets.reached(spread[lane], relative)
        self.stop_reason = reason_of_all(self.converged) or self.has_to_end(round_)

    def has_to_end(self, round_: int) -> str | None:
        """Return why the job has to end after this round, converged or not (rounds, time, a stop); None: it goes on."""
        rules = self._rules
        if rules.combine == "average" and round_ >= rules.max_rounds:
            return AVERAGED
        return limit_reached(round_, rules.max_rounds, self.elapsed_seconds, rules.max_seconds, self._is_stopping())

    def wants_look(self, round_: int, dual_objective: Array) -> bool:
        """Return whether all rows should be looked at: a lane has probably converged, or the job has to end."""
        rules, left = self._rules, self.converged == 0
        if self.has_to_end(round_):
            return True
        if round_ == rules.rounds_before or not self._targets.is_bound:
            return False
        if np.isnan(self.gap).any() or np.isnan(dual_objective).any():
            return round_ - self._last_look >= _LOOK_EVERY
        safety, gap_safety = self._gap_safety_factor
        near = self._targets.near(self.M_plus - self.M_minus, gap_safety * self.gap, dual_objective, safety, np.ones(1))
        return bool(near[left].any())


def has_whole_steps(spec: JobSpec, manifest: Manifest) -> bool:
    """Return whether the step of a round is always 1: D is no parabola along it, or rows differ in curvature."""
    is_weighed = spec.class_weight is not None or manifest.weights is not None
    loss = spec.loss_kind
    return not loss.is_quadratic or (loss.has_curvature and is_weighed)


def along_axis(figures: Array, w: Array) -> Array:
    """Extend figures (lanes,) to the number of columns of w; the padding columns get 0."""
    every = np.zeros(w.shape[1])
    every[: len(figures)] = figures
    return every


def dots(a: Array, b: Array) -> Array:
    """Return the inner product of a and b, (features, lanes) each, for every lane: (lanes,)."""
    return np.asarray(np.einsum("fl,fl->l", a, b))


def best_step(w: Array, change: Array, linear: Array, square: Array) -> Array:
    """Return k (lanes,) in [0, 1] where D(alpha + k change) is largest.

    change  of w, in the shape of w;  linear - <w, change>: slope of D at 0;  square + |change|^2: minus D's curvature
    """
    slope, curvature = linear - dots(w, change), square + dots(change, change)
    return np.clip(np.divide(slope, curvature, out=np.ones_like(slope), where=curvature > 0.0), 0.0, 1.0)
