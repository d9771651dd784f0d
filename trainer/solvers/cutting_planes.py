"""CPA and OCAS: solvers that bound the losses from below by cutting planes (cuts), each a sum over all rows.

Franc, Sonnenburg, "Optimized cutting plane algorithm for support vector machines", ICML 2008. The minimum of the
reduced problem is a lower bound of the optimum, the objective at the best w so far an upper one: a job reports these.

What differs from the paper, which solves the reduced problem exactly and keeps all cuts: the reduced problem is solved
until its gap is a twentieth of that between the bounds; a cut whose weight was 0 for fifty iterations is dropped; if
there are `max_cuts`, that of weight 0 for longest is dropped, or two are merged. The best lower bound so far counts.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import TypeVar

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.trainer.kernels.cutting_planes import breakpoints, minimise_on_simplex, move_along, slope_after
from streamsvm.trainer.rows.blocks import Block, Blocks
from streamsvm.trainer.rows.scans import BlockScans, Cut
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.options import BlockOptions
from streamsvm.trainer.updates.progress import Bracket, PassProgress

IDLE_ROUNDS = 50  # a cut is dropped after this number of rounds with weight 0
_MOST_STEPS = 100_000
_FEWEST_CUTS = 3


class Cuts:
    """At most `most` cuts of length `width`. When there are `most`, a new cut replaces the cut whose weight has been 0
    for longest; if all weights are above 0, the two cuts of least weight are merged. The lower bound never falls.

    kept  arrays of `resumable` from which to go on; empty: begin without cuts
    """

    def __init__(self, width: int, most: int, kept: Mapping[str, Array] = EMPTY) -> None:
        if most < _FEWEST_CUTS:
            raise ValueError(f"at least {_FEWEST_CUTS} cuts are needed, not {most}")
        self._most = most
        self._b = kept.get("cut_b", np.zeros(1))
        self._A = [np.zeros(width), *(kept[f"cut_{j}"] for j in range(1, len(self._b)))]
        self._H = kept.get("cut_H", np.zeros((1, 1)))
        self._u = kept.get("cut_u", np.ones(1))
        self._idle = kept.get("cut_idle", np.zeros(1, np.int64))
        self.lower_bound = float(kept.get("lower_bound", np.zeros(1))[0])

    def __len__(self) -> int:
        return len(self._A) - 1

    def add(self, A: Array, b: float) -> None:
        """Add the cut b - <A, w>. The array `A` (width,) is stored without a copy."""
        self._make_room()
        row = np.array([A @ other for other in self._A])
        self._A.append(A)
        self._b = np.append(self._b, b)
        self._H = np.block([[self._H, row[:, None]], [row[None, :], np.full((1, 1), A @ A)]])
        self._u = np.append(self._u, 0.0)
        self._idle = np.append(self._idle, 0)

    def solve(self, tolerance: float, w: Array) -> None:
        """Solve the reduced problem to `tolerance`, from its last solution on. Fill `w` (width,) with its minimum."""
        minimise_on_simplex(self._H, self._b, tolerance, _MOST_STEPS, self._u, np.empty(len(self._u)))
        self._u /= self._u.sum()
        self.minimum(w)
        self.lower_bound = max(self.lower_bound, float(self._b @ self._u - w @ w / 2))
        self._idle = np.where(self._u > 0.0, 0, self._idle + 1)
        self._keep(self._idle < IDLE_ROUNDS)

    def minimum(self, w: Array) -> None:
        """Fill `w` (width,) with the minimum of the reduced problem, by its last solution."""
        w[:] = 0.0
        for j in np.flatnonzero(self._u):
            w += self._u[j] * self._A[j]

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which new Cuts go on, as their `kept`."""
        cuts = {f"cut_{j}": A for j, A in enumerate(self._A) if j}
        sums = {"cut_b": self._b, "cut_H": self._H, "cut_u": self._u, "cut_idle": self._idle}
        return {**cuts, **sums, "lower_bound": np.array([self.lower_bound])}

    def _make_room(self) -> None:
        if len(self) < self._most:
            return
        idle = self._idle.copy()
        idle[0] = 0
        longest = int(idle.argmax())
        if idle[longest]:
            self._keep(np.arange(len(idle)) != longest)
        else:
            self._merge(*(1 + np.argsort(self._u[1:], kind="stable")[:2]).tolist())

    def _merge(self, i: int, j: int) -> None:
        """Replace cuts i and j by their mean, weighted by u: the minimum and the lower bound do not change."""
        share = self._u[i] / (self._u[i] + self._u[j])
        self._A[i] = share * self._A[i] + (1.0 - share) * self._A[j]
        mean = np.eye(len(self._u))
        mean[i, i], mean[i, j] = share, 1.0 - share
        self._b = mean @ self._b
        self._H = mean @ self._H @ mean.T
        self._u[i] += self._u[j]
        self._keep(np.arange(len(self._u)) != j)

    def _keep(self, kept: Array) -> None:
        """Drop all cuts but those `kept` (m,) bool, and cut 0."""
        kept[0] = True
        self._A = [A for A, stays in zip(self._A, kept.tolist(), strict=True) if stays]
        self._b, self._u, self._idle = self._b[kept], self._u[kept], self._idle[kept]
        self._H = np.ascontiguousarray(self._H[np.ix_(kept, kept)])


