"""Which lanes of a job have converged. What a pass met suggests that one has; a certificate decides."""

from math import nan
from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import State
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import SHOWN_OF_LANE
from streamsvm.trainer.updates.progress import Progress, relative_gap
from streamsvm.trainer.updates.stop import CONVERGED, has_likely_fallen, seems_converged

Found = list[tuple[float, float]]  # M+ - M- and the relative gap of each lane


class Convergence:
    """Kept in the state: what has converged stays as it is."""

    def __init__(self, state: State, settings: TrainerSettings, is_dual: bool) -> None:
        self._state = state
        self._settings = settings
        self._is_dual = is_dual
        n_lanes = settings.group.n_problems if settings.group else 1
        self._lanes = state.lanes[:n_lanes]

    @property
    def _by(self) -> Array:
        return self._lanes["converged_by"]

    @property
    def reason(self) -> str | None:
        """Why all lanes have converged; None: they have not."""
        return CONVERGED[int(self._by.max()) - 1] if self._by.all() else None

    def restore(self, reason: str | None) -> None:
        """A job that had ended for this reason goes on to its end. Checkpoints of one lane do not say more."""
        if self._settings.group is None and reason in CONVERGED:
            self._by[:] = 1 + CONVERGED.index(reason)

    def forget(self) -> None:
        """The job goes on by other rules."""
        self._by[:] = 0

    def found(self) -> Found:
        """As of the last pass, one before a crash too; 0 if there was none."""
        figures = (self._lanes[name].tolist() for name in SHOWN_OF_LANE)
        return [
            (M_plus - M_minus, relative_gap(primal, dual))
            for M_plus, M_minus, dual, primal in zip(*figures, strict=True)
        ]

    def is_worth_a_look(self, progress: Progress, before: Found) -> bool:
        """Whether all rows should be looked at, at the w of now, rather than in a pass to find out."""
        if progress.is_worth_a_look:
            return True
        seen = zip(self._by.tolist(), self._reasons(progress), before, self.found(), strict=True)
        return any(not by and (reason or self._has_likely_fallen(*gaps)) for by, reason, *gaps in seen)

    def needs_certificate(self, progress: Progress) -> bool:
        """The gradients of a solver that does not train alpha are its own affair."""
        return self._is_dual or "relative_gap" in self._reasons(progress)

    def decide(self, progress: Progress, is_certified: bool) -> None:
        """Note which lanes have converged, by the certificate of now or, without one, by what the pass met."""
        reasons = self._reasons(progress)
        for lane in np.flatnonzero(self._by == 0).tolist():
            reason = self._certified(lane) if is_certified else reasons[lane]
            self._by[lane] = 1 + CONVERGED.index(reason) if reason else 0

    def results(self, otherwise: str | None) -> list[dict[str, Any]]:
        """Of each lane, with its certificate; `otherwise`: why those stopped that have not converged."""
        return [self._result(lane, by, otherwise) for lane, by in enumerate(self._by.tolist())]

    def _result(self, lane: int, by: int, otherwise: str | None) -> dict[str, Any]:
        return lane_result(by, otherwise, self._state.control["finished_passes"], self._certificate(lane))

    def _reasons(self, progress: Progress) -> list[str | None]:
        wanted = self._settings.tolerance, self._settings.relative_gap
        lanes = progress.lanes or (progress,)
        return [seems_converged(lane, *wanted) for lane in lanes]

    def _has_likely_fallen(self, before: tuple[float, float], now: tuple[float, float]) -> bool:
        tolerance = None if self._state.control["rows_unvisited"] else self._settings.tolerance
        wanted = tolerance, self._settings.relative_gap
        return self._is_dual and any(map(has_likely_fallen, before, now, wanted))

    def _certified(self, lane: int) -> str | None:
        """Whether all rows at one w agree that a lane has converged: a reason of CONVERGED, or None.

        A pass meets its rows at a moving w and leaves screened ones out, and its bound on the gap is that of the best w
        so far.
        """
        settings, certificate = self._settings, self._certificate(lane)
        if self._is_dual and settings.tolerance is not None and certificate["gap"] <= settings.tolerance:
            return "tolerance"
        if settings.relative_gap is not None and certificate["relative_duality_gap"] <= settings.relative_gap:
            return "relative_gap"
        return None

    def _certificate(self, lane: int) -> dict[str, float]:
        own = self._lanes[lane]
        names = ("primal_objective", "dual_objective", "M_plus", "M_minus", "w_error")
        primal, dual, M_plus, M_minus, w_error = (float(own[f"final_{name}"]) for name in names)
        if not self._is_dual:
            # alpha is not what it trained: its own lower bound stands, and there are no gradients.
            dual, M_plus, M_minus, w_error = self._state.control["dual_objective"], nan, nan, nan
        return certificate_of(primal, dual, M_plus, M_minus, w_error)


def certificate_of(primal: float, dual: float, M_plus: float, M_minus: float, w_error: float) -> dict[str, float]:
    """What all rows say of a lane at one w, as a result has it."""
    return {
        "m_plus": M_plus,
        "m_minus": M_minus,
        "gap": M_plus - M_minus,
        "primal_objective": primal,
        "dual_objective": dual,
        "relative_duality_gap": relative_gap(primal, dual),
        "w_error": w_error,
    }


def lane_result(by: int, otherwise: str | None, passes: float, certificate: dict[str, float]) -> dict[str, Any]:
    """What came of a lane. by: the place in CONVERGED of why it has converged, from 1; 0: it has not."""
    return {
        "converged": bool(by),
        "stop_reason": CONVERGED[by - 1] if by else otherwise,
        "passes": passes,
        "certificate": certificate,
    }
