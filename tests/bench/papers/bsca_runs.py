"""Epochs of a kernel machine on a budget, one thread, reader and trainer in turn in this process; what they decide."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from streamsvm.storage.models.decision import squared_norm
from tests.bench import jobs
from tests.bench.machines.data import Problem
from tests.bench.machines.machine import Machine, machine_of
from tests.bench.papers.runs import kept
from tests.bench.papers.verdict import is_above
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving

BUDGET = 500
_CACHE = 1 << 30  # holds any of the sets


@dataclass(frozen=True)
class Epoch:
    """A run after so many passes.

    visits           so far, for each row of the data
    seconds          of processor time, reading the rows in the first pass included; merging_seconds of them
    primal           P of f over all rows; None: not asked for
    dual             sum alpha - |f|^2 / 2, no bound where vectors were merged; None alike
    accuracy         share of the rows held out that are told right; None alike
    free, bounded    share of rows with 0 < alpha < C, and mean alpha / C
    """

    passes: int
    visits: float
    seconds: float
    merging_seconds: float
    merges: int
    degradation: float
    primal: float | None
    dual: float | None
    accuracy: float | None
    free: float
    bounded: float

    @property
    def merging_share(self) -> float:
        """Of the seconds."""
        return self.merging_seconds / self.seconds

    @property
    def merge_microseconds(self) -> float:
        """Of one merge."""
        return 1e6 * self.merging_seconds / max(self.merges, 1)


def epochs(
    own: Problem, dataset: Path, passes: int, seed: int, looked_at: Collection[int], **way: object
) -> list[Epoch]:
    """A run of so many passes; P and accuracy of those to be looked at."""
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
                judged = (None, None, None)
                if progress.pass_ in looked_at:
                    judged = _judged(own, machine_of(run, dataset), session.alpha)
                alpha = session.alpha / own.C
                found.append(
                    Epoch(
                        progress.pass_, progress.updates / len(own.y), seconds, merging_seconds, progress.merges,
                        progress.weight_degradation, *judged,
                        float(np.mean((alpha > 0) & (alpha < 1))), float(np.mean(alpha)),
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


def warm_up(directory: Path, ways: Sequence[dict[str, object]]) -> None:
    """Compile, or load, all that these ways need, so that no run has to."""
    X, y = random_problem()
    small = Problem("small", X, y, X, y, 1.0, 1.0)
    dataset = jobs.ingested(directory / "small", X, y)
    for way in ways:
        epochs(small, dataset, 2, 0, (1, 2), **{**way, "budget": 20})


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


def is_less(ours: Sequence[float], theirs: Sequence[float], least: float = 0.0) -> bool | None:
    """Whether ours are the smaller ones, in pairs (`is_above`); inf: a run that did not get there.

    None: no test tells, or the medians differ by no more than `least`.
    """
    if abs(median(ours) - median(theirs)) <= least:
        return None
    return is_above(their - our for our, their in zip(ours, theirs, strict=True))


def is_less_accurate(
    ours: Sequence[float], theirs: Sequence[float], held_out: int, allowed: float = 0.0
) -> bool | None:
    """Whether the median accuracy of ours is the smaller one by more than `allowed`.

    None: no test tells, or, in errors, they differ by no more than the root of their number.
    """
    errors = [[1 - accuracy for accuracy in each] for each in (theirs, ours)]
    return is_less(*errors, least=max(allowed, math.sqrt(max(map(median, errors)) / held_out)))


def listed(names: Sequence[object]) -> str:
    """Names with commas, or `none`."""
    return ", ".join(map(str, names)) if names else "none"
