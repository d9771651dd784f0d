"""Newton steps of one task: decides what to ask of the rows, and what follows from the answers."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.newton.requests import Asks, Look, Looked, LookKind, NewtonFigures, Product, Slope
from streamsvm.trainer.problem.losses import Loss
from streamsvm.trainer.problem.objective import relative_gap

_MOST = 60  # evaluations
_ENOUGH = 1e-10  # the search ends once |slope| is at most this share of |slope at 0|
_EPSILON = 2.0**-52  # a number is rounded by half of it, at most


class LineSearch:
    """Searches for the t > 0 where a convex function is least: `take` its derivatives at `t` until `has_ended`.

    Uses Newton's method in an interval that contains t; bisection or doubling where a step would leave the interval.

    slope  the first derivative at 0, below 0
    """

    def __init__(self, slope: float) -> None:
        self.t, self.has_ended = 1.0, False
        self._low, self._high = 0.0, float("inf")
        self._enough, self._left = _ENOUGH * abs(slope), _MOST

    def take(self, first: float, second: float, size: float) -> None:
        """Take in the first and second derivative at `t`; size: sum of the absolute values of the terms of the first.

        If the first derivative may be nothing but rounding, the search ends: else it would bisect to the last bit of t.
        """
        self._left -= 1
        if abs(first) <= max(self._enough, _EPSILON * size):
            self.has_ended = True
            return
        t = self.t
        self._low, self._high = (t, self._high) if first < 0.0 else (self._low, t)
        following = t - first / second
        if not self._low < following < self._high:
            following = 2.0 * t if self._high == float("inf") else (self._low + self._high) / 2.0
        is_narrow = self._high < float("inf") and self._high - self._low <= 1e-15 * self._high
        self.has_ended = following == t or is_narrow or self._left == 0
        if not (following == t or is_narrow):
            self.t = following


# w is near enough to the minimum of phi when |gradient|^2 is at most this times `moved` / sigma, and D has not fallen:
# further steps at a centre do not reduce the number of centres.
_INNER_RATIO = 10.0
# After a centre that took few steps sigma grows. After many it falls: the minimum of phi is then easier to find.
_FIRST_SIGMA, _GROWTH, _FEW_STEPS = 1.0, 5.0, 6
_FALL, _MANY_STEPS = 30.0, 15
# A task that takes more steps, or comes to a smaller sigma, is given up: such small moves are nothing but rounding.
_MOST_STEPS, _LEAST_SIGMA = 400, 1e-16
_MOST_CHECKS = 8  # most checks of v, the w of alpha; after them the model gets w, since rounding keeps v and w apart
# v is checked again when |gradient|^2 is this share of its value at the last check, or after more than _CHECK_SCANS
# scans if w is near still. After _VAIN_SCANS scans without a check the model gets w, too.
_CHECK_SHARE, _CHECK_SCANS, _VAIN_SCANS = 0.1, 1, 20
_ROUNDING = 1e-14  # a D that is lower by this share of its terms may differ by rounding alone
_STEPS_FROM_POINT = 10  # steps after which m is computed anew from w: until then changes of m are added up

_LOOKS = {Asks.STEP: LookKind.SLOPE, Asks.CHECK: LookKind.CHECK, Asks.POINT: LookKind.POINT}

IsNear = Callable[[float, float], bool]  # (M+ - M-, relative gap) -> whether they are near enough to their targets


class Left(NamedTuple):
    """The state of a task from which its steps go on later, together with the centre.

    w (features,), which is not the w of the centre; the other fields are as in TaskSteps
    """

    w: Array
    sigma: float
    most_sigma: float
    steps_at_centre: int
    checks: int


class Best(NamedTuple):
    """A w (features,), and the primal objective P there: the least P that a task's steps have reached."""

    w: Array
    primal: float


