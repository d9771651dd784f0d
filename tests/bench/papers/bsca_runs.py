"""Epochs of a kernel machine on a budget, one thread, each looked at: reader and trainer take turns in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench import curve, jobs
from tests.bench.machines.data import Problem
from tests.bench.machines.machine import machine_of
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving

BUDGET = 500
_CACHE = 1 << 30  # holds any of the sets


@dataclass(frozen=True)
class Epoch:
    """A run after so many passes.

    visits           so far, for each row of the data
    seconds          of the visits, by the clock; merging_seconds of them
    primal           P of f over all rows; None: not asked for
    accuracy         share of the rows held out that are told right; None alike
    """

    passes: int
    visits: float
    seconds: float
    merging_seconds: float
    merges: int
    degradation: float
    primal: float | None
    accuracy: float | None

    @property
    def merging_share(self) -> float:
        """Of the seconds."""
        return self.merging_seconds / self.seconds

    @property
    def merge_microseconds(self) -> float:
        """Of one merge."""
        return 1e6 * self.merging_seconds / max(self.merges, 1)


def epochs(own: Problem, dataset: Path, passes: int, seed: int, every: bool, **way: object) -> list[Epoch]:
    """A run of so many passes; `every`: P and accuracy of each of them, else of the last one alone."""
    found: list[Epoch] = []
    given = {"C": own.C, "gamma": own.gamma, "budget": BUDGET, "seed": seed, "threads": 1, "tolerance": None}
    with jobs.scratch() as directory:
        run = directory / "run"
        with solving(run, dataset, _CACHE, 1.0, **{"solver": "bsca", **given, **way}) as session:
            while len(found) < passes:
                progress = next(session.passes)
                judged = every or len(found) + 1 == passes
                machine = machine_of(run, dataset) if judged else None
                found.append(
                    Epoch(
                        progress.pass_, progress.updates / len(own.y), progress.visiting_seconds,
                        progress.merging_seconds, progress.merges, progress.weight_degradation,
                        None if machine is None else machine.primal(own.X, own.y, own.C),
                        None if machine is None else machine.accuracy(own.X_test, own.y_test),
                    )
                )  # fmt: skip
    return found


def warm_up(directory: Path, ways: Sequence[dict[str, object]]) -> None:
    """Compile, or load, all that these ways need, so that no run has to."""
    X, y = random_problem()
    small = Problem("small", X, y, X, y, 1.0, 1.0)
    dataset = jobs.ingested(directory / "small", X, y)
    for way in ways:
        epochs(small, dataset, 2, 0, True, **{**way, "budget": 20})


def cost_to(run: Sequence[Epoch], level: float, what: str) -> float | None:
    """Visits a row, or seconds (`what`), after which P first was `level`; None: it never was.

    Between two epochs P is taken to fall evenly.
    """
    before: Epoch | None = None
    for epoch in run:
        assert epoch.primal is not None
        if epoch.primal <= level:
            if before is None or before.primal is None:
                return getattr(epoch, what)
            share = (before.primal - level) / (before.primal - epoch.primal)
            return getattr(before, what) + share * (getattr(epoch, what) - getattr(before, what))
        before = epoch
    return None


def saving(uniform: Sequence[Sequence[Epoch]], adaptive: Sequence[Sequence[Epoch]], level: float, what: str):
    """1 - adaptive / uniform of the median cost to this P; None: one of them did not get there in most runs."""
    costs = [curve.median_or_none([cost_to(run, level, what) for run in runs]) for runs in (uniform, adaptive)]
    if costs[0] is None or costs[1] is None:
        return None
    return 1 - costs[1] / costs[0]


def level_of(uniform: Sequence[Sequence[Epoch]], passes: int) -> float:
    """P of the uniform runs after so many epochs, their median."""
    return median(next(epoch.primal for epoch in run if epoch.passes == passes) for run in uniform)  # type: ignore[type-var]
