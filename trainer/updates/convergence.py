"""Decides when training ends: a run of sweeps, a pass, a round of several machines, a job.

The figures of visits only suggest that a task has converged, because w moves between visits. A certificate, which has
all rows at one w, decides. `trainer.updates.limits` ends a job within a pass, by time or on request.
"""

from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.slowdowns import bits_of
from streamsvm.storage.run.state import State
from streamsvm.trainer.problem.objective import certificate_of, relative_gap
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import SHOWN_OF_LANE
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.statistics import SweepStatistics

CONVERGED = ("tolerance", "relative_gap")  # why a task has converged
# Stop reason of a job that gave up Newton steps, if passes raise D by no more than rounding, or at least _HOPELESS more
# of them would be needed to close the gap. Two such passes suffice: the next pass would change nothing either.
STALLED, _STALLED_PASSES, _ROUNDING, _HOPELESS = "stalled", 2, 1e-14, 1e5
_STALLED_SWEEPS = 20  # a run of sweeps ends when this number of sweeps in a row has raised no D

# A certificate costs a pass over all rows: it is made only if the guessed figure times this is within its target.
_TO_SPARE = 2.0
_AT_END = 0.75  # gap at the end of a sweep / gap that its visits add up to; measured: 0.6 to 0.75
# Most sweeps of a pass, if the job has a target, and if it has none: a pass of the reader costs as much as ten sweeps.
_MOST_SWEEPS, _MOST_SWEEPS_UNBOUND = 200, 10


@dataclass(frozen=True)
class StoppingTargets:
    """Upper bounds of figures: training ends when all of them hold. None: the figure has no bound.

    tolerance     for M+ - M-, or for the distance that a solver has in its place
    relative_gap  see trainer.problem.objective.relative_gap
    share_of_gap  a run of sweeps ends when P - D is this share of the P - D in its first sweep
    """

    tolerance: float | None
    relative_gap: float | None
    share_of_gap: float | None = None

    @classmethod
    def of(cls, settings: TrainerSettings) -> "StoppingTargets":
        """Return the targets of a job."""
        return cls(settings.tolerance, settings.relative_gap, settings.share_of_gap)

    @property
    def is_bound(self) -> bool:
        """Whether there is a target of tolerance or relative_gap, at which training may end."""
        return (self.tolerance, self.relative_gap) != (None, None)

    def reached(self, distance: float, relative: float) -> int:
        """Return the index in CONVERGED, from 1, of the target that is reached; 0 if a target that is set is missed.

        distance  M+ - M-, or the solver's figure in its place; relative: the relative gap; nan or inf if not known
        If both targets are reached, the number is that of the relative gap, which says how near the optimum is.
        """
        checks = enumerate(((distance, self.tolerance), (relative, self.relative_gap)), 1)
        reached = {place: now <= target for place, (now, target) in checks if target is not None}
        return max(reached, default=0) if all(reached.values()) else 0

    def near(self, distance: Array, gap: Array, dual_objective: Array, safety: Array, gap_safety: Array) -> Array:
        """Return which tasks have likely reached their targets, (count,) bool, by estimates of M+ - M-, P - D and D.

        M+ - M- is multiplied by `safety`, and P - D by `gap_safety`, before it is compared with its target: both are
        larger where earlier estimates turned out to be too low.
        """
        is_near = np.full(len(distance), self.is_bound)
        if self.tolerance is not None:
            is_near &= safety * distance <= self.tolerance
        if self.relative_gap is not None:
            is_near &= gap_safety * gap <= self.relative_gap * (dual_objective + gap)
        return is_near

    def near_after(self, sweep: SweepStatistics, first_gap: Array, dual_objective: Array, safety: Array) -> Array:
        """Return which tasks have likely reached their targets at the end of a sweep, (count,) bool.

        `share_of_gap` only limits work, so the gap is compared with it without a safety factor.
        """
        if sweep.visits == 0:
            return np.zeros(len(first_gap), bool)
        gap = sweep.sums.gap
        is_near = self.near(sweep.distance, _AT_END * gap, dual_objective, safety, safety)
        return is_near if self.share_of_gap is None else is_near | (gap <= self.share_of_gap * first_gap)


def limit_reached(
    passes: int, max_passes: int, seconds: float, max_seconds: float | None, is_stopping: bool
) -> str | None:
    """Return the limit that ends training, near the optimum or not: "max_passes", "max_seconds", "stopped" or None."""
    if passes >= max_passes:
        return "max_passes"
    if is_late(seconds, max_seconds):
        return "max_seconds"
    return "stopped" if is_stopping else None