class TaskSteps:
    """A task's state between requests. The rows have m and the centre (own_rows.py); alpha follows from them.

    w, sigma       the present w (features,) and the present sigma
    centre_w       (features,) the w of the centre, from which sweeps and later jobs go on
    best           what the model is made of if training ends now; None: centre_w
    centre         sigma of the alpha that the rows are to make their centre next; None: they keep their centre
    product, look  the product and the question of the next request; None: the request has none
    """

    def __init__(self, loss: Loss, centre_w: Array, is_near: IsNear, left: Left | None = None) -> None:
        self._loss, self._is_near, self._left = loss, is_near, left
        self.w, self.centre_w = left.w if left else centre_w, centre_w
        self.sigma = np.inf
        self._most_sigma = np.inf
        self.primal, self.dual, self._centre_D = np.inf, -np.inf, -np.inf
        self.best: Best | None = None
        self._checks, self._has_failed_check = 0, False
        self._check_at, self._scans_since_check = np.inf, 0
        self._near: Best | None = None  # a w that was near enough, whose v was not
        self.steps = self._steps_at_centre = self._steps_since_point = 0
        self.is_done = self.is_stuck = False
        self.centre: float | None = None
        self.product: Product | None = None
        self.look: Look | None = None

    @property
    def left(self) -> Left:
        """The state from which the steps go on later."""
        return Left(self.w, self.sigma, self._most_sigma, self._steps_at_centre, self._checks)

    def begin(self) -> None:
        """Ask the rows for m at w, and for the figures of the centre."""
        self.sigma = np.inf if self._loss.is_smooth else _FIRST_SIGMA
        if self._left is not None:
            _, self.sigma, self._most_sigma, self._steps_at_centre, self._checks = self._left
        self._ask(self.w, Asks.POINT)
        self.look = Look(LookKind.BEGIN, self.sigma)

    def take(self, looked: Looked) -> None:
        """Take in the answer to `look`, and decide what to ask next."""
        if isinstance(looked, Slope):
            self._search_on(looked)
            return
        assert self.look is not None
        asked, self.look, self.found = self.look, None, looked[-1]
        if asked.kind is LookKind.BEGIN:
            self.reached = looked[0]
            self._centre_D = self.reached.dual - float(self.centre_w @ self.centre_w) / 2.0
        elif asked.kind is LookKind.MOVE:
            self.w = self.w + asked.t * self._vector
        self.primal = self._meet(self.w, self.found)
        if asked.kind is LookKind.CHECK:
            self._check(looked[0])

    def take_sums(self, v: Array, make_direction: Callable[[Array], Array]) -> None:
        """Take in v, the w of alpha, which a scan has added up, and decide what to ask next.

        make_direction  gradient (features,) -> direction of the step, the solution of the system
        """
        self._v, g = v, self.w - v
        squared_v = float(v @ v)
        self.dual = self.found.dual - squared_v / 2.0
        self._rounding = _ROUNDING * (abs(self.found.dual) + squared_v / 2.0)
        if self.sigma == np.inf and self.dual > self._centre_D:
            self._stand_at_alpha(v)  # as sigma is infinite, alpha does not depend on the centre
        squared = float(g @ g)
        self._scans_since_check += 1
        if self._has_failed_check and self._fail(squared):
            return
        if self._near is not None and self._scans_since_check > _VAIN_SCANS:
            self._end_at(self._near)
        elif self._is_near(self._distance, self.gap) and (
            squared <= self._check_at or self._scans_since_check > _CHECK_SCANS
        ):
            self._ask(v - self.w, Asks.CHECK)
        elif self._is_minimal(squared):
            self._move_centre()
        elif self._steps_since_point >= _STEPS_FROM_POINT:
            self._ask(self.w, Asks.POINT)
        elif self._loss.has_centre and self._steps_at_centre >= _MANY_STEPS:
            self._lower_sigma(self.sigma)
        else:
            self._step(g, make_direction)

    @property
    def gap(self) -> float:
        """The relative gap (P - D) / P by the last scan."""
        return relative_gap(self.primal, self.dual)

    @property
    def _distance(self) -> float:
        return self.found.M_plus - self.found.M_minus

    def _meet(self, w: Array, at_w: NewtonFigures) -> float:
        """Return P at w, by the figures there; store w if it is the best so far."""
        primal = float(w @ w) / 2.0 + at_w.losses
        if self.best is None or primal < self.best.primal:
            self.best = Best(w, primal)
        return primal

    def _step(self, g: Array, make_direction: Callable[[Array], Array]) -> None:
        direction = make_direction(g)
        self.steps += 1
        self._steps_at_centre += 1
        self._steps_since_point += 1
        descends = float(g @ direction) < 0.0  # not so where nothing is left but rounding
        if not descends and self._loss.has_centre:
            self._lower_sigma(min(self.sigma, _FIRST_SIGMA))
        else:
            self._ask(direction, Asks.STEP)
            self._begin_search(float(g @ direction))
        if not (descends or self._loss.has_centre) and self._is_near(self._distance, self.gap):
            self._end_at(Best(self.w, self.primal))
        else:
            is_endless = self.steps > _MOST_STEPS or self.sigma < _LEAST_SIGMA
            self.is_stuck = is_endless or not (descends or self._loss.has_centre)

    def _is_minimal(self, squared: float) -> bool:
        """Whether w is near enough to the minimum of phi, and alpha is a better centre than the present one."""
        if self.sigma == np.inf:
            return False
        rounding = self._rounding if self._steps_at_centre else 0.0
        return squared <= _INNER_RATIO * self.found.moved / self.sigma and self.dual >= self._centre_D - rounding

    def _move_centre(self) -> None:
        self._stand_at_alpha(self._v)
        growth = _GROWTH if self._steps_at_centre <= _FEW_STEPS else 1.0
        self.sigma = min(growth * self.sigma, self._most_sigma)
        self._steps_at_centre = 0
        self._ask(self.w, Asks.POINT)

    def _stand_at_alpha(self, w: Array) -> None:
        self.centre = self.sigma
        self.centre_w, self._centre_D, self.reached = w, self.dual, self.found

    def _lower_sigma(self, sigma: float) -> None:
        """Go on with `sigma` divided by _FALL, or with a part of the first sigma if `sigma` is inf."""
        self.sigma = (sigma if sigma < np.inf else _FIRST_SIGMA) / _FALL
        self._steps_at_centre = 0
        self._ask(self.w, Asks.POINT)

    def _check(self, at_v: NewtonFigures) -> None:
        """Decide by the figures at v whether v is near enough to replace w. If it is not, `_fail` has to follow."""
        primal = self._meet(self._v, at_v)
        self._checks += 1
        if self._is_near(at_v.M_plus - at_v.M_minus, relative_gap(primal, self.dual)):
            self.found = at_v
            self._stand_at_alpha(self._v)
            self.w, self.primal, self.best, self.is_done = self._v, primal, None, True
            return
        if self.dual >= self._centre_D - self._rounding:
            self._stand_at_alpha(self._v)
        if self._near is None or self.primal < self._near.primal:
            self._near = Best(self.w, self.primal)
        if self._checks >= _MOST_CHECKS:
            self._end_at(self._near)
        self._has_failed_check = not self.is_done

    def _end_at(self, near: Best) -> None:
        """End the task at a w that is near enough, though the w of the centre is not."""
        self.w, self.primal, self.dual = near.w, near.primal, self._centre_D
        self.best, self.is_done = near, True

    def _fail(self, squared: float) -> bool:
        """After a check that failed, go on at this centre or, each second time, with a smaller sigma: it rounds less.

        squared  |gradient|^2
        Returns whether this method has set the next request.
        """
        self._has_failed_check = False
        self._check_at, self._scans_since_check = _CHECK_SHARE * squared, 0
        if self._checks % 2 or not self._loss.has_centre:
            self._most_sigma = min(self._most_sigma, self.sigma)
            return False
        self._lower_sigma(self.sigma)
        self._most_sigma = self.sigma
        return True

    def _ask(self, vector: Array, asks: Asks) -> None:
        if asks is Asks.POINT:
            self._steps_since_point = 0
        self._vector, self.product = vector, Product(vector, asks)
        self.look = Look(_LOOKS[asks], self.sigma)

    def _begin_search(self, slope: float) -> None:
        self._search = LineSearch(slope)
        self._slope_of_w, self._squared = float(self.w @ self._vector), float(self._vector @ self._vector)
        self._size_of_w = float(np.abs(self.w) @ np.abs(self._vector))
        self.look = Look(LookKind.SLOPE, self.sigma, self._search.t)

    def _search_on(self, of_rows: Slope) -> None:
        """Go on with the line search by the derivatives of phi at w + t vector; `of_rows`: the rows' part of them."""
        search, t = self._search, self._search.t
        first, second = self._slope_of_w + t * self._squared - of_rows.first, self._squared + of_rows.second
        search.take(first, second, self._size_of_w + t * self._squared + of_rows.size)
        self.look = Look(LookKind.MOVE if search.has_ended else LookKind.SLOPE, self.sigma, search.t)
