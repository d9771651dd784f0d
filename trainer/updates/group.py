"""Trains a group of lanes side by side: the figures, momentum and visits of all of them at once."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import EMPTY, Array, Figure
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.visit import Dual, Weights
from streamsvm.trainer.kernels.visit_lanes import visit_lanes
from streamsvm.trainer.problem.lane_kernel import move_lanes, squares_of_lanes, sums_of_lanes
from streamsvm.trainer.problem.lanes import Group
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import Link
from streamsvm.trainer.updates.lanes import Lanes, terms_of
from streamsvm.trainer.updates.momentum import LATE_SWEEPS, Momentum, beta
from streamsvm.trainer.updates.progress import Progress
from streamsvm.trainer.updates.statistics import Tally, warm_tally
from streamsvm.trainer.updates.sums import Sums
from streamsvm.trainer.updates.updater import NO_LOCK, NO_REST, Note, Visiting, Visits
from streamsvm.trainer.updates.variables import Variables

Parts = tuple[Variables, Tally, Visiting, Callable[..., Momentum]]


def lane_parts(settings: TrainerSettings, link: Link, alpha: Array, w: Array, kept: Mapping[str, Array]) -> Parts:
    """What trains a group of lanes: alpha (n_rows, width) and w (features, width), all that there is of them."""
    group = settings.group
    assert isinstance(group, Group)
    lanes = Lanes(terms_of(group, settings.loss, link.weight), alpha, w, lambda: link.room, lambda: link.has_converged)
    tally = LaneTally(lanes, len(group.lanes), kept)
    visitor = LaneVisitor(lanes, tally, link.note, settings.problem.visited)
    return lanes, tally, visitor, partial(LaneMomentum, lanes)


def warm_lane_tally(group: Group, loss: str, alpha: Array) -> dict[str, Array]:
    """What a Tally has to be given as `kept` if training begins with this alpha, (n_rows, width); a lane has one C."""
    if not alpha.any():
        return {}
    found = _no_tally(group.width)
    for number, lane in enumerate(group.lanes):
        warm = warm_tally(Problem(loss, lane.C_positive, lane.C_negative), alpha[:, number])
        found[:, number] = warm.get("tally", found[:, number])
    return {"tally": found}


def _no_tally(lanes: int) -> Array:
    return np.array([(0, 0.0, 0, np.inf, -np.inf, np.inf, 0.0)] * lanes).T


class LaneTally(Tally):
    """Figures are (count,), see Lanes; those of lanes that are not trained stay what they were."""

    def __init__(self, lanes: Lanes, n_lanes: int, kept: Mapping[str, Array] = EMPTY) -> None:
        super().__init__(lanes.alpha, lanes.w, {"tally": kept.get("tally", _no_tally(lanes.count))})
        self._lanes = lanes
        self._n_lanes = n_lanes
        self._D = kept.get("dual_objectives", np.zeros(lanes.count))

    def resumable(self) -> dict[str, Array]:
        return {**super().resumable(), "dual_objectives": self._D}

    def dual_objective(self, step: Step) -> Figure:
        lanes = self._lanes
        alpha, w = np.empty(lanes.w.shape[1]), np.empty(lanes.w.shape[1])
        sums_of_lanes(lanes.alpha[: step.n_rows], alpha)
        squares_of_lanes(lanes.w[: step.width], w)
        found = lanes.of_all(alpha - w / 2, 0.0) - self._curvature
        self._D = np.where(lanes.is_left, found, self._D)
        return self._D

    def begin_sweep(self) -> None:
        left = self._lanes.is_left
        self._M_plus = np.where(left, -np.inf, self._M_plus)
        self._M_minus = np.where(left, np.inf, self._M_minus)

    def progress(self, step: Step, M_plus: Figure, M_minus: Figure, rows_unvisited: int) -> Progress:
        D = self.dual_objective(step)
        each = tuple(
            Progress(
                pass_=step.pass_,
                updates=self.updates,
                M_plus=float(self._M_plus[lane]),
                M_minus=float(self._M_minus[lane]),
                rows_unvisited=rows_unvisited,
                dual_objective=float(D[lane]),
                primal_bound=float(self._primal_bound[lane]),
                free_rows=int(self._free_rows[lane]),
            )
            for lane in range(self._n_lanes)
        )
        return replace(max(each, key=lambda lane: lane.gap), lanes=each)


class LaneMomentum(Momentum):
    """In each lane by itself."""

    def __init__(self, lanes: Lanes, alpha: Array, w: Array, tally: Tally, earlier_w: Array) -> None:
        self._lanes = lanes
        super().__init__(alpha, w, tally, earlier_w)

    def _move(self, gaps: list[Figure]) -> None:
        late = np.array(gaps[-1 - LATE_SWEEPS :]).T.tolist()  # a list a lane; none if there are no gaps yet
        shares = [beta(lane, len(gaps)) for lane in late]
        share = self._lanes.of_left(np.where(self._yields, 0.0, shares or 0.0))
        move_lanes(self._alpha, self._earlier_alpha, share)
        move_lanes(self.w, self._earlier_w, share)


class LaneVisitor(Visiting):
    """Of the hinge family. `before` is (n_rows, width)."""

    def __init__(self, lanes: Lanes, tally: Tally, note: Note, visited: Visited = UNMAPPED) -> None:
        super().__init__(tally, note, lanes.alpha, visited)
        self._lanes = lanes

    def _visit(self, rows: Segment, order: Array, is_alone: bool) -> Visits:
        lanes = self._lanes
        width = lanes.w.shape[1]
        sums = Sums(np.full(width, -np.inf), np.full(width, np.inf), *(np.zeros(width) for _ in range(4)))
        score = np.empty(len(order), np.float32)
        visit_lanes(
            order,
            rows.columns,
            lanes.terms,
            Dual(lanes.alpha.reshape(-1), self.before.reshape(-1)),
            Weights(lanes.w.reshape(-1), NO_LOCK if is_alone else self._lock),
            score,
            sums,
        )
        others = Sums(-np.inf, np.inf, 0.0, 0.0, 0.0, 0.0)
        found = (lanes.of_all(figures, other) for figures, other in zip(sums, others, strict=True))
        return Visits(score, NO_REST, NO_REST, Sums(*found))
