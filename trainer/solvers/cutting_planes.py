"""CPA and OCAS: cutting planes of the losses, each of them a sum over all rows.

Franc, Sonnenburg, "Optimized cutting plane algorithm for support vector machines", ICML 2008. The minimum of the
reduced problem is a lower bound of the objective, the best w so far an upper one: they are the certificate.

What differs from the paper, which solves the reduced problem whole and keeps all planes: it is solved until its gap is
a twentieth of that between the bounds; a plane whose weight was 0 for fifty steps is dropped, and of more than
`max_cuts` the one that was 0 for longest, or two are merged. The best lower bound so far counts.
"""

from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, isnan, nan

import numpy as np

from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.rows.blocks import Block, Blocks
from streamsvm.trainer.rows.scans import Cut, Scans
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.solvers.cuts import Cuts
from streamsvm.trainer.solvers.line_search import Line
from streamsvm.trainer.solvers.options import BlockOptions
from streamsvm.trainer.updates.progress import Bracket, Progress

_MU = 0.1  # OCAS cuts at best w + _MU (w_t - best w), where w_t is the minimum of the reduced problem
_INNER_SHARE = 0.05  # the reduced problem is solved to this share of the gap
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Options(BlockOptions):
    """See `trainer.solvers.options`."""

    max_cuts: int = option(200, "most cutting planes held at a time, each as long as the weights", ge=3, le=10_000)


class _Bounds:
    """The reduced problem, whose minimum is a lower bound, and the least objective so far."""

    def __init__(self, width: int, most: int, kept: Mapping[str, Array]) -> None:
        self._cuts = Cuts(width, most, kept)
        self._upper, self._at_zero = kept.get("bounds", np.array([inf, nan])).tolist()

    @property
    def has_cuts(self) -> bool:
        """Whether a cut has been made."""
        return self._upper < inf

    def minimum(self, w: Array) -> None:
        """`w` (width,) becomes the minimum of the reduced problem."""
        self._cuts.minimum(w)

    def resumable(self) -> dict[str, Array]:
        """The arrays from which new _Bounds go on, as their `kept`."""
        return {**self._cuts.resumable(), "bounds": np.array([self._upper, self._at_zero])}

    def meet(self, objective: float) -> bool:
        """Take an objective into account; returns whether it is the least so far."""
        is_least = objective < self._upper
        self._upper = min(self._upper, objective)
        return is_least

    def cut(self, cut: Cut, w: Array) -> None:
        """Add a cut; `w` (width,) becomes the minimum of the reduced problem."""
        self._at_zero = cut.losses_at_zero
        self._cuts.add(cut.A, cut.b)
        gap = self._upper - self._cuts.lower_bound
        self._cuts.solve(max(_INNER_SHARE * gap, _ROUNDING * self._upper), w)

    def progress(self, blocks: Blocks, end: Block) -> Bracket:
        """The progress at the end of a pass, whose last block is `end`."""
        return Bracket(
            pass_=end.pass_,
            updates=end.pass_ * end.step.n_rows,
            M_plus=nan,
            M_minus=nan,
            rows_unvisited=blocks.count_unvisited(end),
            dual_objective=self._cuts.lower_bound,
            primal_bound=self._upper,
            free_rows=0,
            primal_at_zero=self._at_zero,
        )


def cut_bytes(_n_rows: int, width: int, threads: int, options: Options) -> int:
    """The bytes that CPA may hold: `max_cuts` cuts, each thread's part of the next one, a few more vectors, and H."""
    cuts = options.max_cuts
    return 8 * ((cuts + threads + 4) * width + (cuts + 1) ** 2)


def ocas_bytes(n_rows: int, width: int, threads: int, options: Options) -> int:
    """The bytes that OCAS may hold."""
    return cut_bytes(n_rows, width, threads, options) + 12 * n_rows


def cpa(settings: TrainerSettings, blocks: Blocks, _alpha: Array, all_w: Array) -> Generator[Progress, None, None]:
    """One pass an iteration: objective and cut at the minimum of the reduced problem. `w` (width,) is the best so far.

    Starts from the w it is given.
    """
    w = all_w.reshape(-1)
    bounds = _Bounds(len(w), settings.options.max_cuts, blocks.kept)
    blocks.keep(bounds.resumable, sections=False)
    w_t = w.copy()
    if bounds.has_cuts:
        bounds.minimum(w_t)
    with ThreadPoolExecutor(settings.threads) as pool:
        scans = Scans(blocks, settings, len(w), settings.threads, pool)
        while True:
            cut, end = scans.outputs(all_w, w_t)
            if bounds.meet(float(w_t @ w_t) / 2 + cut.losses):
                w[:] = w_t
            bounds.cut(cut, w_t)
            yield bounds.progress(blocks, end)


def ocas(settings: TrainerSettings, blocks: Blocks, alpha: Array, all_w: Array) -> Generator[Progress, None, None]:
    """Two passes an iteration: one for the cut, one for what rows change along the line from `w` to the minimum of the
    reduced problem. `w` (width,) goes to the least objective on that line.

    Starts from the w it is given. Holds 12 bytes a row: how far it is below the margin, in float64, since all
    iterations add up in it, and its change, in float32. The objective it tells is right to about 1e-7.
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
        scans = Scans(blocks, settings, len(w), settings.threads, pool)
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