def is_late(seconds: float, max_seconds: float | None) -> bool:
    """Whether a job that has taken `seconds` has used up its time; `max_seconds` None: it has no limit."""
    return max_seconds is not None and seconds >= max_seconds


def has_enough_sweeps(sweeps: int, settings: TrainerSettings, seconds: float) -> bool:
    """Whether a pass ends after this number of sweeps. At pace "fixed" a pass has `updates_per_row` sweeps."""
    if settings.pace == "fixed":
        return sweeps >= max(1.0, settings.options.updates_per_row)
    most = _MOST_SWEEPS if StoppingTargets.of(settings).is_bound else _MOST_SWEEPS_UNBOUND
    return is_late(seconds, settings.max_seconds) or sweeps >= most


def has_risen(before: Array, now: Array, least: Array | float = 0.0) -> Array:
    """Return whether each D (count,) has risen from `before` to `now` by more than rounding, and more than `least`."""
    return np.asarray(now > before + np.maximum(_ROUNDING * np.abs(before), least))


def have_stalled(D: list[Array]) -> bool:
    """Whether the last _STALLED_SWEEPS sweeps of a run raised no task's D. D: -inf, then D (count,) of each sweep."""
    return len(D) > _STALLED_SWEEPS + 1 and not has_risen(D[-1 - _STALLED_SWEEPS], D[-1]).any()


def has_likely_fallen(before: float, now: float, target: float | None) -> bool:
    """Whether a figure, measured while w moved in a pass, is likely to be at its target at the w that ended the pass.

    The figure is assumed to fall again by the factor by which it fell from `before` to `now`.
    """
    return target is not None and now < before and now * (now / before) * _TO_SPARE <= target


Figures = list[tuple[float, float]]  # M+ - M- and the relative gap of each task