_T = TypeVar("_T")
_PART_ROWS = 1 << 16  # rows of a thread's task
_MOST_SORTED = 1 << 12
_MU = 0.1  # OCAS cuts at best w + _MU (w_t - best w), where w_t is the minimum of the reduced problem
_INNER_SHARE = 0.05  # the reduced problem is solved to this share of the gap
_ROUNDING = 1e-13


@dataclass(frozen=True)
class CuttingPlaneOptions(BlockOptions):
    """Options of the solvers cpa and ocas."""

    max_cuts: int = option(200, "most cutting planes held at a time, each as long as the weights", ge=3, le=10_000)


class _Bounds(Cuts):
    """The reduced problem, whose minimum is a lower bound of the optimum, and the least objective so far."""

    def __init__(self, width: int, most: int, kept: Mapping[str, Array]) -> None:
        super().__init__(width, most, kept)
        self._upper, self._at_zero = kept.get("bounds", np.array([inf, nan])).tolist()

    @property
    def has_cuts(self) -> bool:
        """Whether a cut has been made."""
        return self._upper < inf

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which new _Bounds go on, as their `kept`."""
        return {**super().resumable(), "bounds": np.array([self._upper, self._at_zero])}

    def meet(self, objective: float) -> bool:
        """Take in the objective at some w; return whether it is the least so far."""
        is_least = objective < self._upper
        self._upper = min(self._upper, objective)
        return is_least

    def cut(self, cut: Cut, w: Array) -> None:
        """Add a cut, and fill `w` (width,) with the minimum of the reduced problem."""
        self._at_zero = cut.losses_at_zero
        self.add(cut.A, cut.b)
        gap = self._upper - self.lower_bound
        self.solve(max(_INNER_SHARE * gap, _ROUNDING * self._upper), w)

    def progress(self, blocks: Blocks, end: Block) -> Bracket:
        """Return the progress at the end of a pass, whose last block is `end`."""
        return Bracket(
            pass_=end.step.pass_,
            updates=end.step.pass_ * end.step.n_rows,
            M_plus=nan,
            M_minus=nan,
            rows_unvisited=blocks.count_unvisited(end.step),
            dual_objective=self.lower_bound,
            primal_bound=self._upper,
            free_rows=0,
            primal_at_zero=self._at_zero,
        )


def cut_bytes(_n_rows: int, width: int, threads: int, options: CuttingPlaneOptions) -> int:
    """Return the bytes that CPA may hold: for `max_cuts` cuts, each thread's part of the next, a few vectors, and H."""
    cuts = options.max_cuts
    return 8 * ((cuts + threads + 4) * width + (cuts + 1) ** 2)


def ocas_bytes(n_rows: int, width: int, threads: int, options: CuttingPlaneOptions) -> int:
    """Return the bytes that OCAS may hold: those of CPA, and 12 a row."""
    return cut_bytes(n_rows, width, threads, options) + 12 * n_rows


def cpa(settings: TrainerSettings, blocks: Blocks, _alpha: Array, all_w: Array) -> Generator[PassProgress, None, None]:
    """Train w (features, 1) in place, from the given w on: w is the best so far. Yields after every pass.

    An iteration is one pass: the objective, and a cut, at the minimum of the reduced problem; at first at the given w.
    """
    w = all_w.reshape(-1)
    bounds = _Bounds(len(w), settings.options.max_cuts, blocks.kept)
    blocks.keep(bounds.resumable, sections=False)
    w_t = w.copy()
    if bounds.has_cuts:
        bounds.minimum(w_t)
    with ThreadPoolExecutor(settings.threads) as pool:
        scans = BlockScans(blocks, settings, len(w), settings.threads, pool)
        while True:
            cut, end = scans.outputs(all_w, w_t)
            if bounds.meet(float(w_t @ w_t) / 2 + cut.losses):
                w[:] = w_t
            bounds.cut(cut, w_t)
            yield bounds.progress(blocks, end)


