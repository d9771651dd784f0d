"""One task's way to its optimum: what it asks of each scan, and what it makes of the answer."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.newton.line_search import best_step
from streamsvm.trainer.newton.rows import RowLabels, chunks
from streamsvm.trainer.problem.losses import Loss
from streamsvm.trainer.problem.objective import relative_gap
from streamsvm.trainer.problem.tasks import RowTerms

# A minimum of phi is near enough when |gradient|^2 is at most this share of |alpha - centre|^2 / sigma.
_INNER_SHARE = 1e-2
# After a centre that took few steps sigma grows. After many it falls: the minimum of phi is then easier to find.
_GROWTH, _FEW_STEPS = 5.0, 6
_FALL, _MANY_STEPS = 30.0, 15
_MOST_STEPS = 400  # a task that takes more is given up
_MOST_CHECKS = 8  # checks of v, the w of alpha; after so many w is the result: rounding keeps the two apart
_STEPS_FROM_POINT = 10  # after so many, m is computed anew from w: it has been added up step by step

IsNear = Callable[[float, float], bool]  # whether M+ - M- and the relative gap are near enough


class Asks(Enum):
    """Meanings of the products of all rows with `vector`.

    They are the change of m along a STEP; its change from w to v (CHECK); or m itself (POINT).
    """

    STEP = "step"
    CHECK = "check"
    POINT = "point"


class Figures(NamedTuple):
    """Sums over all rows at some m and alpha.

    losses, dual      of C_i loss_i, and of d_i(alpha_i)
    alpha             of alpha_i
    moved             of (alpha_i - centre_i)^2
    free              rows with h_i > 0
    M_plus, M_minus   largest and smallest projected gradient
    """

    losses: float
    dual: float
    alpha: float
    moved: float
    free: int
    M_plus: float
    M_minus: float


class TaskSteps:
    """A task's state between scans.

    w (features,) and sigma; alpha and h, which follow from them, are not kept: `proximal` computes them
    centre (n,), centre_w (features,): an alpha in its box and its w, the result if training ended now; `reached` are
    the figures there. centre is changed in place
    vector (features,) and `asks`: by what the next scan multiplies all rows, and for what purpose
    change (n,) is what that scan fills: products, times the row's sign in classification; or m, if `asks` says POINT
    """

    def __init__(self, loss: Loss, labels: RowLabels, C: Array, w: Array, alpha: Array, is_near: IsNear) -> None:
        self._loss, self._labels, self._C, self._is_near = loss, labels, C, is_near
        self._chunks = chunks(len(alpha))
        self.w, self.centre = w, alpha
        self._m, self.change = np.zeros((2, len(alpha)))
        self._largest_C = float(C.max(initial=0.0)) or 1.0
        self.sigma = np.inf if loss.is_smooth else self._largest_C
        self._most_sigma = np.inf
        self.primal, self.dual = np.inf, -np.inf
        self._checks, self._has_failed_check = 0, False
        self.steps = self._steps_at_centre = self._steps_since_point = 0
        self.centre_w, self._centre_D = w, -np.inf
        self.vector, self.asks = w, Asks.POINT
        self.is_done = self.is_stuck = False

    def take_products(self) -> None:
        """Called when a scan has filled `change`: do with it what was asked; then find the figures at m."""
        if self.asks is Asks.POINT:
            self._m[:] = self.change
            if self._centre_D == -np.inf:
                self.reached = self._evaluate(self._m, at_centre=True)
                self._centre_D = self.reached.dual - float(self.w @ self.w) / 2.0
        elif self.asks is Asks.STEP:
            t = best_step(self._slope)
            self.w = self.w + t * self.vector
            for chunk in self._chunks:
                self._m[chunk] += t * self.change[chunk]
        elif self._check():
            return
        self.found = self._evaluate(self._m)

    def proximal(self, terms: RowTerms, rows: Array | slice) -> tuple[Array, Array]:
        """alpha and h (k,) of these rows at w; `terms` are the terms of the rows."""
        return self._loss.proximal(terms, self.centre[rows], self.sigma, self._m[rows])

    def take_sums(self, v: Array, make_direction: Callable[[Array], Array]) -> None:
        """Called when a scan has found v, the w of alpha: decide what to ask next.

        make_direction: solves the system for a gradient.
        """
        self._v, g = v, self.w - v
        self.primal = float(self.w @ self.w) / 2.0 + self.found.losses
        self.dual = self.found.dual - float(v @ v) / 2.0
        if self.sigma == np.inf and self.dual > self._centre_D:
            self._stand_at_alpha(v)  # as sigma is infinite, alpha does not depend on the centre
        if self._has_failed_check:
            self._unite(g, make_direction)
        elif self._is_near(self._distance, self.gap):
            self._ask(v - self.w, Asks.CHECK)
        elif self._is_minimal(float(g @ g)):
            self._move_centre()
        elif self._steps_since_point >= _STEPS_FROM_POINT:
            self._ask(self.w, Asks.POINT)
        elif self._loss.has_centre and self._steps_at_centre >= _MANY_STEPS:
            self._lower_sigma()
        else:
            self._step(g, make_direction)

    @property
    def gap(self) -> float:
        """(P - D) / P of the last scan."""
        return relative_gap(self.primal, self.dual)

    @property
    def _distance(self) -> float:
        return self.found.M_plus - self.found.M_minus

    def _step(self, g: Array, make_direction: Callable[[Array], Array]) -> None:
        direction = make_direction(g)
        self.steps += 1
        self._steps_at_centre += 1
        self._steps_since_point += 1
        descends = float(g @ direction) < 0.0  # not so where nothing is left but rounding
        if not descends and self._loss.has_centre:
            self._lower_sigma()
        else:
            self._ask(direction, Asks.STEP)
        self.is_stuck = self.steps > _MOST_STEPS or (not descends and not self._loss.has_centre)

    def _is_minimal(self, squared: float) -> bool:
        """Whether w is near enough to the minimum of phi, and alpha a better centre than the last."""
        if self.sigma == np.inf:
            return False
        return squared <= _INNER_SHARE * self.found.moved / self.sigma and self.dual >= self._centre_D

    def _move_centre(self) -> None:
        self._stand_at_alpha(self._v)
        growth = _GROWTH if self._steps_at_centre <= _FEW_STEPS else 1.0
        self.sigma = min(growth * self.sigma, self._most_sigma)
        self._steps_at_centre = 0
        self._ask(self.w, Asks.POINT)

    def _stand_at_alpha(self, w: Array) -> None:
        for chunk in self._chunks:
            self.centre[chunk], _ = self.proximal(self._labels.terms(self._C, chunk), chunk)
        self.centre_w, self._centre_D, self.reached = w, self.dual, self.found

    def _lower_sigma(self) -> None:
        self.sigma = min(self.sigma, self._largest_C) / _FALL
        self._steps_at_centre = 0
        self._ask(self.w, Asks.POINT)

    def _check(self) -> bool:
        """Whether v is near enough to stand for w. If not, `_unite` has to follow."""
        self.change += self._m  # m at v: no third array is needed
        found = self._evaluate(self.change, alpha_of=self._m)
        primal = float(self._v @ self._v) / 2.0 + found.losses
        self._checks += 1
        if self._is_near(found.M_plus - found.M_minus, relative_gap(primal, self.dual)):
            self._stand_at_alpha(self._v)
            self.w, self.primal, self.found, self.is_done = self._v, primal, found, True
            self._m, self.change = self.change, self._m
        elif self._checks >= _MOST_CHECKS:
            self._stand_at_alpha(self.w)
            self.is_done = True
        self._has_failed_check = not self.is_done
        return self.is_done

    def _unite(self, g: Array, make_direction: Callable[[Array], Array]) -> None:
        """Bring v and w together by a step at this centre or, if that failed, by a smaller sigma: it rounds less."""
        self._has_failed_check = False
        if self._checks % 2 or not self._loss.has_centre:
            self._step(g, make_direction)
            return
        self._stand_at_alpha(self._v)
        self._lower_sigma()
        self._most_sigma = self.sigma

    def _ask(self, vector: Array, asks: Asks) -> None:
        if asks is Asks.POINT:
            self._steps_since_point = 0
        self.vector, self.asks = vector, asks

    def _slope(self, t: float) -> tuple[float, float]:
        """First and second derivative of phi at w + t vector."""
        squared = float(self.vector @ self.vector)
        first, second = float(self.w @ self.vector) + t * squared, squared
        for chunk in self._chunks:
            change, terms = self.change[chunk], self._labels.terms(self._C, chunk)
            alpha, h = self._loss.proximal(terms, self.centre[chunk], self.sigma, self._m[chunk] + t * change)
            first -= float(alpha @ change)
            second += float(h @ (change * change))
        return first, second

    def _evaluate(self, every_m: Array, alpha_of: Array | None = None, at_centre: bool = False) -> Figures:
        """Sums at m (n,) and at an alpha: that of m, that of another m (`alpha_of`), or the centre (`at_centre`)."""
        losses = dual = total = moved = 0.0
        free, M_plus, M_minus = 0, -np.inf, np.inf
        for chunk in self._chunks:
            terms, m, centre = self._labels.terms(self._C, chunk), every_m[chunk], self.centre[chunk]
            at = m if alpha_of is None else alpha_of[chunk]
            alpha, h = self._loss.proximal(terms, centre, self.sigma, at)
            alpha = centre if at_centre else alpha
            PG = self._loss.projected_gradient(terms, m, alpha)
            losses, dual = losses + self._loss.losses(terms, m), dual + self._loss.dual(terms, alpha)
            total += float(alpha.sum())
            moved += float(np.sum((alpha - centre) ** 2))
            free += int(np.count_nonzero(h))
            M_plus, M_minus = max(M_plus, PG.max(initial=-np.inf)), min(M_minus, PG.min(initial=np.inf))
        return Figures(losses, dual, total, moved, free, float(M_plus), float(M_minus))