class Convergence:
    """Decides which tasks of a job have converged, and writes it into the state: training changes these no more."""

    def __init__(self, state: State, settings: TrainerSettings, is_dual: bool) -> None:
        self._state = state
        self._settings, self._targets = settings, StoppingTargets.of(settings)
        self._is_dual = is_dual
        self._lanes = state.lanes[: settings.tasks.count]
        self._by = self._lanes["converged_by"]
        self._dual_objective: Array | None = None  # of the pass before
        self._passes_alike = 0

    @property
    def reason(self) -> str | None:
        """Why all tasks have converged, a name in CONVERGED; None: at least one task has not converged."""
        return reason_of_all(self._by)

    def stop_reason(self, passes: int, seconds: float) -> str | None:
        """Return why the job ends after `passes` passes, in `seconds` seconds; None: it goes on. Called once a pass."""
        settings, is_stopping = self._settings, bool(self._state.control["stop"])
        limit = limit_reached(passes, settings.max_passes, seconds, settings.max_seconds, is_stopping)
        return self.reason or limit or (STALLED if self._has_stalled() else None)

    def _has_stalled(self) -> bool:
        now, before = self._lanes["dual_objective"].copy(), self._dual_objective
        self._dual_objective = now
        has_given_up = int(self._state.control["slowdowns"]) & bits_of(["newton_given_up"]) and self._targets.is_bound
        gap = np.nan_to_num(self._lanes["primal_bound"] - now, posinf=0.0)
        is_alike = has_given_up and before is not None and not has_risen(before, now, gap / _HOPELESS).any()
        self._passes_alike = self._passes_alike + 1 if is_alike else 0
        return self._passes_alike >= _STALLED_PASSES

    def restore(self, reason: str | None) -> None:
        """Write into the state why a job had converged before a crash. With several tasks the state has it already."""
        if self._settings.tasks.width == 1 and reason in CONVERGED:
            self._by[:] = 1 + CONVERGED.index(reason)

    def forget(self) -> None:
        """Write into the state that no task has converged, for a job that goes on with other targets."""
        self._by[:] = 0

    def figures(self) -> Figures:
        """Return the figures of the last pass, which may have been before a crash; zeros if there was no pass."""
        columns = (self._lanes[name].tolist() for name in SHOWN_OF_LANE)
        return [
            (M_plus - M_minus, relative_gap(primal, dual))
            for M_plus, M_minus, dual, primal in zip(*columns, strict=True)
        ]

    def is_worth_a_look(self, progress: PassProgress, before: Figures) -> bool:
        """Whether to certify the present w now, since targets may be reached. `before`: figures of the pass before."""
        if progress.is_worth_a_look:
            return True
        each = zip(self._by.tolist(), self._suggested(progress), before, self.figures(), strict=True)
        return any(not by and (place or self._has_likely_fallen(*gaps)) for by, place, *gaps in each)

    def needs_certificate(self, progress: PassProgress) -> bool:
        """Whether a certificate can confirm what the pass suggests: without alpha it has no M+ - M-."""
        return self._is_dual or 1 + CONVERGED.index("relative_gap") in self._suggested(progress)

    def decide(self, progress: PassProgress, is_certified: bool) -> None:
        """Write into the state which tasks have converged, by the certificate if there is one, else by `progress`."""
        suggested = self._suggested(progress)
        for lane in np.flatnonzero(self._by == 0).tolist():
            self._by[lane] = self._certified(lane, progress) if is_certified else suggested[lane]

    def results(self, otherwise: str | None) -> list[dict[str, Any]]:
        """Return each task's result with its certificate. `otherwise`: stop reason of tasks that have not converged."""
        passes = self._state.control["finished_passes"]
        metric, lanes = "r2" if self._settings.tasks.is_regression else "accuracy", self._lanes
        training = [{metric: _known(score)} for score in lanes["final_training_score"].tolist()]
        left_out = [{"accuracy": _known(share) or None} for share in lanes["left_out_accuracy"].tolist()]
        certified = [lane_result(by, otherwise, passes, self._certificate(k)) for k, by in enumerate(self._by.tolist())]
        return [
            {**each, "training": score, "leave_one_out": share}
            for each, score, share in zip(certified, training, left_out, strict=True)
        ]

    def _suggested(self, progress: PassProgress) -> list[int]:
        return suggested(self._targets, progress)

    def _has_likely_fallen(self, before: tuple[float, float], now: tuple[float, float]) -> bool:
        targets = self._targets
        is_unknown = targets.tolerance is not None and self._state.control["rows_unvisited"]
        if is_unknown or not (self._is_dual and targets.is_bound):
            return False
        each = zip(before, now, (targets.tolerance, targets.relative_gap), strict=True)
        return all(
            target is None or figure <= target or has_likely_fallen(earlier, figure, target)
            for earlier, figure, target in each
        )

    def _certified(self, lane: int, progress: PassProgress) -> int:
        """Return the index in CONVERGED, from 1, of the target that a task has reached by its certificate; 0: none.

        The figures of a pass do not suffice: rows are visited while w moves, screened rows are left out, and the bound
        on the gap belongs to the best w so far. Only the figure that a solver without alpha has in place of M+ - M- is
        taken from the pass, since no certificate has it.
        """
        certificate = self._certificate(lane)
        distance = certificate["gap"] if self._is_dual else progress.distance
        return self._targets.reached(distance, certificate["relative_duality_gap"])

    def _certificate(self, lane: int) -> dict[str, float]:
        own = self._lanes[lane]
        names = ("primal_objective", "dual_objective", "M_plus", "M_minus", "w_error")
        primal, dual, M_plus, M_minus, w_error = (float(own[f"final_{name}"]) for name in names)
        if not self._is_dual:
            # The solver trains no alpha: D is its lower bound of the optimum, and there are no gradients.
            dual, M_plus, M_minus, w_error = self._state.control["dual_objective"], nan, nan, nan
        return certificate_of(primal, dual, M_plus, M_minus, w_error)


def suggested(targets: StoppingTargets, progress: PassProgress) -> list[int]:
    """Return for each task the index in CONVERGED, from 1, of the target that a pass suggests is reached; 0: none.

    A pass that missed rows says nothing about M+ - M-.
    """
    return [
        targets.reached(task.distance if task.is_of_all else nan, task.relative_gap_bound)
        for task in progress.lanes or (progress,)
    ]


def reason_of_all(converged_by: Array) -> str | None:
    """Return why all tasks have converged, by each task's index in CONVERGED, from 1; None if an index is 0."""
    return CONVERGED[int(converged_by.max()) - 1] if converged_by.all() else None


def _known(figure: float) -> float | None:
    return None if isnan(figure) else figure


def lane_result(by: int, otherwise: str | None, passes: float, certificate: dict[str, float]) -> dict[str, Any]:
    """Return the result of a task. by: index in CONVERGED, from 1, of why it has converged; 0: it has not."""
    return {
        "converged": bool(by),
        "stop_reason": CONVERGED[by - 1] if by else otherwise,
        "passes": passes,
        "certificate": certificate,
    }