def ocas(settings: TrainerSettings, blocks: Blocks, alpha: Array, all_w: Array) -> Generator[PassProgress, None, None]:
    """Train w (features, 1) in place, from the given w on. Yields after every pass.

    An iteration is two passes: one for a cut, one for the rows' changes along the line from w to the minimum of the
    reduced problem; w moves to the least objective on that line. Holds 12 bytes a row: how far it is below the margin,
    in float64, since all iterations add up in it, and its change, in float32. The reported objective is right to 1e-7.
    """
    kept, w = blocks.kept, all_w.reshape(-1)
    bounds = _Bounds(len(w), settings.options.max_cuts, kept)
    slack, change = kept.get("slack", np.zeros(len(alpha))), kept.get("change", np.zeros(len(alpha), np.float32))
    # The step length of the last pass's line search; nan: the last pass made a cut.
    k = float(kept.get("moved", [nan])[0])
    blocks.keep(
        lambda: {**bounds.resumable(), "slack": slack, "change": change, "moved": np.array([k])}, sections=False
    )
    w_t = np.empty_like(w)
    bounds.minimum(w_t)
    with ThreadPoolExecutor(settings.threads) as pool:
        scans = BlockScans(blocks, settings, len(w), settings.threads, pool)
        while True:
            if not bounds.has_cuts:
                cut, end = scans.outputs(all_w, w, slack)
                bounds.meet(float(w @ w) / 2 + cut.losses)
                bounds.cut(cut, w_t)
            elif isnan(k):
                direction = w_t - w
                end = scans.changes(all_w, direction, change)
                line = Line(slack, change, float(w @ direction), float(direction @ direction), pool)
                k = line.minimum()
                w += k * direction
                bounds.meet(float(w @ w) / 2 + line.move(k))
            else:
                cut, end = scans.cut(all_w, slack, change, _MU * (1.0 - k))
                bounds.cut(cut, w_t)
                k = nan
            yield bounds.progress(blocks, end)


class Line:
    """Exact line search over many rows, on several threads and in little memory.

    It minimises f(k) = 1/2 |w + k d|^2 + sum_i max(0, c_i + k B_i) over k >= 0 (`trainer.kernels.cutting_planes`).

    c (n,) float64, B (n,) float32;  inner = <w, d>, square = |d|^2

    Bisection finds an interval that has the minimum and few breakpoints. Only these breakpoints are sorted. The result
    does not depend on the number of threads.
    """

    def __init__(self, c: Array, B: Array, inner: float, square: float, pool: Executor) -> None:
        self._c = c
        self._B = B
        self._inner = inner
        self._square = square
        self._pool = pool

    def minimum(self) -> float:
        """Return the k >= 0 where f is least; 0 if d = 0."""
        if self._square == 0.0 or self._slope(0.0) >= 0.0:
            return 0.0
        low, high = 0.0, 1.0
        while self._slope(high) < 0.0:
            low, high = high, 2.0 * high
        # The slope rises from below 0 to 0 or more in (low, high].
        while sum(count for _, count in self._slopes(low, high)) > _MOST_SORTED:
            middle = (low + high) / 2.0
            if not low < middle < high:
                # Many breakpoints at one place, which is the minimum.
                return high
            if self._slope(middle) < 0.0:
                low = middle
            else:
                high = middle
        return self._walk(low, high)

    def move(self, k: float) -> float:
        """Update c in place to its value at w + k d; return the losses there, sum_i max(0, c_i)."""
        return sum(self._map(lambda c, B: move_along(c, B, k)))

    def _walk(self, low: float, high: float) -> float:
        place, jump = self._breakpoints(low, high)
        # The slope just after each breakpoint, up to the first where it is not below 0.
        constant = self._inner + self._rows_slope(low)
        after = constant + np.cumsum(jump) + self._square * place
        turn = int(np.searchsorted(after, 0.0))
        if turn < len(place) and after[turn] - jump[turn] < 0.0:
            return float(place[turn])
        return min(high, -(constant + float(jump[:turn].sum())) / self._square)

    def _slope(self, k: float) -> float:
        """Return the derivative f' just after k."""
        return self._inner + self._square * k + self._rows_slope(k)

    def _rows_slope(self, k: float) -> float:
        return sum(slope for slope, _ in self._slopes(k, k))

    def _slopes(self, low: float, high: float) -> Iterator[tuple[float, int]]:
        return self._map(lambda c, B: slope_after(c, B, low, high))

    def _breakpoints(self, low: float, high: float) -> tuple[Array, Array]:
        """Return the breakpoints k_i in (low, high], ascending, and the jump |B_i| of f' at each."""

        def find(c: Array, B: Array) -> tuple[Array, Array]:
            _, count = slope_after(c, B, low, high)
            place, jump = np.empty(count), np.empty(count)
            breakpoints(c, B, low, high, place, jump)
            return place, jump

        places, jumps = zip(*self._map(find), strict=True)
        place, jump = np.concatenate(places), np.concatenate(jumps)
        order = np.argsort(place, kind="stable")
        return place[order], jump[order]

    def _map(self, function: Callable[[Array, Array], _T]) -> Iterator[_T]:
        starts = range(0, len(self._c), _PART_ROWS)
        parts = [slice(start, start + _PART_ROWS) for start in starts]
        return self._pool.map(lambda part: function(self._c[part], self._B[part]), parts)
