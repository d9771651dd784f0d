"""Epochs of a kernel machine on a budget, one thread, each looked at: reader and trainer take turns in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from streamsvm.storage.models.decision import squared_norm
from tests.bench import jobs
from tests.bench.machines.data import Problem
from tests.bench.machines.machine import Machine, machine_of
from tests.bench.papers.runs import kept
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving

BUDGET = 500
_CACHE = 1 << 30  # holds any of the sets
# Whether P and accuracy are wanted after a pass, by its number and the `spread` and `change` of all passes so far.
Judged = Callable[[int, Sequence[float], Sequence[float]], bool]


@dataclass(frozen=True)
class Epoch:
    """A run after so many passes.

    visits           so far, for each row of the data
    seconds          of processor time, reading the rows in the first pass included; merging_seconds of them
    spread           S = log(max g - min g) over its steps
    primal           P of f over all rows; None: not asked for
    dual             sum alpha - |f|^2 / 2, no bound where vectors were merged; None alike
    accuracy         share of the rows held out that are told right; None alike
    free, bounded    share of rows with 0 < alpha < C, and mean alpha / C
    change           what the program's own rule of ending compares with a tolerance: the larger of the last two
                     |S_r - S_(r-1)|, S of rounds that visit each row
    """

    passes: int
    visits: float
    seconds: float
    merging_seconds: float
    merges: int
    degradation: float
    spread: float
    primal: float | None
    dual: float | None
    accuracy: float | None
    free: float
    bounded: float
    change: float = math.inf

    @property
    def merging_share(self) -> float:
        """Of the seconds."""
        return self.merging_seconds / self.seconds

    @property
    def merge_microseconds(self) -> float:
        """Of one merge."""
        return 1e6 * self.merging_seconds / max(self.merges, 1)


def epochs(
    own: Problem,
    dataset: Path,
    passes: int,
    seed: int,
    is_judged: Judged,
    **way: object,
) -> list[Epoch]:
    """A run of so many passes; P and accuracy of those that `is_judged` picks."""
    found: list[Epoch] = []
    seconds = 0.0
    given = {"C": own.C, "gamma": own.gamma, "budget": BUDGET, "seed": seed, "threads": 1, "tolerance": None}
    with jobs.scratch() as directory:
        run = directory / "run"
        with solving(run, dataset, _CACHE, 1.0, **{"solver": "bsca", **given, **way}) as session:
            while len(found) < passes:
                began = time.process_time()
                progress = next(session.passes)
                seconds += time.process_time() - began
                merging_seconds = seconds * progress.merging_seconds / progress.visiting_seconds
                change = progress.spread_change
                spread = math.log(max(progress.largest_gradient - progress.smallest_gradient, 1e-300))
                judged = (None, None, None)
                spreads, changes = [epoch.spread for epoch in found], [epoch.change for epoch in found]
                if is_judged(progress.pass_, [*spreads, spread], [*changes, change]):
                    judged = _judged(own, machine_of(run, dataset), session.alpha)
                alpha = session.alpha / own.C
                found.append(
                    Epoch(
                        progress.pass_, progress.updates / len(own.y), seconds, merging_seconds, progress.merges,
                        progress.weight_degradation, spread, *judged,
                        float(np.mean((alpha > 0) & (alpha < 1))), float(np.mean(alpha)), change,
                    )
                )  # fmt: skip
    return found


def epochs_kept(name: str, key: tuple[object, ...], own: Problem, *given: object, **way: object) -> list[Epoch]:
    """The same, or what was found at this commit before (`runs.kept`)."""
    found = kept(name, (own.name, *key), lambda: [asdict(epoch) for epoch in epochs(own, *given, **way)])  # type: ignore[arg-type]
    return [Epoch(**epoch) for epoch in found]


def _judged(own: Problem, machine: Machine, alpha: np.ndarray) -> tuple[float, float, float]:
    """P, dual and accuracy."""
    half_squared_norm = squared_norm(machine.vectors, machine.beta) / 2
    primal = machine.primal(own.X, own.y, own.C)
    return primal, float(alpha.sum()) - half_squared_norm, machine.accuracy(own.X_test, own.y_test)


def at(passes: Collection[int]) -> Judged:
    """Picks these passes."""
    return lambda pass_, _spreads, _changes: pass_ in passes


def warm_up(directory: Path, ways: Sequence[dict[str, object]]) -> None:
    """Compile, or load, all that these ways need, so that no run has to."""
    X, y = random_problem()
    small = Problem("small", X, y, X, y, 1.0, 1.0)
    dataset = jobs.ingested(directory / "small", X, y)
    for way in ways:
        epochs(small, dataset, 2, 0, at((1, 2)), **{**way, "budget": 20})


def judged(run: Sequence[Epoch]) -> list[Epoch]:
    """Epochs whose P and accuracy are known."""
    return [epoch for epoch in run if epoch.primal is not None]


def cost_to(run: Sequence[Epoch], level: float, what: str) -> float | None:
    """Visits a row, or seconds (`what`), after which P first was `level`; None: it never was.

    Between two epochs P is taken to fall evenly.
    """
    before: Epoch | None = None
    for epoch in judged(run):
        if epoch.primal <= level:
            if before is None:
                return getattr(epoch, what)
            share = (before.primal - level) / (before.primal - epoch.primal)
            return getattr(before, what) + share * (getattr(epoch, what) - getattr(before, what))
        before = epoch
    return None


def saving(uniform: Sequence[Sequence[Epoch]], adaptive: Sequence[Sequence[Epoch]], level: float, what: str):
    """1 - adaptive / uniform of the median cost to this P; None: one of them did not get there in most runs."""
    ours, theirs = (median(costs_to(runs, level, what)) for runs in (adaptive, uniform))
    return None if math.inf in (ours, theirs) else 1 - ours / theirs


def costs_to(runs: Sequence[Sequence[Epoch]], level: float, what: str) -> list[float]:
    """A cost a seed, inf where P never was `level`."""
    costs = [cost_to(run, level, what) for run in runs]
    return [math.inf if cost is None else cost for cost in costs]


def level_of(uniform: Sequence[Sequence[Epoch]], passes: int) -> float:
    """The largest P of the uniform runs after so many epochs: all of them get there."""
    return max(next(epoch.primal for epoch in run if epoch.passes == passes) for run in uniform)  # type: ignore[type-var,return-value]
